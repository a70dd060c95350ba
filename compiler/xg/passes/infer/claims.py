"""Labels that promise another type than the edge has, and labels in another order than results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Beyond
from xg.diagnostics.source import Span
from xg.ir.advice import advice
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.loop import meant_axis
from xg.ir.tensor import TensorType, spell_shape
from xg.passes.infer.errors import ExchangedResults, LabelMismatch, StateMismatch
from xg.syntax.spelling import greek_name

EXCHANGED: Final = 2  # labels, at least


@dataclass(frozen=True, slots=True)
class _WrongLabel:
    """A label that promises another type than its edge has."""

    value: Value
    declared: TensorType
    expected: TensorType
    span: Span


def check_claims(graph: Graph, callees: Mapping[str, Graph]) -> Iterator[Problem]:
    """The wrong labels of a graph with the types that it has; `callees` are those of its calls.

    A label, but no output, may leave out a range. Where labels of one step are exchanged, what its
    results make is not reported, for it is typed by the results.
    """
    wrong: list[_WrongLabel] = []
    promised = {*zip(graph.outputs, graph.output_types, strict=True)}
    for value, declared, span in graph.claims:
        found = graph.types.get(value)
        if found is None:
            continue
        try:
            expected = graph.sizes.expand_type(declared)
        except Beyond as beyond:
            yield beyond.limit.at(span)
            continue
        says_range = expected.range is not None or (value, declared) in promised
        if expected.shape != found.shape or (says_range and expected.range != found.range):
            wrong.append(_WrongLabel(value, declared, expected, span))
    exchanged = [each for step in graph.steps for each in _exchanged(callees, graph, step, wrong)]
    yield from (problem for problem, _ in exchanged)
    behind = _behind(graph.steps, {value for _, values in exchanged for value in values})
    for each in wrong:
        if each.value not in behind:
            yield _problem(callees, graph, each)


def _exchanged(
    callees: Mapping[str, Graph], graph: Graph, step: Apply | Call, wrong: Sequence[_WrongLabel]
) -> Iterator[tuple[ExchangedResults, list[Value]]]:
    """The problem of a step whose labels promise its results in another order, and which do."""
    nexts = {id(carry.past.declared) for carry in graph.carries}
    labels = {each.value: each for each in wrong if id(each.declared) not in nexts}
    apart = [value for value in step.outputs if value in labels]
    results = [graph.types[value] for value in apart]
    if len(apart) < EXCHANGED or Counter(results) != Counter(
        labels[value].expected for value in apart
    ):
        return
    free = list(apart)
    order: list[Value] = []
    for value in step.outputs:
        if value in labels:
            wanted = graph.types[value]
            value = next(each for each in free if labels[each].expected == wanted)
            free.remove(value)
        order.append(value)
    node = step.op.glyph if isinstance(step, Apply) else callees[step.path].block
    last = max(step.outputs.index(value) for value in apart) + 1
    types = (str(graph.sizes.fold_type(graph.types[value])) for value in step.outputs[:last])
    names = ", ".join(
        greek_name(value.name) if value.name else labels[value].span.text for value in order[:last]
    )
    yield ExchangedResults(step.span, node, ", ".join(types), names), apart


def _behind(steps: Sequence[Apply | Call], values: set[Value]) -> set[Value]:
    """These values and all that are made of them."""
    for step in steps:
        if values.intersection(step.inputs):
            values.update(step.outputs)
    return values


def _problem(callees: Mapping[str, Graph], graph: Graph, wrong: _WrongLabel) -> Problem:
    found, sizes = graph.types[wrong.value], graph.sizes
    written, actual = str(wrong.declared), str(sizes.fold_type(found))
    for carry in graph.carries:
        if carry.past.declared is wrong.declared:
            edge = wrong.value.span
            return StateMismatch(wrong.span, carry.name, written, "becomes", actual, edge)
    help = "" if wrong.expected.range else f"an output says its range: {actual}"
    if wrong.expected.shape != found.shape:
        names = [str(sizes.fold(dim)) for dim in found.shape]
        help = _over(callees, graph, wrong) or advice(found.shape, wrong.expected.shape, names)
    return LabelMismatch(wrong.span, written, actual, help)


def _over(callees: Mapping[str, Graph], graph: Graph, wrong: _WrongLabel) -> str:
    """The axis that the loop of a wrong label was likely meant to go over."""
    calls = (step for step in graph.steps if isinstance(step, Call) and step.loop)
    call = next((step for step in calls if wrong.value in step.outputs), None)
    if call is None or call.loop is None:
        return ""
    callee = callees[call.path]
    for port, value, along in zip(callee.inputs, call.inputs, call.loop.inputs, strict=False):
        if along is None or port.declared is None:
            continue
        shape = [graph.sizes.fold(dim) for dim in graph.types[value].shape]
        meant = meant_axis([dim.name for dim in port.declared.shape], shape, along)
        if meant is not None:
            loop = shape.pop(along)
            taken = f"{spell_shape(tuple(shape))} as {greek_name(port.name or '')} {port.declared}"
            return f"over {loop} a round takes {taken}: write `{callee.block} over {meant}`"
    return ""
