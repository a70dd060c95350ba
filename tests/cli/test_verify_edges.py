"""`xg verify` at the edges: what it says, and that each kind of error there is found."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from cli.conftest import Xg

from xg import driver
from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir import primitive_gradients
from xg.ir.prim import Expr
from xg.ir.primitive_gradients import Cotangent, Gate
from xg.packages import Service
from xg.packages.errors import NoPackage
from xg.verify import edge_proof as steps
from xg.verify.edge_proof import StepForm
from xg_runtime.module import Arrays

NET = """\
dim B, D = 3

op Off(k [..] in N, x [..]) = x*float(k - 1)

block Net(X [B, D], k [B, D] in N) -> Y [B, D] {
    dim N = 4
    param W [D, D]
    X -> •<=W -> ReLU : H
    Off(k, H)         : Y
}
"""
PEAK = """\
dim B, D
op Peak(x [.., D]) = max[D](x)
block Net(X [B, D]) -> Y [B] {
    X -> Peak : Y
}
"""
LOG = """\
dim B
op lg(x) = log(x)
block Net(X [B]) -> Y [B] {
    X -> lg : Y
}
"""
CAP = """\
dim B, D
op Cap(x) = max(x, 0.5)
block Net(X [B, D]) -> Y [B, D] {
    X -> Cap : Y
}
"""
PLANNED = """\
dim B, S, D = 4
mesh N_T

block Net(X [B, S, D]) -> Y [B, S, D] {
    param W, V [D, D]
    X -> •<=W -> ReLU : H
    H -> •<=V : Y
}

plan TP of Net {
    W [D, D/N_T]
    V [D/N_T, D]
}

