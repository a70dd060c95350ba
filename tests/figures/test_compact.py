"""Compact backward figures: gradients of parameters as names beside their products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from figures.flaws import flaws
from figures.shipped_figures import CASES, DIAGRAMS, programs
from library import shipped, varied
from tier import THOROUGH

import xg
from xg.driver import Program
from xg.figures import dot, first_that_fits, paint_figure
from xg.figures.model.figure import EdgeRole, Figure, NodeKind, TooNarrow
from xg.figures.model.richtext import characters
from xg.figures.views.backward import without_shapes

# Figures whose width is measured; CI tries those with the widest backward figures, and some others.
WIDEST: Final = ("gru", "sentiment", "llama", "mha", "mlp")
MEASURED: Final = [path for path in DIAGRAMS if THOROUGH or path.stem in WIDEST]
PAGE, COLUMN = 7 * 72.0, 3.3 * 72.0
# Their gradients flow side by side where their values did not.
WIDE: Final = {
    "lstm.LSTM_cell", "perceiver.Read", "rwkv.Shares", "unet.Residual", "vae.VAE", "ops.Ops",
    "encoder_decoder.Decoder", "resnet.Down",
}  # fmt: skip


@cache
def _compact(name: str, plan: str | None = None) -> Figure:
    return xg.compile(shipped(name), plan=plan).figure("backward", compact=True)


def _beside(figure: Figure) -> dict[str, str]:
    """The names beside each node: those of gradients, in one line."""
    texts = {n.id: " ".join(map(characters, (n.label, *n.lines))) for n in figure.nodes}
    return {e.tail: texts[e.head] for e in figure.edges if e.role is EdgeRole.ASIDE}


def test_gradients_are_named_beside_the_product_of_their_layer() -> None:
    figure = _compact("mlp")
    matrices = {e.head: e.tail for e in figure.edges if e.role is EdgeRole.SIDE}
    named = {matrices[node]: names for node, names in _beside(figure).items()}
    assert named.pop("X") == "dγ, dβ"
    assert named == {"W_down^⊤": "dW_down, db_down", "W_up^⊤": "dW_up, db_up"}
    assert not any(node.kind is NodeKind.REDUCE for node in figure.nodes)


def test_two_products_of_one_gradient_have_a_name_each() -> None:
    figure = xg.compile(source=TWO).figure("backward", compact=True)
    matrices = {e.head: e.tail for e in figure.edges if e.role is EdgeRole.SIDE}
    named = {matrices[node]: names for node, names in _beside(figure).items()}
    assert named == {"W^⊤": "dW", "U^⊤": "dU"}


def test_collectives_of_gradients_stay() -> None:
    assert set(_beside(_compact("mlp", "DP")).values()) == {
        "dW_down AR N_D, db_down AR N_D",
        "dW_up AR N_D, db_up AR N_D",
        "dγ AR N_D, dβ AR N_D",
    }


TWO = """\
dim B, D

block Two(X, H [B, D]) -> Y [B, D] {
    param W, U [D, D]
    X -> •<=W -> ⊕<-(H -> •<=U) : Y
}
"""
TIED = """\
dim B, S, V, D

block LM(ids [B, S] in V, t [B, S] in V) -> loss [] {
    param E [V, D]
    ids -> Emb(E) -> tanh : H -> @<=T(E) : Z -> CE<-t : loss
}
"""
FIRST = """\
dim B, D

block First(X [B, D] frozen) -> Y [B, D] {
    param W [D, D], b [D]
    X -> @<=W -> ⊕<-BC(b) : Y
}
"""


def test_the_terms_of_a_sum_are_named_where_each_is_made() -> None:
    figure = xg.compile(source=TIED).figure("backward", compact=True)
    assert sorted(_beside(figure).values()) == ["dE, 1 of 2", "dE, 2 of 2"]
    assert not any(node.kind is NodeKind.ADD for node in figure.nodes)


def test_a_column_ends_in_a_gradient_if_nothing_else_is_below() -> None:
    figure = xg.compile(source=FIRST).figure("backward", compact=True)
    ends = {edge.tail for edge in figure.edges}
    last = [characters(node.label) for node in figure.nodes if node.id not in ends]
    assert last == ["db", "dW [D, D]"]
    assert list(_beside(figure).values()) == ["db"]


def _words(figure: Figure) -> str:
    texts = (text for node in figure.nodes for text in (node.label, node.detail, *node.lines))
    return " ".join(map(characters, texts))


@pytest.mark.parametrize(
    ("path", "plan"),
    [each for each in CASES if THOROUGH or not each[1] or (each[1] == "DP" and varied(each[0]))],
)
def test_no_gradient_is_lost(path: Path, plan: str | None) -> None:
    for name, program in programs(path, plan):
        if "backward" in program.views:
            words = _words(program.figure("backward", compact=True))
            for terminal in _results(program):
                assert terminal in words, (name, terminal)


def _results(program: Program) -> Iterator[str]:
    figure = program.figure("backward")
    tails = {edge.tail for edge in figure.edges}
    for node in figure.nodes:
        if node.kind is NodeKind.TENSOR and node.id not in tails:
            yield characters(node.label).partition(" [")[0]


def test_names_alone_have_no_shapes_but_at_the_ends() -> None:
    figure = without_shapes(_compact("mlp"))
    labels = [characters(node.label) for node in figure.nodes]
    assert [label for label in labels if "[" in label] == ["dY [B, S, D]", "dX [B, S, D]"]
    assert "dX, less dY" in [characters(edge.label) for edge in figure.edges]


def _forms(program: Program, width: float) -> Iterator[Figure]:
    yield replace(program.figure("backward"), width=width)
    compact = program.figure("backward", compact=True)
    yield from (replace(one, width=width) for one in (compact, without_shapes(compact)))


def _fits(forms: Iterator[Figure]) -> bool:
    try:
        first_that_fits(forms)
    except TooNarrow:
        return False
    return True


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_a_backward_figure_fits_a_page_and_the_column_of_its_forward_figure(path: Path) -> None:
    for name, program in programs(path):
        if "backward" in program.views:
            assert _fits(_forms(program, PAGE)), name
            forward = replace(program.figure("forward"), width=COLUMN)
            if name not in WIDE and _fits(iter([forward])):
                assert _fits(_forms(program, COLUMN)), name


@pytest.mark.parametrize(("name", "plan"), [("mlp", None), ("mha", None), ("mlp", "DP")])
def test_compact_figures_have_no_flaws(name: str, plan: str | None) -> None:
    for figure in (_compact(name, plan), without_shapes(_compact(name, plan))):
        assert flaws(paint_figure(figure)[0], figure.groups) == []
        assert "rank=same" in dot(figure)
