"""Match the steps of two graphs, and describe how each step makes its edges.

A step that comes in front renumbers those behind it, and nothing of these has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from enum import Enum
from hashlib import sha256
from typing import cast

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body
from xg.ir.collective import FAMILY
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Graph, Param, Value
from xg.ir.tensor import Sizes, spell_shape

Signature = tuple[str, tuple[str, ...], tuple[str, ...]]


def places_in(new: Graph, old: Graph) -> dict[str, str]:
    """The place in the new graph of every unnamed step of the old one.

    Steps are the same that do the same with operands of the same names, in the same order; one that
    is where another one was has changed. A step that is gone has a place that no other has.
    """
    before, after = _steps(old), _steps(new)
    matcher = SequenceMatcher(None, [*map(_signature, before)], [*map(_signature, after)], False)
    pairs = dict[str, str]()
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            pairs |= dict(_unnamed_pairs(before[i:i_end], after[j:j_end]))
    taken = {step.place for step in after}
    for step in before:
        if step.place not in pairs and not _is_named(step):
            pairs[step.place] = f"{step.place} before" if step.place in taken else step.place
    return pairs


def _steps(graph: Graph) -> list[Apply]:
    return [step for step in graph.steps if isinstance(step, Apply) and step.op.family != FAMILY]


def _unnamed_pairs(before: Sequence[Apply], after: Sequence[Apply]) -> Iterator[tuple[str, str]]:
    for old, new in zip(before, after, strict=True):
        if not _is_named(old) and not _is_named(new):
            yield old.place, new.place


def _is_named(step: Apply) -> bool:
    return step.outputs[0].name is not None


def _signature(step: Apply) -> Signature:
    results = [value for value in step.outputs if value.role != "cache"]
    return step.op.glyph, _names(step.inputs[1:]), _names(results)  # the first one is on the way


def _names(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(str(value.name or "") for value in values)


# How an edge is made: from which operands, with which arguments, by which computation.


Operand = tuple[str, bool]  # what it is called, and whether the file says so
Arguments = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Making:
    """All that may differ between two edges of one operator.

    `formula` identifies the computation, which of an operator of the file its text decides.
    """

    operands: tuple[Operand, ...] = ()
    arguments: Arguments = ()
    formula: str = ""

    def as_in(self, other: Making, ours: Set[Operand], theirs: Set[Operand]) -> Making:
        """The same with the other's operands where only a step came or went in front.

        That is where the file names one of the two at most, and only one program has it.
        """
        if len(self.operands) != len(other.operands):
            return self
        pairs = zip(self.operands, other.operands, strict=True)
        operands = (a if (a[1] and b[1]) or (a in theirs and b in ours) else b for a, b in pairs)
        return replace(self, operands=tuple(operands))


NOTHING = Making()


def of_step(step: Apply, index: int, operands: tuple[Operand, ...], graph: Graph) -> Making:
    """How an operator makes one of its results."""
    arguments = _spelled(dict(step.attrs), graph.sizes)
    return Making(operands, arguments, _formula(step.body(graph.types), index, graph.sizes))


def of_call(
    call: Call, index: int, operands: tuple[Operand, ...], graph: Graph, callee: Graph
) -> Making:
    """How a call makes one of its results: the block, its sizes, and how often it is called."""
    found: dict[str, object] = {"block": callee.title, "count": call.count, **call.sizes}
    if call.loop:
        found |= {"rounds": call.loop.length, "reversed": call.loop.reverse or None}
        found |= {"along": call.loop.inputs, "stacked along": call.loop.outputs}
    result = callee.output_names[index] if index < len(callee.output_names) else str(index)
    return Making(operands, _spelled({**found, "result": result}, graph.sizes))


def of_param(param: Param, graph: Graph) -> Making:
    """The start of a parameter, and whether it is trained."""
    found = {"start": param.start, "frozen": param.value.frozen or None}
    return Making(arguments=_spelled(found, graph.sizes))


def of_input(value: Value, operands: Mapping[Value, Operand], graph: Graph) -> Making:
    """An input: below which number its integers are, or how a state goes on."""
    type_ = graph.types[value]
    found: dict[str, object] = {"below": type_.range, "frozen": value.frozen or None}
    following: tuple[Operand, ...] = ()
    for carry in graph.carries:
        if carry.past is value and carry.next in operands:
            following, found["start"] = (operands[carry.next],), carry.start
    return Making(following, _spelled(found, graph.sizes))


def _spelled(found: Mapping[str, object], sizes: Sizes) -> Arguments:
    items = sorted(found.items())
    return tuple((key, _text(value, sizes)) for key, value in items if value is not None)


def _formula(body: Body, index: int, sizes: Sizes) -> str:
    """A word for the primitives that a result needs; shapes are no part of it."""
    order = body.order()
    places = {id(expr): str(place) for place, expr in enumerate(order)}
    words = [f"{places[id(body.outputs[index])]}"]
    operands = {id(expr): str(place) for place, expr in enumerate(body.operands)}
    for expr in order:
        words += [expr.prim, operands.get(id(expr), ""), *(places[id(arg)] for arg in expr.args)]
        words += [f"{key}={_text(value, sizes)}" for key, value in expr.attrs]
    return sha256("\n".join(words).encode()).hexdigest()[:12]


def _text(value: object, sizes: Sizes) -> str:
    """A value as people read it, without sizes that the file defines."""
    match value:
        case Dim():
            return str(sizes.expand(value))
        case Enum():
            return str(value.value)
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return ", ".join(f"{key}: {_text(each, sizes)}" for key, each in items)
        case tuple() | list():
            parts = [*cast("tuple[object, ...]", value)]
            if parts and all(isinstance(each, Dim) for each in parts):
                return spell_shape(tuple(sizes.expand(each) for each in cast("list[Dim]", parts)))
            return ", ".join(_text(each, sizes) for each in parts)
        case _:
            return str(value)


# ---- what differs --------------------------------------------------------------------------------


def otherwise(before: Making, after: Making, maker: str) -> Iterator[str]:
    """The differences between two edges of one maker, for people."""
    if before.operands != after.operands:
        word = "goes on as" if maker == "input" else "from"
        yield f"{word} {_listed(after)}, was {_listed(before)}"
    old, new = dict(before.arguments), dict(after.arguments)
    for name in dict.fromkeys([*new, *old]):
        if old.get(name) != new.get(name):
            yield f"{name} {new.get(name, 'left out')}, was {old.get(name, 'left out')}"
    if before.formula != after.formula and before.arguments == after.arguments:
        yield f"{maker} computes something else"


def _listed(making: Making) -> str:
    return " and ".join(name for name, _ in making.operands) or "nothing"