plan SP of Net {
    X, Y [B, S/N_T, D]
}
"""
Patch = pytest.MonkeyPatch
Sizes = Mapping[str, int]
Sabotage = Callable[[str, str], None]


@pytest.fixture
def sabotage(monkeypatch: Patch) -> Sabotage:
    """Load modules in which one text is replaced by another, wherever they have it."""
    real = driver.load

    def change(right: str, wrong: str) -> None:
        def load(source: str, name: str) -> ModuleType:
            return real(source.replace(right, wrong), name)

        monkeypatch.setattr(driver, "load", load)

    return change


def _write(folder: Path, text: str) -> str:
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return "net.xg"


def test_one_line_says_which_edges_were_tried(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, NET))
    assert said.code == 0
    line = (
        "edge cases tried: ties, zeros, largest integers, lengths 0 and 1 of B, uint8 to int64, "
        "float16 and float32: all agree"
    )
    assert f"{line} in 2 forms\n" in said.out
    assert "edge cases not tried: jax and torch (add --against jax,torch)\n" in said.out


def test_every_form_of_every_backend(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, NET), "--against", "torch,jax", "--json")
    (proof,) = json.loads(said.out)["proofs"]
    assert proof["passed"]
    edges = proof["edges"]
    assert edges["not_tried"] == {}
    assert edges["disagreements"] == []
    assert {"ties", "zeros", "jit", "bfloat16", "length 0 of B", "uint8"} <= {*edges["tried"]}
    assert edges["forms"] == [
        *("NumPy", "NumPy with kernels", "JAX", "torch", "torch's Model under autograd"),
        *("torch with kernels", "torch with kernels's Model under autograd"),
    ]


def test_a_length_that_has_no_result_is_left_out_with_the_reason(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, PEAK))
    assert said.code == 0
    assert "lengths 0 and 1 of B, length 1 of D" in said.out
    assert "length 0 of D (the largest over D in Peak, line 4)" in said.out


def test_a_fixed_size_has_one_length(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, PEAK), "--set", "B=2", "--set", "D=3")
    assert "lengths 0 and 1 (every size has a number in the file or a setting)" in said.out


def test_ties_stay_where_a_logarithm_has_values(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, LOG))
    assert said.code == 0
    assert "edge cases tried: ties, " in said.out
    assert "dX at zeros (it is not finite there)" in said.out


MISTAKES = {  # by the edge that finds it: a text of the module, one in its place, what is said
    "ties": ("saved.matmul > 0", "saved.matmul >= 0", "d"),
    "zeros": ("np.maximum(matmul, 0)", "np.where(matmul == 0, 1, np.maximum(matmul, 0))", "Y"),
    "length 0 of B": ("    H = np", "    1 // len(X)\n    H = np", "stops: ZeroDivision"),
    "length 1 of B": ("    H = np", "    matmul *= len(X) > 1\n    H = np", "Y"),
    "uint8": ("wide = ids.astype(np.int64, copy=False)", "wide = ids", "Y"),  # 0 - 1 is 255
    "int64": ("    inputs = dict", "    inputs['k'][...] = 0\n    inputs = dict", "k is changed"),
    "float16": (  # a pass computes it in float32, and is to round what it returns
        "return tuple([_with_floats(each, half) for each in results])",
        "return results",
        "Y is float32, not float16",
    ),
}


@pytest.mark.parametrize("edge", MISTAKES)
def test_a_mistake_is_found_at_its_edge(
    xg: Xg, folder: Path, sabotage: Sabotage, edge: str
) -> None:
    right, wrong, what = MISTAKES[edge]
    sabotage(right, wrong)
    said = xg("verify", _write(folder, NET))
    assert said.code == 1
    assert "DISAGREE" in said.out
    start = f"  {edge}, B = "
    assert any(line.startswith(start) and what in line for line in said.out.splitlines())
    assert "to see it again: xg verify net.xg --block Net --seed 0" in said.out
    assert said.out.endswith("1 block FAILED\n")


@pytest.mark.parametrize("size", ["N", "N = 300"])
def test_integers_at_the_end_of_their_range(
    xg: Xg, folder: Path, sabotage: Sabotage, size: str
) -> None:
    """A range that is no axis is as large as the file says, or as sizes can be."""
    wide = NET.replace("    dim N = 4\n", "").replace("D = 3\n", f"D = 3, {size}\n")
    assert "largest integers" in xg("verify", _write(folder, wide)).out
    sabotage("wide = ids.astype(np.int64, copy=False)", "wide = ids.astype(np.int8)")
    said = xg("verify", _write(folder, wide))
    assert said.code == 1
    assert "largest integers, B = " in said.out


def test_a_disagreement_has_both_numbers(xg: Xg, folder: Path, sabotage: Sabotage) -> None:
    sabotage("np.maximum(matmul, 0)", "np.where(matmul == 0, 0.5, matmul * (matmul > 0))")
    said = xg("verify", _write(folder, NET), "--json")
    (proof,) = json.loads(said.out)["proofs"]
    assert proof["passed"] is False
    first = next(each for each in proof["edges"]["disagreements"] if each["edge"] == "zeros")
    assert first["form"] == "NumPy"
    assert (first["tensor"], first["expected"]) == ("Y", 0.0)
    assert abs(first["found"]) in (0.5, 1.0)


def test_a_wrong_rule_of_the_compiler_is_seen_by_autograd(
    xg: Xg, folder: Path, monkeypatch: Patch
) -> None:
    """All forms and the interpreter follow the rule, and differences say nothing at a tie."""
    rules = cast("dict[str, primitive_gradients.Choice]", primitive_gradients.CHOOSING)
    monkeypatch.setitem(rules, "maximum", _first_takes_all)
    said = xg("verify", _write(folder, CAP), "--against", "torch")
    assert said.code == 1
    assert "torch's autograd: dX" in said.out


def _first_takes_all(y: Expr, d: Cotangent) -> tuple[Cotangent, Cotangent]:
    second = y.args[1] > y.args[0]
    return d.through(Gate(second, holds=False)), d.through(Gate(second))


def test_ranks_meet_edges_too(xg: Xg, folder: Path) -> None:
    chosen = ("verify", _write(folder, PLANNED), "--against", "single")
    said = xg(*chosen, "--plan", "TP")
    assert said.code == 0
    assert (
        "edge cases tried: ties, zeros, length 1 of B and S: ranks and one device agree\n"
        in said.out
    )
    proof = json.loads(xg(*chosen, "--plan", "SP", "--json").out)["ranks"][0]
    assert proof["edges"] == {
        "tried": ["ties", "zeros", "length 1 of B"],
        "not_tried": {"length 1 of S": "ranks cannot share one position"},
        "first_difference": None,
    }


def test_a_mistake_of_ranks_at_a_tie_is_found(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = driver.load

    def load(source: str, name: str) -> ModuleType:
        if "xg_runtime.ranks" in source:
            assert "saved.matmul > 0" in source
            source = source.replace("saved.matmul > 0", "saved.matmul >= 0")
        return real(source, name)

    monkeypatch.setattr(driver, "load", load)
    said = xg("verify", _write(folder, PLANNED), "--plan", "TP", "--against", "single")
    assert said.code == 1
    assert (
        "edge cases tried: ties, zeros, length 1 of B and S: ranks and one device DIFFER: "
        in said.out
    )
    assert "first at ties, numpy: dW" in said.out
    assert said.out.endswith("1 parallel program: 1 FAILED\n")


BESIDE = """\
dim B, S, D = 2
mesh N_T
op Rise(x) = x + 3

block Net(X [B, S, D]) -> Y, Z [B, S, D] {
    param W, V [D, D]
    X -> •<=W -> ReLU -> •<=V : Y
    X -> Rise -> LN -> ReLU : Z
}

