"""A size that ranks do not divide, filled with zeros: proven as every plan is, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ir_reader import read_program
from library import shipped
from tier import THOROUGH
from verify.proof.daily import proof_of

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choices import check_choices
from xg.frontend.project import read_project
from xg.ir.graph import Step
from xg.passes.ir_text import spell_program
from xg.sharding import divisibility as padding
from xg.sharding.local import cuts
from xg.verify.plan_proof import prove_ranks
from xg_runtime import ranks
from xg_runtime.errors import RankError
from xg_runtime.module import Array, Arrays

TIED = """\
dim B, S, D = 6, V = 7
mesh N_T = 3, N_D = 2
block LM(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss [] {
    param E [V, D], b [V] = ones
    ids -> Emb(E) : X [B, S, D]
    E -> T : E_T
    X -> •<=E_T -> ⊕<-BC(b) -> tanh : Z -> CE(ignore=0)<-t : loss
}
plan VP of LM {
    E [V/N_T, D] pad
    b [V/N_T]
    X [B, S, D]
}
plan DP of LM {
    ids, t [B/N_D, S]
}
"""
INNER = """\
dim B, S, D = 6, V = 8
mesh N_T = 3
block Head(X [B, S, D], t [B, S] in V) -> Z [B, S, V], loss [] {
    param W [D, V]
    X -> •<=W : Z -> CE<-t : loss
}
block Mix(X [B, S, D]) -> Y [B, S, D] {
    X -> S : Y
}
block LM(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss [] {
    param E [V, D]
    ids -> Emb(E) -> Mix : X [B, S, D]
    X, t -> Head as head : Z, loss
}
plan VP of LM {
    E [V/N_T, D] pad
    X [B, S, D]
    head.W [D, V/N_T]
}
"""

QUOTED = re.compile(r"`([^`]*)`")

GATHERED = (
    TIED.replace("-> Z [B, S, V], loss", "-> loss")
    .replace("    X [B, S, D]\n}", "    ids, t [B/N_T, S]\n}")
    .replace("E [V/N_T, D] pad", "E [V/N_T, D] -> [..] pad")
    .replace("b [V/N_T]", "b [V/N_T] -> [..]")
)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "net.xg"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def with_pad(name: str) -> str:
    """A shipped diagram whose plan VP pads its tables."""
    text = shipped(name).read_text(encoding="utf-8")
    lines = text.splitlines()
    cut = [n for n, line in enumerate(lines) if line.lstrip().startswith("E ") and "[V/" in line]
    assert cut
    return "\n".join(f"{line} pad" if n in cut else line for n, line in enumerate(lines)) + "\n"


PADDED: list[tuple[str, str, dict[str, int]]] = [
    (TIED, "VP", {}),
    (TIED, "VP", {"N_T": 3, "V": 8}),
    (TIED, "DP × VP", {}),
    (INNER, "VP", {"N_T": 3}),
    (TIED.replace("D] pad", "D] -> [V, D] pad"), "VP", {}),
    (GATHERED, "VP", {}),
    (GATHERED, "VP", {"N_T": 3, "V": 8}),
    (with_pad("transformer"), "SP_VP", {"N_T": 3, "N_L": 1}),
    (with_pad("llama"), "VP", {"N_L": 1}),
]


@pytest.mark.parametrize(
    ("text", "plan", "settings", "kernels"),
    [
        (*case, kernels)
        for place, case in enumerate(PADDED)
        for kernels in (False, True)
        if THOROUGH or kernels == (place % 2 == 1)
    ],
)
def test_ranks_compute_what_one_device_does(
    file: Callable[[str], Path],
    text: str,
    plan: str,
    settings: dict[str, int],
    kernels: bool,
) -> None:
    """In floats of both backends, on every edge, modulo primes, and without each collective.

    Daily every other program has kernels.
    """
    path = file(text)
    block = "Llama" if "block Llama" in text else "LM"
    backends = ["numpy", "torch"]
    proof = proof_of(read_project(path), block, plan, settings, backends, kernels=kernels)
    assert proof.passed
    assert proof.program.graphs.lengths  # of those that were proven
    assert proof.floats is not None
    assert proof.floats.controls
    errors = [each.error for each in proof.floats.agreements.values()]
    assert max(errors) < 1e-9


def test_a_loss_that_takes_pads_in_is_noticed(
    file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: logits of pads are not -inf by themselves."""

    def as_it_is(step: Step, *_: object) -> Step:
        return step

    monkeypatch.setattr(padding, "_with_classes", as_it_is)
    assert not prove_ranks(read_project(file(TIED)), "LM", "VP", {}, 0).passed


def test_logits_of_what_is_gathered_take_no_pads_in(
    file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: on every rank the loss is of all logits, those of pads among them."""

    def as_it_is(step: Step, *_: object) -> Step:
        return step

    monkeypatch.setattr(padding, "_with_classes", as_it_is)
    assert not prove_ranks(read_project(file(GATHERED)), "LM", "VP", {}, 0).passed


@pytest.fixture
def pair(file: Callable[[str], Path]) -> tuple[xg.Program, xg.Program]:
    many = xg.compile(file(TIED), plan="VP", mesh={"N_T": 3})
    return many.on_one_device, many


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_pads_get_no_gradient(pair: tuple[xg.Program, xg.Program], backend: str) -> None:
    one, many = pair
    whole, part, where = one.on_arrays(backend), many.on_arrays(backend), cuts(many.graphs)
    draw = np.random.default_rng(0)
    params = {n: draw.normal(size=a.shape) for n, a in whole.init(0, np.float64).items()}
    inputs = {name: draw.integers(0, 7, (2, 5)) for name in ("ids", "t")}
    given = {"loss": np.ones(()), "Z": draw.normal(size=(2, 5, 7))}
    outputs, saved = whole.forward(params, inputs)
    gradients = whole.backward(params, saved, given)

    def rank() -> tuple[Arrays, Arrays, Arrays]:
        mine = ranks.local_shards(params, where)
        out, kept = part.forward(mine, ranks.local_shards(inputs, where))
        found = part.backward(mine, kept, ranks.local_shards(given, where))
        return ranks.gather_shards(out, where), ranks.gather_shards(found, where), found

    together = ranks.simulate({"N_T": 3}, rank)
    for out, found, _ in together:
        for name, array in {**outputs, **gradients}.items():
            np.testing.assert_allclose({**out, **found}[name], array, rtol=1e-9, atol=1e-12)
    last = together[-1][2]
    assert last["E"].shape == (3, 6)
    assert not last["E"][1:].any()
    assert not last["b"][1:].any()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_parameters_start_as_on_one_device(
    pair: tuple[xg.Program, xg.Program], backend: str
) -> None:
    one, many = pair
    whole, where = one.on_arrays(backend).init(3, np.float64), cuts(many.graphs)

    def rank() -> tuple[Arrays, Array]:
        mine = many.on_arrays(backend).init(3, np.float64)
        return ranks.gather_shards(mine, where), mine["b"]

    together = ranks.simulate({"N_T": 3}, rank)
    assert all(np.array_equal(together[0][0][name], array) for name, array in whole.items())
    assert together[-1][1].tolist() == [1, 0, 0]


def test_an_id_of_a_pad_is_refused(pair: tuple[xg.Program, xg.Program]) -> None:
    module, ids = pair[1].on_arrays(), np.full((1, 2), 7)
    with pytest.raises(RankError, match=r"ids\[0, 0\] is 7, expected integers from 0 to 6"):
        ranks.simulate({"N_T": 3}, lambda: module.forward(module.init(0), {"ids": ids, "t": ids}))


def test_code_and_costs_say_that_it_is_padded(pair: tuple[xg.Program, xg.Program]) -> None:
    assert "\nV = 7 is padded with zeros to 9.\n" in pair[1].source()
    assert "V = 9 (7 padded)" in str(pair[1].cost())
    assert "padded" not in pair[0].source()


def test_a_padded_program_is_read_back(pair: tuple[xg.Program, xg.Program]) -> None:
    text = spell_program(pair[1].graphs)
    again = read_program(text)
    assert "\n  padded V = 7\n" in text
    assert again.lengths == {"V": 7}
    assert again.plan is not None
    assert again.plan.pads
    assert spell_program(again) == text


def refused(path: Path, plan: str = "VP", **settings: int) -> str:
    with pytest.raises(DiagnosticError) as caught:
        xg.compile(path, plan=plan, sizes=settings)
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (" pad", "", "V = 7 is not divisible by N_T = 3"),
        ("    b [V/N_T]\n", "", "V cannot be padded: b has it whole on every rank"),
        ("tanh : Z", "S : Z", "V cannot be padded: S : Z would take pads in"),
        ("in V) ->", "in V, u [B, S, V]) ->", "V cannot be padded: the input u has that many"),
        ("V = 7", "V = 4", "V cannot be padded: of 4 in 3 parts the last would be pads alone"),
        ("X [B, S, D]\n}", "X [B, S, D] pad\n}", "nothing of X is padded here"),
    ],
)
def test_what_pads_would_change_is_refused(
    file: Callable[[str], Path], old: str, new: str, reason: str
) -> None:
    assert old in TIED
    assert refused(file(TIED.replace(old, new))) == reason


def test_logits_with_pads_on_every_rank_are_refused(file: Callable[[str], Path]) -> None:
    text = GATHERED.replace("-> loss", "-> Z [B, S, V], loss")
    assert refused(file(text)) == "V cannot be padded: Z has it whole on every rank"


@pytest.mark.parametrize(
    ("line", "name"), [("    b [V/N_T]\n", "b [{}]"), ("    E [V/N_T, D] pad\n", "E [{}, D]")]
)
def test_what_is_whole_beside_pads_is_proven_by_the_line_of_the_help(
    file: Callable[[str], Path], line: str, name: str
) -> None:
    """The line that gathers; the other is among the programs above."""
    without = TIED.replace("b [V/N_T]", "b [V/N_T] pad").replace(
        line.replace("T]\n", "T] pad\n"), ""
    )
    with pytest.raises(DiagnosticError) as caught:
        xg.compile(file(without), plan="VP", mesh={"N_T": 3})
    (problem,) = caught.value.diagnostics
    part, whole = name.format("V/N_T"), name.format("V")
    _, _, whole_shape = whole.partition(" ")
    assert QUOTED.findall(problem.help[0]) == [part, f"{part} -> {whole_shape}"]
    added = f"plan VP of LM {{\n    {part} -> {whole_shape}\n"
    lines = without.replace("plan VP of LM {\n", added)
    assert proof_of(read_project(file(lines)), "LM", "VP", {"N_T": 3}, exact=False).passed


WHOLE = INNER.replace("    E [V/N_T, D] pad\n    X [B, S, D]\n", "").replace(
    "/N_T]\n}", "/N_T] pad\n}"
)
CALLED = (
    WHOLE.replace(
        "block Mix",
        "block Look(ids [B, S] in W) -> X [B, S, D] {\n"
        "    dim W\n    param E [W, D]\n    ids -> Emb(E) : X\n}\nblock Mix",
    )
    .replace("    param E [V, D]\n", "")
    .replace("Emb(E)", "Look as look", 2)
    .replace("ids -> Look as look : X\n", "ids -> Emb(E) : X\n")
)


@pytest.mark.parametrize("text", [WHOLE, CALLED], ids=["in the block", "in a call"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_whole_table_keeps_its_rows(file: Callable[[str], Path], text: str, backend: str) -> None:
    """On every rank it has its true rows, those of one device, and the head alone has pads."""
    path = file(text)
    assert proof_of(read_project(path), "LM", "VP", {"N_T": 3}, [backend]).passed
    many = xg.compile(path, plan="VP", mesh={"N_T": 3})
    assert read_program(spell_program(many.graphs)).lengths == {"V": 8}
    one, where = many.on_one_device.on_arrays(backend).init(3, np.float64), cuts(many.graphs)

    def rank() -> tuple[Arrays, Arrays]:
        mine = many.on_arrays(backend).init(3, np.float64)
        return mine, ranks.gather_shards(mine, where)

    name = "look.E" if text == CALLED else "E"
    for mine, whole in ranks.simulate({"N_T": 3}, rank):
        assert mine[name].shape == (8, 6)
        assert mine["head.W"].shape == (6, 3)
        assert all(np.array_equal(whole[each], array) for each, array in one.items())


def test_a_whole_table_that_the_head_reads_too_is_refused(file: Callable[[str], Path]) -> None:
    text = WHOLE.replace(
        "-> Z [B, S, V], loss [] {\n    param E [V, D]",
        "-> Z [B, S, V], loss [], E_T [D, V] {\n    param E [V, D]\n    E -> T : E_T",
    )
    assert refused(file(text), N_T=3) == "V cannot be padded: E_T has it whole on every rank"


def test_a_width_is_refused(file: Callable[[str], Path]) -> None:
    """Products sum over it; the first step that reads the table is named."""
    text = TIED.replace("D = 6, V = 7", "D = 7, V = 9").replace("E [V/N_T, D]", "E [V, D/N_T]")
    assert refused(file(text)) == "D cannot be padded: Emb : X would take pads in"


def test_a_loss_of_classes_of_another_name_is_refused(file: Callable[[str], Path]) -> None:
    text = INNER.replace("D = 6, V = 8", "D = 6, V = 8, C = 4").split("block LM")
    head = text[0].replace("in V", "in C").replace("S, V]", "S, C]").replace("[D, V]", "[D, C]")
    path = file(head + "block LM" + text[1].replace("head.W [D, V/N_T]", "head.W [D, C/N_T]"))
    assert refused(path) == "V cannot be padded: CE : loss would take pads in"


def test_every_choice_is_checked_with_padding(file: Callable[[str], Path]) -> None:
    assert check_choices(read_project(file(TIED)), None, {}, None) == ()
    wrong = read_project(file(TIED.replace("tanh : Z", "S : Z")))
    (found,) = check_choices(wrong, None, {}, None)
    assert found.message == "V cannot be padded: S : Z would take pads in"
