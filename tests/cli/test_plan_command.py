"""`xg plan`: the winner by hand, memory that forces one, nodes, refusals, the plan written."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import DIAGRAMS, Xg

import xg as package
from xg.cost.report import machines, report

NET = """\
dim B, D = 64, D_ff = 4*D
mesh N_D = 2, N_T = 2

block Net(X [B, D], t [B, D]) -> loss [] {
    param W_up [D, D_ff], W_down [D_ff, D]

    X -> •<=W_up -> ReLU : U [B, D_ff]
      -> •<=W_down       : Y [B, D]
      -> MSE<-t          : loss
}

plan DP of Net {
    X, t [B/N_D, D]
}

plan FSDP of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..] again
}

plan TP of Net {
    W_up   [D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}
"""
PICK = """\
dim B, D = 64, N_E = 8
mesh N_T = 2

block Pick(X [B, D]) -> v [B, 2], e [B, 2] in N_E {
    param W [D, N_E]

    X -> •<=W -> topk(2) : v, e
}

plan Columns of Pick {
    W [D, N_E/N_T]
}

plan Rows of Pick {
    X [B/N_T, D]
}
"""
H100 = {
    each.name: each
    for each in machines(
        tomllib.loads(files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8"))
    )
}


@pytest.fixture
def net(folder: Path) -> Path:
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    return folder / "net.xg"


def found(xg: Xg, *words: str) -> dict[str, Any]:
    said = xg("plan", "net.xg", "--json", *words)
    assert said.out, said.err
    return json.loads(said.out)


def test_tensor_parallelism_within_a_node_wins_where_weights_are_large(xg: Xg, net: Path) -> None:
    """By hand: TP sums Y and dX, B·D numbers each; DP the gradients, 2·D·4D, and the loss."""
    data = found(xg, "--ranks", "8", "--memory", "80GB", "--set", "B=64", "--set", "D=2048")
    best = data["plans"][0]
    assert (best["plan"], best["mesh"], best["inner"]) == ("TP", {"N_T": 8}, ["N_T"])
    machine = H100["h100"]
    once = 2 * (2 * 7 / 8 * 64 * 2048 * 4 / machine.link + 2 * 7 * machine.latency)
    assert best["sending"] == pytest.approx(once, rel=1e-9)
    (plan,) = [each for each in data["plans"] if each["plan"] == "DP"]
    sums = 2 * 7 / 8 * (2 * 4 * 2048**2 + 1) * 4 / machine.link + 3 * 2 * 7 * machine.latency
    assert plan["sending"] == pytest.approx(sums, rel=1e-9)
    assert plan["loses"].endswith("more communication, mostly over N_D, inside a node")


def test_between_nodes_goes_what_sends_least(xg: Xg, net: Path) -> None:
    """Of 16 ranks 8 are in a node: the axis that sends more stays inside."""
    words = ("--ranks", "16", "--memory", "80GB", "--set", "B=4096", "--set", "D=256")
    for plan in found(xg, *words)["plans"]:
        sizes = {"B": 4096, "D": 256, **plan["mesh"]}
        program = package.compile(net, plan=plan["plan"], sizes=sizes)
        counted = report(program.graphs, program.distributed, "float32", tuple(H100.values()))
        by_name = {each.machine.name: each for each in counted.estimates}
        near, far = (by_name[name].communicate for name in ("h100", "h100-network"))
        assert near is not None
        assert far is not None
        assert near < plan["sending"] <= far * (1 + 1e-9)
        inside = [plan["mesh"][axis] for axis in plan["inner"]]
        assert len(inside) < len(plan["mesh"])
        assert all(size <= 8 for size in inside)


def test_memory_forces_full_sharding(xg: Xg, net: Path) -> None:
    """Weights, gradients and two moments: 4 · 2 · D · 4D numbers, of which FSDP has a quarter.

    DP keeps its own term of a gradient until its pass ends; FSDP lets it go as it is scattered.
    """
    words = ("--ranks", "4", "--set", "B=65536", "--set", "D=64", "--dtype", "bfloat16")
    plenty = found(xg, *words, "--memory", "80GB")
    by_name = {each["plan"]: each for each in plenty["plans"] if len(each["mesh"]) == 1}
    assert plenty["plans"][0]["plan"] == "DP"
    weights = 4 * 2 * 64 * 256 * 2
    assert by_name["DP"]["held"] - by_name["FSDP"]["held"] == weights * 3 / 4 + 64 * 256 * 2
    limit = str(int(by_name["DP"]["held"]) - 1)
    tight = found(xg, *words, "--memory", limit)
    names = {each["plan"] for each in tight["plans"] if each["microbatches"] == 1}
    assert "FSDP" in names
    assert "DP" not in names
    assert all(each["held"] <= int(limit) for each in tight["plans"])


def test_the_winner_is_the_best_of_all(xg: Xg, net: Path) -> None:
    """Every product on every mesh, compiled one by one and estimated by `xg cost`'s own numbers."""
    sizes = {"B": 64, "D": 512}
    times: dict[tuple[str, int, int], float] = {}
    names = ("DP", "FSDP", "TP")
    for factors in chain(*(combinations(names, count) for count in (1, 2))):
        for d in (1, 2, 4, 8):
            plan = " × ".join(factors)
            axes = {"N_D"} if factors != ("TP",) else set[str]()
            axes |= {"N_T"} if "TP" in factors else set()
            mesh = {"N_D": d, "N_T": 8 // d}
            wrong = any((size > 1) != (axis in axes) for axis, size in mesh.items())
            if wrong or {"DP", "FSDP"} <= {*factors}:
                continue
            program = package.compile(net, plan=plan, sizes=sizes, mesh=mesh)
            counted = report(program.graphs, program.distributed, "float32", (H100["h100"],))
            total = counted.estimates[0].total
            assert total is not None
            times[plan, d, 8 // d] = total
    best = min(times, key=lambda each: times[each])
    words = ("--ranks", "8", "--memory", "80GB", "--set", "B=64", "--set", "D=512")
    plan = found(xg, *words)["plans"][0]
    mesh = {"N_D": 1, "N_T": 1, **plan["mesh"]}
    assert (plan["plan"], mesh["N_D"], mesh["N_T"]) == best
    assert plan["seconds"] == pytest.approx(times[best], rel=1e-9)


def test_the_winner_is_written_as_a_plan(xg: Xg, net: Path) -> None:
    words = ("--ranks", "8", "--memory", "80GB", "--set", "B=64", "--set", "D=2048")
    said = xg("plan", "net.xg", *words, "--write", "Best")
    assert said.code == 0, said.err
    assert "use it with --plan Best --set N_T=8" in said.err
    text = net.read_text(encoding="utf-8")
    assert text == NET + '\nplan Best "8 ranks: N_T = 8" = TP\n'
    assert xg("fmt", "--check", "net.xg").code == 0
    assert xg("cost", "net.xg", "--plan", "Best", "--set", "N_T=8", "--set", "B=64").code == 0
    said = xg("plan", "net.xg", *words, "--write", "Best")
    assert said.code == 1
    assert "net.xg has a plan Best" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "4", "--memory", "1KB"), "nothing fits into 1 KB; the nearest:"),
        (("--ranks", "7", "--memory", "1GB"), "no plan combination can use all 7 ranks"),
        (
            ("--ranks", "4", "--memory", "much"),
            "'much' is not an amount of memory, such as 80GB, 141GiB or a number of bytes",
        ),
        (("--ranks", "4", "--memory", "1GB", "--machine", "b300"), "no machine is called b300"),
        (
            ("--ranks", "16", "--memory", "1GB", "--machine", "a100"),
            "the table has no network a100-network",
        ),
    ],
)
def test_impossible_requests_are_refused_with_the_nearest(
    xg: Xg, net: Path, words: tuple[str, ...], message: str
) -> None:
    said = xg("plan", "net.xg", *words, "--set", "B=64")
    assert said.code in (1, 2)
    assert message in (said.out + said.err).replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--write", "my plan"), "'my plan' is not a name for a plan"),
        (("--write", "plan"), "'plan' is not a name for a plan"),
        (("--set", "N_T=4"), "but the search chooses the mesh: leave it out"),
        (("--ranks", "-4"), "argument --ranks: at least 1"),
    ],
)
def test_words_that_a_search_cannot_use_are_refused(
    xg: Xg, net: Path, words: tuple[str, ...], message: str
) -> None:
    said = xg("plan", "net.xg", "--ranks", "4", "--memory", "1GB", "--set", "B=64", *words)
    assert said.code in (1, 2)
    assert said.out == ""
    assert message in said.err
    assert net.read_text(encoding="utf-8") == NET