plan TP of Net {
    W [D, D/N_T]
    V [D/N_T, D]
}
"""


@pytest.mark.parametrize(("change", "finds"), [("matmul", True), ("layer_norm_1", False)])
def test_a_mistake_beside_results_that_last_bits_decide_is_found(
    change: str, xg: Xg, folder: Path, monkeypatch: Patch, *, finds: bool
) -> None:
    """A layer norm of equal numbers is 0 or 1e-17, so that a ReLU after it has either slope."""
    real = driver.load

    def load(source: str, name: str) -> ModuleType:
        if "xg_runtime.ranks" in source:
            assert f"saved.{change} > 0" in source
            source = source.replace(f"saved.{change} > 0", f"saved.{change} >= 0")
        return real(source, name)

    monkeypatch.setattr(driver, "load", load)
    said = xg("verify", _write(folder, BESIDE), "--plan", "TP", "--against", "single")
    assert said.code == finds
    assert ("first at ties, numpy: dW" in said.out) == finds
    assert "dX at ties" in said.out
    assert "(the last bits of a value decide it)" in said.out


STAGES = """\
dim B, D = 3, C = 5, N_L = 4

block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> ReLU -> ⊕<-X : Y
}

block Net(ids [B] in C) -> Z [B, C] {
    param table [C, D], head [D, C]
    ids -> Emb(table) -> N_L × Layer as layers : H [B, D] -> •<=head : Z
}

mesh N_P = 2

plan PP of Net {
    layers [N_L/N_P]
}
"""


def test_pipelines_meet_edges_too(xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("verify", _write(folder, STAGES), "--plan", "PP", "--against", "single", "--block")
    said = xg(*chosen, "Net")
    assert said.code == 0
    assert "edge cases tried: ties, zeros, length 1 of B: ranks and one device agree\n" in said.out
    real = driver.load

    def load(source: str, name: str) -> ModuleType:
        if 'params["head"]' not in source:  # the first stage
            assert "saved.matmul > 0" in source
            source = source.replace("saved.matmul > 0", "saved.matmul >= 0")
        return real(source, name)

    monkeypatch.setattr(driver, "load", load)
    said = xg(*chosen, "Net")
    assert said.code == 1
    assert "edge cases tried: ties, zeros, length 1 of B: ranks and one device DIFFER: " in said.out
    assert "first at ties, numpy: d" in said.out


TOTAL = """\
dim B, S, D = 2
op add(a, b) = a + 0.5*b

block Cell(x [B, D]) -> y [B, D] {
    state h [B, D] = 0
    x, h -> add : y
    next h = y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    X -> Cell over S as cell -> •<=W : Y
}
"""


def test_steps_of_generation_give_what_the_whole_text_gives(xg: Xg, folder: Path) -> None:
    said = xg("verify", _write(folder, TOTAL), "--block", "Net", "--json")
    assert said.code == 0
    (proof,) = json.loads(said.out)["proofs"]
    assert "steps of generation" in proof["edges"]["tried"]


def test_a_step_that_forgets_is_found(xg: Xg, folder: Path, monkeypatch: Patch) -> None:
    real = steps.StepForm.run

    def forget(form: StepForm, params: Arrays, sizes: Sizes, pieces: Sequence[Arrays]) -> Arrays:
        found = [real(form, params, sizes, [piece]) for piece in pieces]
        return {name: np.concatenate([each[name] for each in found], -2) for name in found[0]}

    monkeypatch.setattr(steps.StepForm, "run", forget)
    said = xg("verify", _write(folder, TOTAL), "--block", "Net")
    assert said.code == 1
    assert "steps of generation, in pieces of 1, " in said.out
    assert "NumPy's step: Y[" in said.out


def test_no_step_is_derived_where_positions_do_not_meet(
    xg: Xg, folder: Path, monkeypatch: Patch
) -> None:
    """A step takes 30 ms to derive, and the first one 15 more to import what derives it."""
    asked: list[str] = []
    real = driver.service

    def service(name: Service) -> Callable[..., object]:
        asked.append(name)
        return real(name)

    monkeypatch.setattr(driver, "service", service)
    assert xg("verify", _write(folder, PLANNED)).code == 0
    assert "step" not in asked
    assert xg("verify", _write(folder, TOTAL), "--block", "Net").code == 0
    assert "step" in asked


def test_without_the_package_of_steps_none_is_tried(
    xg: Xg, folder: Path, monkeypatch: Patch
) -> None:
    real = driver.service

    def service(name: Service) -> Callable[..., object]:
        if name == "step":
            raise DiagnosticError.of(NoPackage(name))
        return real(name)

    monkeypatch.setattr(driver, "service", service)
    said = xg("verify", _write(folder, TOTAL), "--block", "Net")
    assert said.code == 0
    assert "steps of generation" not in said.out
