"""Pipelines: orders of cells, the programs of stages, proofs, and training on them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from ir_reader import read_program
from tier import THOROUGH
from verify.proof.daily import PRIMES, proof_of

import xg
from xg.cli import main
from xg.codegen.backend import load
from xg.cost.stage_cost import kept
from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir import placement as plan
from xg.passes.ir_text import spell_program
from xg.verify.controls import Trial, controls
from xg.verify.pipeline_proof import PipelineComparison, checked
from xg.verify.plan_proof import PipelineResidues, Runs, prepared, prove_ranks
from xg.verify.rank_comparison import ArrayDifference
from xg_runtime.cells import (
    SCHEDULES,
    Cell,
    Impossible,
    bubble,
    check,
    in_flight,
    timeline,
)
from xg_runtime.errors import RankError
from xg_runtime.module import Module, StageModule
from xg_runtime.ranks import current, simulate
from xg_runtime.ranks.call import Incoming
from xg_runtime.stage_messages import actions, check_actions

ON_RANK_3 = '__import__("xg_runtime.ranks").ranks.rank("N_D")'
NET = """\
dim B, D = 6, V = 7, N_L = 4
mesh N_P = 2, N_D = 2
block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D], b [D]
    X -> •<=W -> ⊕<-BC[B](b) -> tanh -> DO(0.1) -> ⊕<-X : Y
}
block Net(ids [B] in V, t [B] in V) -> loss [] {
    param E [V, D]
    ids -> Emb(E) : X [B, D]
    X -> N_L × Layer as layers -> •<=T(E) -> CE<-t : loss
}
plan PP of Net {
    layers [N_L/N_P]
}
plan Turns of Net {
    layers [N_L/N_P]
    schedule 1F1B(4, 2)
}
plan DP of Net {
    ids, t [B/N_D]
}
"""


def net(folder: Path, plan: str = "") -> Path:
    """The file, with another plan."""
    (folder / "net.xg").write_text(NET + plan, encoding="utf-8")
    return folder / "net.xg"


@pytest.mark.parametrize(("ranks", "parts"), list(product((1, 2, 3, 5), (1, 2, 4, 7))))
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_can_be_run_and_wait_as_the_formula_says(
    name: str, ranks: int, parts: int
) -> None:
    orders = SCHEDULES[name](ranks, parts, 1)
    check(orders, parts)
    if name == "ZBH1":
        assert len(timeline(orders)) == 3 * ranks * parts
        idle = ranks - 1 + max(0, ranks - parts)
        assert bubble(orders) == Fraction(idle, 3 * parts + idle)
        assert [in_flight(order) for order in orders] == [min(parts, ranks)] * ranks
        return
    assert len(timeline(orders)) == 2 * ranks * parts
    assert bubble(orders) == Fraction(ranks - 1, parts + ranks - 1)
    most = [parts if name == "GPipe" else min(parts, ranks - place) for place in range(ranks)]
    assert [in_flight(order) for order in orders] == most


@pytest.mark.parametrize(
    ("ranks", "groups", "turns"), list(product((1, 2, 3, 5), (1, 2, 3), (2, 3, 4)))
)
@pytest.mark.parametrize("name", SCHEDULES)
def test_interleaved_schedules_wait_as_much_less_as_ranks_have_stages(
    name: str, ranks: int, groups: int, turns: int
) -> None:
    parts = groups * ranks
    orders = SCHEDULES[name](ranks, parts, turns)
    check(orders, parts, turns)
    halves = 3 if name == "ZBH1" else 1
    assert len(timeline(orders)) == max(2, halves) * ranks * parts * turns
    assert bubble(orders) == Fraction(ranks - 1, halves * turns * parts + ranks - 1)
    ahead = [2 * (ranks - 1 - rank) + (turns - 1) * ranks + 1 for rank in range(ranks)]
    ahead = ahead[:1] * ranks if name == "ZBH1" else ahead
    most = [turns * parts if name == "GPipe" else min(n, turns * parts) for n in ahead]
    assert [in_flight(order) for order in orders] == most
    assert all(kept(name, ranks - 1 - rank, ranks, turns, parts) == n
               for rank, n in enumerate(most) if ranks * turns > 1)  # fmt: skip


def test_schedules_of_plans_are_those_of_the_runtime() -> None:
    assert tuple(SCHEDULES) == plan.SCHEDULES


def test_orders_that_no_rank_can_run_are_found() -> None:
    first, second = SCHEDULES["1F1B"](2, 2, 1)
    with pytest.raises(Impossible, match="every rank waits"):
        check([first, (Cell(True, 0), *(cell for cell in second if cell != Cell(True, 0)))], 2)
    with pytest.raises(Impossible, match="forward passes as"):
        check([first[1:], second], 2)
    with pytest.raises(Impossible, match="backward passes as"):
        check([(*first[:2], first[3], first[2]), second], 2)
    # Rank 1 needs an output of stage 2 before the last one of stage 0: messages follow the cells.
    first, second = SCHEDULES["GPipe"](2, 2, 2)
    other = (second[0], second[2], second[1], *second[3:])
    check([first, other], 2, 2)
    check_actions(actions((first, other)))


def test_halves_of_backward_passes_have_an_order_too() -> None:
    orders = SCHEDULES["ZBH1"](3, 4, 1)
    late = [cell for cell in orders[0] if cell.half == "weights"]
    assert [str(cell) for cell in late] == ["W0", "W1", "W2", "W3"]
    without = [cell for cell in orders[0] if cell != late[2]]
    with pytest.raises(Impossible, match=r"backward passes, weights, as \[0, 1, 3\]"):
        check([tuple(without), *orders[1:]], 4)
    early = [late[0], *(cell for cell in orders[0] if cell != late[0])]
    with pytest.raises(Impossible, match="every rank waits, 0: W0"):
        check([tuple(early), *orders[1:]], 4)
    mixed = [replace(cell, half="") if cell.half == "inputs" else cell for cell in orders[0]]
    with pytest.raises(Impossible, match="backward passes, inputs, as"):
        check([tuple(mixed), *orders[1:]], 4)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_gradients_of_parameters_wait_for_their_half(tmp_path: Path, backend: str) -> None:
    """Those of inputs are there at once, and the rest only where it is called."""
    last = xg.compile(net(tmp_path), plan="PP").stages[1]
    module = cast(StageModule, last.on_arrays(backend))
    params = module.init(0, np.float64)
    given = {"received": np.ones((3, 6)), "t": np.arange(3)}
    _, saved = module.forward(params, given)
    whole = module.backward(params, saved, {"loss": np.ones(())})
    later: list[Callable[[], None]] = []
    found = module.backward_in_parts(params, saved, {"loss": np.ones(())}, later)
    assert list(found) == ["received"]
    for each in later:
        each()
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_a_half_that_is_left_out_is_found(tmp_path: Path) -> None:
    found = prepared(read_project(net(tmp_path)), "Net", "PP", {})
    comparison = PipelineComparison.of(found.one, found.many, 0, "ZBH1")
    alone = comparison.on_one_device(found.one.on_arrays())
    modules = [stage.on_arrays() for stage in found.many.stages]
    assert not comparison.differs(alone, comparison.on_ranks(modules))
    text = found.many.stages[1].source()
    (call,) = re.findall(r"^        later\.append\(part\)$", text, re.M)
    forgets = load(text.replace(call, "        pass"), "stage")
    with pytest.raises(RankError, match="rank 1: internal error: KeyError: 'E'"):
        comparison.on_ranks([modules[0], cast(Module, forgets)])


def test_a_stage_holds_its_rounds_and_what_is_around_them(tmp_path: Path) -> None:
    first, last = xg.compile(net(tmp_path), plan="PP").stages
    assert list(first.inputs) == ["ids"]
    assert list(first.outputs) == ["sent"]
    assert list(first.params) == ["E", "layers.0.W", "layers.0.b", "layers.1.W", "layers.1.b"]
    assert list(last.inputs) == ["received", "t"]
    assert list(last.outputs) == ["loss"]
    assert list(last.params) == ["E", "layers.2.W", "layers.2.b", "layers.3.W", "layers.3.b"]
    assert last.graphs.stage is not None
    assert last.graphs.stage.holders == {"E": (0, 1)}
    assert "for i in range(2, 4):" in last.source()
    with pytest.raises(xg.DiagnosticError, match="a program for each of its 2 stages"):
        xg.compile(net(tmp_path), plan="PP").source()


def test_stages_send_no_gradient_of_what_is_frozen(tmp_path: Path) -> None:
    path = net(tmp_path)
    path.write_text(NET.replace("param E [V, D]", "param E [V, D] frozen"), encoding="utf-8")
    first, last = (each.graphs for each in xg.compile(path, plan="PP").stages)
    assert first.stage is not None
    assert last.stage is not None
    assert first.stage.holders == last.stage.holders == {}


# The others have what these have.
PROVEN = ["PP", "Turns × DP", *(["PP × DP", "Turns"] if THOROUGH else [])]


@pytest.mark.parametrize("plan", PROVEN)
def test_pipelines_are_proven(tmp_path: Path, plan: str) -> None:
    proof = proof_of(read_project(net(tmp_path)), "Net", plan, {}, ["numpy", "torch"])
    assert proof.floats is not None
    assert proof.passed
    assert proof.exact is not None
    assert [each.prime for each in proof.exact] == list(PRIMES)
    kinds = [each.kind for each in proof.floats.controls if each.verdict == "needed"]
    ends = len(proof.program.stages) - 1
    assert kinds.count("send") == 2 * ends + 2  # both ways between neighbors, E there and back
    backward = [each.code for each in proof.floats.controls if each.code.startswith("backward")]
    assert sorted(backward) == [f"backward, stage {n + 1} to stage {n}" for n in range(ends)]


def test_kernels_of_stages_are_proven(tmp_path: Path) -> None:
    project = read_project(net(tmp_path))
    assert prove_ranks(
        project, "Net", "PP × DP", {"N_L": 2, "N_P": 2}, 0, exact=False, kernels=True
    ).passed


def test_the_proof_sees_a_wrong_gradient_traffic_and_bits(tmp_path: Path) -> None:
    found = prepared(read_project(net(tmp_path)), "Net", "PP", {})
    comparison = PipelineComparison.of(found.one, found.many, 0, "1F1B")
    alone = comparison.on_one_device(found.one.on_arrays())
    modules = [stage.on_arrays() for stage in found.many.stages]
    runs = comparison.on_ranks(modules)
    assert not comparison.differs(alone, runs)
    assert all(each.agrees for each in checked(found.many, runs, len(comparison.parts)))
    key = ("forward", "send", "N_P")
    other = [replace(runs[0], sent={**runs[0].sent, key: (1, 1)}), runs[1]]
    assert not all(each.agrees for each in checked(found.many, other, len(comparison.parts)))
    for name in ("layers.3.W", "E"):
        wrong = {**runs[1].gradients, name: runs[1].gradients[name] * (1 + 1e-14)}
        bits = comparison.differs(alone, [runs[0], replace(runs[1], gradients=wrong)])
        assert bits == (name == "E")  # which stage 0 has too
    wrong = {**runs[1].gradients, "layers.3.W": runs[1].gradients["layers.3.W"] * 1.01}
    assert comparison.differs(alone, [runs[0], replace(runs[1], gradients=wrong)])
    late = replace(runs[1], outputs=(*runs[1].outputs[1:], runs[1].outputs[0]))
    assert comparison.differs(alone, [runs[0], late])


def test_residues_need_every_send(tmp_path: Path) -> None:
    found = prepared(read_project(net(tmp_path)), "Net", "PP", {})
    residues = PipelineResidues.of(found.one, found.many, PRIMES[0], 0)
    runs = residues.on_ranks()
    assert residues.compare(runs).first is None

    def differences(runs: Runs) -> Iterator[ArrayDifference]:
        first = residues.compare(runs).first
        said.append(first)
        yield from () if first is None else (ArrayDifference(first, inf, 0, None),)

    said: list[str | None] = []
    trial = Trial((), (), residues.on_ranks, differences, residues.single_device_run[0].gradients)
    needed = {each.code: each.verdict for each in controls(trial)}
    assert needed == dict.fromkeys(
        [
            "forward, stage 0 to stage 1",
            "backward, stage 1 to stage 0",
            "shared E, rank 1 to rank 0",
            "shared E, rank 0 to rank 1",
        ],
        "needed",
    )
    assert said == [
        "• of line 5 in layers.2: rank 0 differs from one device, stage 1",
        "d of line 5 in layers.1: rank 0 differs from one device, stage 0",
        "dE of stage 1",
        "dE of stage 0",
    ]


@pytest.mark.parametrize("plan", ["PP", "Turns"])
def test_gradients_do_not_depend_on_the_order(tmp_path: Path, plan: str) -> None:
    found = prepared(read_project(net(tmp_path)), "Net", plan, {})
    modules = [stage.on_arrays() for stage in found.many.stages]
    runs = [
        PipelineComparison.of(found.one, found.many, 0, name).on_ranks(modules)
        for name in SCHEDULES
    ]
    for one, *others in zip(*runs, strict=True):
        for name, gradient in one.gradients.items():
            assert all(np.array_equal(gradient, each.gradients[name]) for each in others)


def test_stages_go_round_the_ranks(tmp_path: Path) -> None:
    program = xg.compile(net(tmp_path), plan="Turns")
    assert program.mesh == {"N_P": 2}
    assert len(program.stages) == 4
    assert [each.graphs.stage and each.graphs.stage.holders for each in program.stages] == [
        {"E": (0, 3)}, {}, {}, {"E": (0, 3)}
    ]  # fmt: skip
    alone = xg.compile(net(tmp_path), plan="Turns", mesh={"N_P": 1}).stages
    assert [each.graphs.stage and each.graphs.stage.holders for each in alone] == [{}, {}]


def test_a_schedule_is_read_from_the_printed_program(tmp_path: Path) -> None:
    whole = type_project(read_project(net(tmp_path)), "Net", {}, "Turns")
    read = read_program(spell_program(whole)).plan
    assert read is not None
    assert [(s.block, s.name, s.parts, s.turns) for s in read.schedules] == [
        (whole.main.block_id, "1F1B", 4, 2)
    ]


def test_a_shared_parameter_may_be_called_as_a_pass(tmp_path: Path) -> None:
    """The sum of its gradients over stages is no message of the forward pass."""
    text = """\
