"""Gradients of a loop's parameters, multiplied once behind it: equal to those of its rounds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from passes.test_loops import agree_with_rounds, drawn, written

import xg
from xg.cli import main
from xg.ir.graph import Backward
from xg.verify.autograd_model import model_gradients
from xg.verify.reference.interpret import Interpreter

CELL = """\
dim Q, B, S, N_H = 2, D = 5, D_h = 4

block Cell(x [B, D], w [B, D_h], i [B] in D_h) -> y, c [B, D_h] {
    param W [D, D_h], U, V, E [D_h, D_h], P [N_H, D_h, D_h], b, g [D_h]
    state h [B, D_h] = 0.5
    state k [B, D_h] = ones
    state m [N_H, B, D_h] = ones

    i -> Emb(E)                                               : e
    h -> •<=U -> ⊕<-(k -> •<=U) -> ⊕<-(x -> •<=W) -> ⊕<-BC(b) : s
    s -> ⊕<-e -> tanh                                         : y
    m -> •<=P -> tanh                                         : m_1
    m_1 -> sum[N_H]                                           : v
    y -> •<=T(V) -> ⊕<-v -> ⊙<-BC(g) -> ⊕<-w -> tanh          : c
    next h = c
    next k = y
    next m = m_1
}

"""
PORTS = "(X [B, S, D], w [B, D_h], ids [S, B] in D_h)"
TWO = f"""\
{CELL}block Net{PORTS} -> Y, C [B, S, D_h] {{
    X, w, ids -> Cell over S as cell          : A, C_1
    X, w, ids -> Cell over S reversed as back : A_2, C_2
    A -> •<=cell.U -> ⊕<-A_2                  : Y
    C_1 -> ⊙<-C_2                             : C
}}

"""
NESTED = f"""\
{TWO}block Outer(X [Q, B, S, D], w [B, D_h], ids [S, B] in D_h) -> Y, C [Q, B, S, D_h] {{
    X, w, ids -> Net over Q as net : Y, C
}}
"""
SHARED = """\
dim B, S, D_h = 4

block Cell(i [B] in D_h) -> y [B, D_h] {
    param U, E [D_h, D_h]
    state h [B, D_h] = 0.5

    i -> Emb(E)                : e
    h -> •<=U -> ⊕<-e -> tanh : y
    next h = y
}

block Net(ids [S, B] in D_h) -> Y [S, B, D_h] {
    ids -> Cell over S as cell          : A
    ids -> cell over S                  : A_2
    ids -> Cell over S reversed as back : A_3
    A -> ⊕<-A_2 -> ⊙<-A_3               : Y
}
"""
SIZES = {"Q": 3, "B": 2, "S": 6}
MOVES = ("U", "V", "W", "P", "b")  # behind the loops; E and g are of no product


@pytest.mark.parametrize(
    ("text", "length"),
    [(TWO, 6), (NESTED, 6), (NESTED, 1), (SHARED, 6)],
    ids=["two loops", "loops in a loop", "of one round", "loops that share a cell"],
)
def test_gradients_are_those_of_the_rounds_on_every_backend(
    text: str, length: int, tmp_path: Path
) -> None:
    sizes = {name: SIZES[name] for name in SIZES if f" {name}," in text}
    program = xg.compile(written(tmp_path, text), sizes={**sizes, "S": length})
    agree_with_rounds(program, in_jax=text == TWO)
    params, inputs, cotangents = drawn(program)
    _, saved = program.load().forward(params, inputs)
    gradients = program.load().backward(params, saved, cotangents)
    module = program.load("torch", kernels=True)
    _, found = model_gradients(module, {}, params, inputs, cotangents, 0)
    for name, array in found.items():
        np.testing.assert_allclose(array, gradients[name], atol=1e-10, err_msg=name)
    reference = Interpreter(program.fused, params)
    _, record = reference.forward(inputs)
    found = reference.backward(record, cotangents)
    for name, array in gradients.items():
        np.testing.assert_allclose(found[name], array, atol=1e-10, err_msg=name)


def test_rounds_have_no_gradients_that_can_be_made_behind_them(tmp_path: Path) -> None:
    program = xg.compile(written(tmp_path, NESTED), sizes=SIZES).fused
    for backward in _rounds(program.backwards.values()):
        left = {str(value.name) for value, _ in backward.param_gradients()}
        assert left.isdisjoint(MOVES), left
        assert backward.rows
    outer = program.backwards[program.entry]
    assert {str(v.name) for v, _ in outer.param_gradients()} >= {
        f"net.{call}.{name}" for call in ("cell", "back") for name in MOVES
    }


def test_differences_agree_with_gradients_behind_the_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, TWO)
    sizes = [word for name in ("B=3", "S=2") for word in ("--set", name)]
    assert main(["verify", str(path), "--against", "fd", "--kernels", *sizes]) == 0
    assert "all proven" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("h -> •<=(A -> •<=T(C)) -> ⊕<-x", "all rounds share the other factor"),
        ("h -> ⊙<-BC(A[0]) -> ⊕<-x", "no product"),
    ],
)
def test_other_gradients_stay_in_the_rounds(line: str, why: str, tmp_path: Path) -> None:
    """Stacked they would be larger than they are."""
    own = "A, C [D, D]" if "T(C)" in line else "A [D]"
    text = f"dim B, S, D = 3\n\nblock Cell(x [B, D]) -> y [B, D] {{\n    param {own}\n"
    text += "    state h [B, D] = 0.5\n"
    text += f"    {line.replace('A[0]', 'A')} -> tanh : y\n    next h = y\n}}\n\n"
    text += "block Net(X [B, S, D]) -> Y [B, S, D] {\n    X -> Cell over S as cell : Y\n}\n"
    program = xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 4})
    (rounds,) = _rounds(program.fused.backwards.values())
    assert {str(value.name) for value, _ in rounds.param_gradients()} >= {"A"}, why
    assert not rounds.rows


def _rounds(backwards: Iterable[Backward]) -> list[Backward]:
    """The backward passes of the rounds of cells."""
    return [each for each in backwards if each.block == "Cell"]
