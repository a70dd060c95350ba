"""Labels that promise another type than the edge has, and labels in another order than results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Beyond
from xg.diagnostics.source import Span
from xg.ir.dim import ONE, ZERO, DimError
from xg.ir.errors import no_size
from xg.ir.graph import Apply, Call, Graph, Value, meant_axis
from xg.ir.tensor import TensorType, spell_shape
from xg.ir.use import advice
from xg.passes.infer.errors import ExchangedResults, LabelMismatch, StateMismatch
from xg.passes.infer.own_ops import own_op
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
    # an editor types what it can: there an output that has no shape yet has no type
    promised = {*zip(graph.outputs, graph.output_types, strict=False)}
    for value, declared, span in graph.claims:
        found = graph.types.get(value)
        if found is None:
            continue
        try:
            expected = graph.sizes.expand_type(declared)
        except Beyond as beyond:
            yield beyond.limit.at(span)
            continue
        except DimError as error:
            yield no_size(span, error)
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
    order_of = _order_of(callees, step)
    yield ExchangedResults(step.span, node, ", ".join(types), names, order_of), apart


def _order_of(callees: Mapping[str, Graph], step: Apply | Call) -> str:
    """In which order a step gives its results."""
    if isinstance(step, Apply) and step.op.name == "topk":
        return "the largest come first, then their places"
    if isinstance(step, Call) and step.loop and callees[step.path].carries:
        return "results come first, then the states in the order of their declarations"
    return "results have their order"


def _turned(callees: Mapping[str, Graph], graph: Graph, wrong: _WrongLabel) -> str:
    """The label with two names exchanged, where the other result has the promised type."""
    step = next((step for step in graph.steps if wrong.value in step.outputs), None)
    if step is None or not wrong.value.name:
        return ""
    labelled = {value for value, _, _ in graph.claims}
    fits = [
        value
        for value in step.outputs
        if value.name and value not in labelled and graph.types.get(value) == wrong.expected
    ]
    if len(fits) != 1:
        return ""
    turned = {wrong.value: fits[0], fits[0]: wrong.value}
    named = (turned.get(value, value) for value in step.outputs if value.name)
    names = ", ".join(greek_name(value.name or "") for value in named)
    return f"{_order_of(callees, step)}: write `: {names}`"


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
            told = carry.name, written, "becomes", actual, wrong.value.span
            larger = len(found.shape) > len(wrong.expected.shape)
            line = f"write `state {greek_name(carry.name)} {actual}`" if larger else ""
            return StateMismatch(wrong.span, *told, line)
    turned = _turned(callees, graph, wrong)
    if turned:
        return LabelMismatch(wrong.span, written, actual, turned, is_turned=True)
    help = "" if wrong.expected.range else f"an output says its range: {actual}"
    if wrong.expected.shape != found.shape:
        names = [str(sizes.fold(dim)) for dim in found.shape]
        help = _over(callees, graph, wrong) or _last(graph, wrong) or _windows(graph, wrong)
        help = help or own_op(graph, wrong.value, wrong.expected.shape)
        help = help or advice(found.shape, wrong.expected.shape, names)
    return LabelMismatch(wrong.span, written, actual, help)


def _windows(graph: Graph, wrong: _WrongLabel) -> str:
    """How windows keep the length of their axis, where they are fewer than a label has."""
    found, expected = graph.types[wrong.value].shape, wrong.expected.shape
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        for length, count, width, stride, _, pad in step.attrs.get("cuts", ()):
            alone = stride == ONE and pad == ZERO and width != ONE
            if alone and count in found and length in expected and length not in found:
                sizes = graph.sizes.fold(count), graph.sizes.fold(length)
                return (
                    f"{step.op.glyph} has {sizes[0]} windows inside the axis, if causal {sizes[1]}"
                )
    return ""


def _last(graph: Graph, wrong: _WrongLabel) -> str:
    """How the result of one round is taken, where a label has no axis of the rounds."""
    call = _loop_of(graph, wrong.value)
    if call is None or call.loop is None:
        return ""
    along = call.loop.outputs[call.outputs.index(wrong.value)]
    shape = list(graph.types[wrong.value].shape)
    if along is None or shape.pop(along) != call.loop.length or (*shape,) != wrong.expected.shape:
        return ""
    axis = graph.sizes.fold(call.loop.length)
    last = f"pick[{axis}]({'0' if call.loop.reverse else f'{axis} - 1'})"
    return f"all rounds are there: `-> {last}` takes the last one, mean[{axis}] or sum[{axis}] all"


def _loop_of(graph: Graph, value: Value) -> Call | None:
    """The call over an axis that makes a value."""
    calls = (step for step in graph.steps if isinstance(step, Call) and step.loop)
    return next((step for step in calls if value in step.outputs), None)


def _over(callees: Mapping[str, Graph], graph: Graph, wrong: _WrongLabel) -> str:
    """The axis that the loop of a wrong label was likely meant to go over."""
    call = _loop_of(graph, wrong.value)
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