dim B = 4, D = 5, N_L = 4
mesh N_P = 2

block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tanh : Y
}

block Net(X [B, D]) -> loss [] {
    param forward [D, D]
    X -> •<=forward                            : H
    H -> N_L × Layer as layers                 : Y
    Y -> •<=forward -> ⊙<-Y -> mean[B, D] : loss
}

plan PP of Net {
    layers [N_L/N_P]
}
"""
    path = tmp_path / "net.xg"
    path.write_text(text, encoding="utf-8")
    assert main(["verify", str(path), "--plan", "PP", "--against", "single"]) == 0


def test_a_rank_that_waits_for_nothing_is_named() -> None:
    def rank() -> None:
        mesh = current()
        mesh.diverge("N_P")
        if mesh.rank("N_P") == 1:
            mesh.exchange("N_P", [], [Incoming(0, "")])

    with pytest.raises(RankError, match="rank 1 waits for what rank 0 never sends"):
        simulate({"N_P": 2}, rank)


def test_where_ranks_of_a_stage_differ_the_edge_is_named(tmp_path: Path) -> None:
    found = prepared(read_project(net(tmp_path)), "Net", "PP × DP", {"N_P": 2, "N_D": 2, "N_L": 2})
    comparison = PipelineComparison.of(found.one, found.many, 0, "1F1B")
    first, last = (stage.source() for stage in found.many.stages)
    planted = last.replace("all_reduce(dE_i,", f"all_reduce(dE_i.T if {ON_RANK_3} else dE_i,")
    modules = [cast(Module, load(code, "stage")) for code in (first, planted)]
    with pytest.raises(RankError, match=r"^rank 3 .* called all_reduce over N_D") as caught:
        comparison.on_ranks(modules)
    (code,) = caught.value.details
    assert code.startswith("rank 3 (N_P = 1, N_D = 1): dE = all_reduce(dE_i.T")
    assert code.endswith("# [V, D], all_reduce")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("layers [D/N_P]", "Net has no repeat layers"),
        ("layers [N_L]", "layers is a call, and has no shape"),
        ("layers [N_L/N_P, D]", "layers is a call, and has no shape"),
        ("layers [N_L/N_P] again", "layers is a call, and has no shape"),
        ("layers [N_L/N_P]\n    layers [N_L/N_D]", "layers is shared among stages too"),
        ("schedule 1F1B(8)", "Net has no stages under this plan"),
        ("layers [N_L/N_P]\n    schedule GPipe\n    schedule 1F1B", "a pipeline has one schedule"),
        (
            "layers [N_L/N_P]\n    schedule 1F1B(3, 2)",
            "3 microbatches do not divide into groups of N_P = 2",
        ),
        ("layers [N_L/N_P]\n    schedule 1F1B(4, 3)", "N_L = 4 is not divisible by 3*N_P = 6"),
    ],
)
def test_lines_that_cut_no_row_are_refused(tmp_path: Path, lines: str, said: str) -> None:
    file = net(tmp_path, f"plan Wrong of Net {{\n    {lines}\n}}\n")
    with pytest.raises(xg.DiagnosticError, match=re.escape(said)):
        _ = xg.compile(file, plan="Wrong").stages


def test_rounds_have_to_divide_and_to_have_a_number(tmp_path: Path) -> None:
    with pytest.raises(xg.DiagnosticError, match="N_L = 4 is not divisible by N_P = 3"):
        xg.compile(net(tmp_path), plan="PP", mesh={"N_P": 3})
    file = tmp_path / "free.xg"
    file.write_text(NET.replace("N_L = 4", "N_L"), encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match="N_L has no number"):
        _ = xg.compile(file, plan="PP").stages


SIZES = ["--set", "D=8", "--set", "N_L=2", "--set", "N_H=2", "--set", "S=8", "--set", "S_max=8"]
RUN = ["--batch", "4", "--accumulate", "4", "--eval", "2", "--dtype", "float64", "--checkpoint"]


TRANSFORMER = Path(__file__).parents[2] / "diagrams/models/transformer.xg"


def trained(folder: Path, *words: str, file: Path = TRANSFORMER) -> list[dict[str, float]]:
    """The log of two steps of the transformer."""
    out = ["--steps", "2", *RUN, "1", "--out", str(folder)]
    assert main(["train", str(file), *SIZES, *out, *words]) == 0
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_training_in_stages_is_training(tmp_path: Path) -> None:
    alone = trained(tmp_path / "alone")
    staged = trained(tmp_path / "staged", "--plan", "PP × DP", "--set", "N_D=1")
    assert len(staged) == len(alone)
    for one, other in zip(alone, staged, strict=True):
        assert other == pytest.approx(one, rel=1e-11)
    # A run goes on on one device, and one of one device in stages, from the checkpoint before.
    for folder, words in (("staged", []), ("alone", ["--plan", "PP"])):
        steps = sorted((tmp_path / folder / "checkpoints").iterdir())
        shutil.rmtree(steps[-1])
        again = trained(tmp_path / folder, "--resume", *words)
        assert again[-1] == pytest.approx(alone[-1], rel=1e-11)


def test_a_plan_says_how_often_and_in_which_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Microbatches and order are those of the plan, unless the command names others."""
    (tmp_path / "net.xg").write_text(NET_OF_ROWS, encoding="utf-8")
    rows = {"X": np.random.default_rng(0).normal(size=(40, 6))}
    np.savez(tmp_path / "rows.npz", X=rows["X"], t=rows["X"][:, ::-1])
    words = ["train", str(tmp_path / "net.xg"), "--data", str(tmp_path / "rows.npz"), "--steps",
             "2", "--dtype", "float64", "--out"]  # fmt: skip
    assert main([*words, str(tmp_path / "one"), "--accumulate", "4"]) == 0
    assert main([*words, str(tmp_path / "turns"), "--plan", "Turns"]) == 0
    gpipe = ["--plan", "Turns", "--pipeline-schedule", "GPipe", "--accumulate", "2"]
    assert main([*words, str(tmp_path / "gpipe"), *gpipe]) == 0
    halves = ["--plan", "Turns", "--pipeline-schedule", "ZBH1"]
    assert main([*words, str(tmp_path / "halves"), *halves]) == 0
    alone, turns, other, half = (
        [json.loads(line) for line in (tmp_path / run / "log.jsonl").read_text().splitlines()]
        for run in ("one", "turns", "gpipe", "halves")
    )
    assert half == turns  # to the last bit
    assert all(a == pytest.approx(b, rel=1e-11) for a, b in zip(turns, alone, strict=True))
    assert other[-1] == pytest.approx(alone[-1], rel=1e-11)  # MSE: the same step in other parts
    parts = [
        json.loads(next((tmp_path / run / "checkpoints").glob("*/manifest.json")).read_text())
        for run in ("turns", "gpipe")
    ]
    assert [each["facts"]["parts of a batch"] for each in parts] == [4, 2]
    assert main([*words, str(tmp_path / "odd"), "--plan", "Turns", "--accumulate", "3"]) == 1
    assert "--accumulate must be a multiple of N_P = 2" in capsys.readouterr().err


