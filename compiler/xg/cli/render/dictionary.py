"""The notation itself as a figure: each operator of seed 001, section 4.3, in both passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from xg.driver import compile
from xg.figures.model.figure import Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import StyledRun
from xg.figures.views import View
from xg.figures.views.notation import without_partial

_SOURCE: Final = """
dim B, S, D = 8, N_H = 2, D_h = D/N_H
mesh N_T = 2

block Product "Matrix product" (X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    X -> •<=W : Y
}

block Sum "Sum" (A [B, S, D], C [B, S, D]) -> Y [B, S, D] {
    A -> ⊕<-C : Y
}

block Activation "Nonlinear operator" (X [B, S, D]) -> Y [B, S, D] {
    X -> GELU : Y
}

block Dropout "Dropout" (X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    X -> DO(p) : Y
}

block Scores "Scale and mask" (A [B, N_H, S, S]) -> Z [B, N_H, S, S] {
    A -> SM(1/sqrt(D_h), causal) : Z
}

block Softmax "Softmax" (Z [B, N_H, S, S]) -> P [B, N_H, S, S] {
    Z -> S : P
}

block Norm "Layer norm" (X [B, S, D]) -> H [B, S, D] {
    param γ [D] = ones, β [D] = zeros
    X -> LN(γ, β) : H
}

block Reshape "Reshape" (X [B, S, D]) -> Q [B, N_H, S, D_h] {
    X -> R : Q
}

block Transpose "Transpose" (K [B, N_H, S, D_h]) -> KT [B, N_H, D_h, S] {
    K -> T : KT
}

block Broadcast "Broadcast" (b_0 [D]) -> Y [B, S, D] {
    b_0 -> BC : Y
}

block Reduce "All reduce" (U [B, S, D/N_T]) -> Z [B, S, D] {
    param W [D/N_T, D]
    U -> •<=W : Z_i [B, S, D]
      -> AR(N_T) : Z
}

block Gather "All gather" (H [B, S, D/N_T]) -> Y [B, S, D] {
    H -> AG(N_T) : Y
}
"""
_BLOCKS: Final = (
    "Product", "Sum", "Activation", "Dropout", "Scores", "Softmax",
    "Norm", "Reshape", "Transpose", "Broadcast", "Reduce", "Gather",
)  # fmt: skip


def dictionary() -> tuple[Figure, list[tuple[Figure, ...]]]:
    """Return a figure of all operators, with a legend, and the figures of each in both passes."""
    pairs = [tuple(_passes(block)) for block in _BLOCKS]
    every = [figure for pair in pairs for figure in pair]
    whole = Figure(
        title="Operator Dictionary",
        subtitle="forward and backward",
        description="Each operator of the notation, and beside it its backward pass.",
        nodes=tuple(node for figure in every for node in figure.nodes),
        edges=tuple(edge for figure in every for edge in figure.edges),
        legend=True,
    )
    return whole, pairs


def _passes(block: str) -> Iterator[Figure]:
    """Yield the figures of a block, under ids that no other block has."""
    program = compile(source=_SOURCE, block=block)
    views: tuple[View, ...] = ("forward", "backward")
    figures = [program.figure(view) for view in views]
    if block == "Reduce":
        figures = _without_product(*figures)
    for view, figure in zip(views, figures, strict=True):
        own = {node.id: f"{block} {view} {node.id}" for node in figure.nodes}
        yield replace(
            figure,
            nodes=tuple(replace(node, id=own[node.id]) for node in figure.nodes),
            edges=tuple(replace(e, tail=own[e.tail], head=own[e.head]) for e in figure.edges),
        )


def _without_product(forward: Figure, backward: Figure) -> list[Figure]:
    """Return the figures of an all-reduce alone: what it sums up comes from outside.

    Only a product makes a term of a sum over ranks, and its gradients are not of the collective:
    that of the sum is the gradient of every term.
    """
    (bar,) = (node for node in forward.nodes if node.kind is NodeKind.COMMUNICATION)
    (into,) = (edge for edge in forward.edges if edge.head == bar.id)
    (out,) = (edge for edge in forward.edges if edge.tail == bar.id)
    term = FigureNode("term", NodeKind.TENSOR, into.label)
    result = next(node for node in forward.nodes if node.id == out.head)
    taken = backward.nodes[0]
    label = (StyledRun("d", italic=True), *without_partial(into.label))
    given = FigureNode("gradient", NodeKind.TENSOR, label)
    return [
        replace(forward, nodes=(term, bar, result), edges=(FigureEdge(term.id, bar.id), out)),
        replace(backward, nodes=(taken, given), edges=(FigureEdge(taken.id, given.id),)),
    ]
