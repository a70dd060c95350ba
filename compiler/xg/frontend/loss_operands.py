"""Losses whose operand is certainly of another kind: logits for probabilities, or these for those.

An input of a block may be anything: only results of the block and of those that it calls count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.frontend.errors import LossOperand
from xg.ir.graph import Apply, Graph, Program, Value
from xg.ir.loss import is_loss

ANY_SIGN: Final = frozenset({"convolution", "layer_norm", "tanh"})
KEEPING: Final = frozenset({"relu", "gelu", "silu", "scale", "dropout", "stop"})  # what they get
PROBABILITIES: Final = frozenset({"softmax", "sigmoid"})

Place = tuple[Graph, Value]


def loss_operands(program: Program) -> Iterator[LossOperand]:
    """A warning for each loss of a program that does not get what it takes."""
    for graph in program.graphs.values():
        for step in filter(is_loss, graph.steps):
            kind = _kind(step)
            made, by = _made(program, (graph, step.inputs[0]), rows=kind == "classes")
            if by is None:
                continue
            is_last = by.attrs.get("axis", -1) == -1
            softmax = by.op.name == "softmax" and is_last
            if kind == "probabilities" and _is_linear(program, made):
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "probabilities")
            elif kind == "logits" and (by.op.name == "sigmoid" or softmax):
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "logits")
            elif kind == "classes" and softmax:
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "classes")


def _kind(step: Apply) -> str | None:
    """The kind of operand that a loss takes: probabilities, logits of yes or no, or of classes."""
    if step.op.name == "binary_cross_entropy":
        return str(step.attrs["form"])
    return "classes" if step.op.name == "cross_entropy" else None


def _made(program: Program, place: Place, *, rows: bool = False) -> tuple[Place, Apply | None]:
    """The place and the step that makes a value, calls left out, and moves (that keep `rows`)."""
    graph, value = place
    while True:
        step = next((step for step in graph.steps if value in step.outputs), None)
        if step is None:
            return (graph, value), None
        if isinstance(step, Apply):
            if not _moves(graph, step, rows=rows):
                return (graph, value), step
            value = step.inputs[0]
        else:
            index = step.outputs.index(value)
            graph = program.callee(step)
            if index >= len(graph.outputs):
                return (graph, value), None  # the last state of a loop
            value = graph.outputs[index]


def _moves(graph: Graph, step: Apply, *, rows: bool) -> bool:
    """Whether a step only moves numbers, and, if asked, rows of classes stay rows."""
    if step.op.family != "layout" or len(step.inputs) != 1:
        return False
    before, after = (graph.types[value].shape for value in (*step.inputs, *step.outputs[:1]))
    return not rows or (step.op.name == "reshape" and before[-1:] == after[-1:])


def _is_linear(program: Program, place: Place) -> bool:
    """Whether a value has no bounds: a product with a parameter, or what keeps it so."""
    (graph, _), step = _made(program, place)
    if step is None:
        return False
    if step.op.name in ANY_SIGN:
        return True
    if step.op.name == "matmul":
        made = (_made(program, (graph, each))[0][1] for each in step.inputs)
        params = {param.value for param in graph.params}
        return any(each in params for each in made)
    if step.op.name in KEEPING:
        return _is_linear(program, (graph, step.inputs[0]))
    if step.op.name == "add":
        return any(_is_linear(program, (graph, each)) for each in step.inputs)
    return False