def test_a_plan_that_is_left_out_is_told_with_the_reason(xg: Xg, folder: Path) -> None:
    (folder / "net.xg").write_text(PICK, encoding="utf-8")
    said = xg("plan", "net.xg", "--ranks", "2", "--memory", "1GB", "--set", "B=64")
    assert said.code == 0, said.err
    assert "best: Rows" in said.out
    assert "Columns is left out: topk cannot be computed in parts over N_T" in said.out


def test_one_device_is_no_plan(xg: Xg, net: Path) -> None:
    words = ("--ranks", "1", "--memory", "1GB", "--set", "B=64", "--write", "One")
    said = xg("plan", "net.xg", *words)
    assert said.out.startswith("Net on 1 rank of h100")
    assert "best: one device\n" in said.out
    assert "one device is the best choice, so there is no plan to write" in said.err


def test_sizes_must_have_numbers(xg: Xg, net: Path) -> None:
    said = xg("plan", "net.xg", "--ranks", "2", "--memory", "1GB")
    assert said.code == 1
    assert "the search needs a number for every size: --set B=…" in said.err
    assert xg("plan", "tiny.xg", "--ranks", "2", "--memory", "1GB").code == 1


def test_sizes_of_parameters_alone_must_have_numbers(xg: Xg, folder: Path) -> None:
    text = "dim S = 2, D, N = 40\nmesh N_T = 2\nblock F() -> Y [S, D] {\n    param E [N, D]\n"
    text += "    range(S) -> Emb(E) -> tanh : Y\n}\nplan P of F {\n    E [N/N_T, D]\n}\n"
    (folder / "table.xg").write_text(text, encoding="utf-8")
    words = ("plan", "table.xg", "--ranks", "2", "--memory", "1GB")
    said = xg(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err == "xg: the search needs a number for every size: --set D=…\n"
    assert xg(*words, "--set", "D=8").err == ""


def test_pipelines_are_among_the_plans(xg: Xg, folder: Path) -> None:
    text = (DIAGRAMS / "models" / "transformer.xg").read_text(encoding="utf-8")
    net, *plans = re.split(r"(?m)^(?=plan )", text)
    two = [plan for plan in plans if plan.startswith(("plan DP ", "plan PP "))]
    file = folder / "lm.xg"
    file.write_text("".join([net, *two]), encoding="utf-8")
    words = ("--ranks", "2", "--memory", "1TB", "--set", "B=8", "--set", "S=16", "--set", "N_L=2")
    said = xg("plan", file, *words, "--machine", "h100-network", "--json")
    data = json.loads(said.out)
    (plan,) = [each for each in data["plans"] if each["plan"] == "PP"][:1]
    parts, machine = plan["microbatches"], H100["h100-network"]
    stream = 4 * 8 * 16 * 64 / machine.link + parts * machine.latency  # each stage sends it one way
    assert plan["waiting"] * parts == pytest.approx(plan["computing"] + stream)
    assert plan["sending"] > stream  # and once the gradient of what both have


def test_a_plan_that_is_another_under_a_second_name_is_shown_once(xg: Xg, folder: Path) -> None:
    text = NET.replace("mesh N_D = 2", "mesh N_R = 2, N_D = 2")
    copies = "plan Replicas of Net {\n    X, t [B/N_R, D]\n}\n"
    (folder / "net.xg").write_text(f"{text}\n{copies}", encoding="utf-8")
    words = ("--ranks", "4", "--memory", "1GB", "--set", "B=64")
    costs = [(each["seconds"], each["held"]) for each in found(xg, *words)["plans"]]
    assert len(costs) == len({*costs}) > 2
