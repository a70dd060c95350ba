"""Results and parameters that a text names in another order than they have.

They are bound by their places: `: var, mean` of a block that gives mean, var, the last states of a
loop, and `LN(β, γ)`. That is no error, and hardly meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.frontend.errors import ExchangedNames
from xg.ir.graph import Apply, Call, Graph, Program
from xg.ir.use import Tensor
from xg.syntax.spelling import greek_name

Names = Sequence[str | None]
OTHERWISE: Final = {"mu": "mean", "v": "variance", "var": "variance"}  # as BN's are often called


def exchanged_names(program: Program) -> Iterator[ExchangedNames]:
    """A warning for each step of a program that has names of its own at each other's places."""
    for graph in program.graphs.values():
        for step in graph.steps:
            if isinstance(step, Apply):
                own, given, node = *_parameters(step), step.op.glyph
            else:
                callee = program.callee(step)
                own, given, node = *_results(step, callee), callee.block
            if moved := _exchanged(own, given):
                names = ", ".join(greek_name(name or "…") for name in own[: len(given)])
                meant = {there: given[here] for here, there in moved.items()}
                order = (meant.get(place, name) for place, name in enumerate(given))
                written = ", ".join(greek_name(name or "…") for name in order)
                gives = "takes" if isinstance(step, Apply) else "gives"
                yield ExchangedNames(step.span, node, gives, names, written)


def _parameters(step: Apply) -> tuple[Names, Names]:
    """The names of a node's parameters in their order, and of those that it is given."""
    tensors = {own.name for own in step.op.own if isinstance(own, Tensor)}
    pairs = zip(step.op.operand_names(step.attrs), step.inputs, strict=True)
    named = [(own, value.name or "") for own, value in pairs if own in tensors]
    return [own for own, _ in named], [name.rpartition(".")[2] for _, name in named]


def _results(call: Call, callee: Graph) -> tuple[Names, Names]:
    """The names of a call's results in their order, and those of its label."""
    states = call.loop.states if call.loop else 0
    outputs = callee.outputs[: len(callee.outputs) - states]
    last = callee.inputs[len(callee.inputs) - states :]
    return [value.name for value in (*outputs, *last)], [value.name for value in call.outputs]


def _exchanged(own: Names, given: Names) -> dict[int, int]:
    """The places of names that are at each other's, two of them or a round, by where they are."""
    at = {name: place for place, name in enumerate(own) if name}
    known = [OTHERWISE.get(name or "", name) if name not in at else name for name in given]
    moved = {here: at[name] for here, name in enumerate(known) if name in at and at[name] != here}
    while apart := [here for here, there in moved.items() if there not in moved]:
        for here in apart:
            del moved[here]
    return moved