NET_OF_ROWS = """\
dim B = 8, D = 6, N_L = 4
mesh N_P = 2
block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tanh -> ⊕<-X : Y
}
block Net(X, t [B, D]) -> loss [] {
    X -> N_L × Layer as layers -> MSE<-t : loss
}
plan Turns of Net {
    layers [N_L/N_P]
    schedule 1F1B(4, 2)
}
"""


def test_a_parameter_of_a_call_that_another_stage_makes_is_refused(tmp_path: Path) -> None:
    text = NET.replace("block Net(ids [B] in V, t [B] in V) -> loss [] {\n", TABLE)
    text = text.replace("    param E [V, D]\n    ids -> Emb(E) : X [B", "    ids -> Emb(E) : X [B")
    text = text.replace(
        "ids -> Emb(E) : X [B, D]\n    X", "ids -> Table as table : X [B, D]\n    X"
    )
    file = tmp_path / "table.xg"
    file.write_text(text.replace("T(E)", "T(table.E)"), encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match=r"table\.E belongs to a call that stage 1"):
        _ = xg.compile(file, plan="PP").stages


TABLE = """\
block Table(ids [B] in V) -> X [B, D] {
    param E [V, D]
    ids -> Emb(E) : X
}
block Net(ids [B] in V, t [B] in V) -> loss [] {
"""
