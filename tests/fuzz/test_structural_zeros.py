"""States and carried values that pass no gradient on: every form agrees with torch autograd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from fuzz.edge_proof import prove_edges

import xg
from xg.driver import BACKENDS
from xg.frontend.project import read_project
from xg.ir.graph import Backward, Value
from xg.ir.verify import violations
from xg.verify.gradient_proof import prove

HEAD = """\
dim B = 3, D = 2
op Above(h) = h > 0
op Gate(m [..] in 2, x) = float(m)*x + x

"""


def cell(*lines: str, states: str = "state h [D]") -> str:
    """A recurrence over B whose outputs are all rounds and the last states."""
    last = "".join(f", {line.split()[1]}_last [D]" for line in states.split("\n"))
    body = "\n    ".join(("param w [D]", *states.split("\n"), *lines))
    return (
        f"{HEAD}block Cell(x [D]) -> y [D] {{\n    {body}\n}}\n\n"
        f"block Main(Z [B, D]) -> Y [B, D]{last} {{\n"
        f"    Z -> tanh -> Cell over B as c : Y{last.replace(' [D]', '')}\n}}\n"
    )


def repeat(*lines: str, operand: str = "") -> str:
    """Three rounds of a layer; the operand, if there is one, stays the same in each."""
    second = ", z [B, D]" if operand else ""
    body = "\n    ".join(lines)
    return (
        f"{HEAD}block L(x [B, D]{second}) -> y [B, D] {{\n    {body}\n}}\n\n"
        f"block Main(X [B, D]) -> Y [B, D] {{\n    X -> tanh : H -> 3 × L{operand} as l : Y\n}}\n"
    )


TWO = "state h [D]\nstate g [D] = 0.5"
CASES = {
    "state behind stop": cell("h -> stop -> ⊕<-x -> ⊙<-w -> tanh : y", "next h = y"),
    "state in a mask": cell("h -> Above : m [D] in 2", "m -> Gate<-x -> ⊙<-w : y", "next h = y"),
    "state on a dead line": cell("h -> tanh : a", "x -> ⊙<-w : y", "next h = y"),
    "state that is not read": cell("x -> ⊙<-w -> tanh : y", "next h = y"),
    "state that only waits": cell("x -> ⊙<-w -> ⊕<-h : y", "next h = x"),
    "one of two states": cell(
        "h -> stop -> ⊕<-x -> ⊙<-w : y", "y -> ⊕<-g : a", "next h = a", "next g = y", states=TWO
    ),
    "two states that swap": cell(
        "x -> ⊙<-w -> ⊕<-g : y", "next h = y", "h -> stop : a", "next g = a", states=TWO
    ),
    "stop of what goes round": repeat("param w [D]", "x -> stop -> ⊙<-BC(w) : y"),
    "stop beside an operand": repeat("x -> stop -> ⊕<-z : y", operand="<-H"),
    "mask beside an operand": repeat(
        "param w [D]",
        "x -> Above : m [B, D] in 2",
        "m -> Gate<-z -> ⊙<-BC(w) : y",
        operand="<-H",
    ),
    "not read beside an operand": repeat("param w [D]", "z -> ⊙<-BC(w) : y", operand="<-H"),
}


@dataclass(frozen=True)
class Case:
    """A text that `prove_edges` takes."""

    text: str
    numbers: Mapping[str, int] = field(default_factory=lambda: {"B": 3, "D": 2})
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    resized: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize("name", CASES)
def test_every_form_agrees_with_autograd(name: str) -> None:
    prove_edges(Case(CASES[name]), seed=0, every=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rounds_pass_the_gradient_on(backend: str, tmp_path: Path) -> None:
    """Without a round nothing is stopped: Y is H, and dX the slope of tanh."""
    text = CASES["stop of what goes round"].replace("3 ×", "N ×").replace("D = 2", "D = 2, N = 0")
    (tmp_path / "net.xg").write_text(text, encoding="utf-8")
    module = xg.compile(tmp_path / "net.xg").on_arrays(backend, "float64")
    x = np.array([[0.3, -0.2], [1.0, 0.5], [-2.0, 0.1]])
    outputs, saved = module.forward({}, {"X": x})
    gradient = module.backward({}, saved, {"Y": np.ones_like(outputs["Y"])})["X"]
    np.testing.assert_allclose(gradient, 1 - np.tanh(x) ** 2, rtol=1e-12)


def test_a_parameter_of_a_stopped_round_is_zero_for_a_reason(tmp_path: Path) -> None:
    """Only the last of three rounds has a gradient: the next one stops what the others give it."""
    (tmp_path / "net.xg").write_text(CASES["stop of what goes round"], encoding="utf-8")
    proof = prove(read_project(tmp_path / "net.xg"), "Main", {}, 0, ())
    reasons = {row.name: row.reason for row in proof.gradients.rows}
    assert proof.gradients.passed
    assert not reasons["l.2.w"]
    assert all("stop in line" in reasons[name] for name in ("l.0.w", "l.1.w", "X"))


@pytest.mark.parametrize("name", ["state behind stop", "stop beside an operand"])
def test_a_lost_zero_is_found(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(CASES[name], encoding="utf-8")
    program = xg.compile(tmp_path / "net.xg").graphs
    assert not list(violations(program))
    lost = replace(program, backwards={k: without(b) for k, b in program.backwards.items()})
    assert any("has no gradient and no zero" in what for what in violations(lost))


def without(backward: Backward) -> Backward:
    """The backward pass with its zeros forgotten, as a pass might."""
    gradients = {v: g for v, g in backward.gradients.items() if v not in backward.zeros}
    return replace(backward, gradients=gradients, zeros=frozenset[Value]())
