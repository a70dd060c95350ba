"""Check types of a graph: kinds of numbers, labels, parameters that calls share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import Beyond
from xg.ir.dim import ZERO, Dim, DimError, number
from xg.ir.errors import no_size
from xg.ir.graph import Apply, Call, Graph, Value, meant_axis
from xg.ir.tensor import Shape, Sizes, TensorType, spell_shape
from xg.ir.use import Data, Tensor, advice
from xg.ir.walk import CallSite, callers_first, join
from xg.passes.infer.errors import (
    ExchangedResults,
    LabelMismatch,
    Mistyped,
    SharedShape,
    StateMismatch,
    WrongKind,
)
from xg.syntax.spelling import greek_name

PAIR: Final = 2  # operands in each other's place


def check_kinds(
    node: Apply, types: Sequence[TensorType], sizes: Sizes, above: Sequence[Apply | Call]
) -> None:
    """Refuse operands of the wrong kind; `above` are the steps that make them."""
    absent = node.attrs.get("absent", ())
    slots: list[Data | Tensor] = [d for d in node.op.data if d.name not in absent]
    for value, slot, type_ in zip(node.inputs, slots, types, strict=False):
        expected = slot.kind if isinstance(slot, Data) else "float"
        if expected != "any" and (expected == "float") != type_.is_float:
            problem = _wrong_kind(node, value, slot, types, type_, sizes)
            meant = _operand_order(node, slots, types) or _instead(node, value, slot, type_, above)
            raise Mistyped(replace(problem, instead=meant))


def _wrong_kind(
    node: Apply,
    value: Value,
    slot: Data | Tensor,
    types: Sequence[TensorType],
    type_: TensorType,
    sizes: Sizes,
) -> WrongKind:
    floats = isinstance(slot, Tensor) or slot.kind == "float"
    below = None if isinstance(slot, Tensor) else _integers_below(node, slot, types)
    size = sizes.fold(below) if isinstance(below, Dim) else below or "V"
    enters = value.role == "input"
    how = "declare it as an index" if enters else "integers enter as an input"
    axes = type_.shape
    if node.op.glyph == "CE" and axes == types[0].shape:  # a row of zeros and a one for each
        axes = axes[:-1]
    name, shape = value.name if enters else "NAME", TensorType(sizes.fold_shape(axes))
    wanted, found = ("floats", "integers") if floats else ("integers", "floats")
    shipped = isinstance(slot, Tensor) or slot.below is None
    told = (
        slot.name,
        wanted,
        found,
        how,
        f"{name} {shape} in {size}",
        shipped,
        _has_twin(node, slot),
    )
    return WrongKind(node.span, node.op.glyph, *told)


def _operand_order(node: Apply, slots: Sequence[Data | Tensor], types: Sequence[TensorType]) -> str:
    """The operands of arrows in their order, where two are in each other's place."""
    kinds = [slot.kind if isinstance(slot, Data) else "float" for slot in slots]
    found = ["float" if type_.is_float else "int" for type_ in types]
    pairs = enumerate(zip(kinds, found, strict=False))
    wrong = [place for place, (kind, is_) in pairs if kind not in ("any", is_)]
    if len(wrong) != PAIR or kinds[wrong[0]] != found[wrong[1]]:
        return ""
    if 0 in wrong:
        first, second = (greek_name(value.name or "…") for value in node.inputs[:2])
        return f"turn them round: `{second} -> {node.op.glyph}<-{first}`" if wrong[1] == 1 else ""
    order = list(node.inputs[: len(slots)])
    order[wrong[0]], order[wrong[1]] = order[wrong[1]], order[wrong[0]]
    names = [value.name for value in order[1:]]
    if not all(names):
        return ""
    arrows = "".join(f"<-{greek_name(name or '')}" for name in names)
    return f"pass operands in order: write `{node.op.glyph}{arrows}`"


def _instead(
    node: Apply,
    value: Value,
    slot: Data | Tensor,
    type_: TensorType,
    above: Sequence[Apply | Call],
) -> str:
    """The places that were chosen with the values given, or the signature that takes integers."""
    if isinstance(slot, Tensor):
        return ""
    if type_.range is not None:
        if node.op.name == "matmul" and value is node.inputs[0]:
            ids, table = (greek_name(each.name or "…") for each in node.inputs)
            is_table = node.inputs[1].role == "param"
            return f"for rows of a table, write `{ids} -> Emb({table})`" if is_table else ""
        if not slot.axes:  # an operator of the language
            return ""
        axes = ", ".join(slot.axes)
        return (
            f"{node.op.glyph} takes integers where its signature says so: {slot.name} [{axes}] in N"
        )
    if node.op.glyph == "not":
        return "for 1 minus a float, define `op rest(x) = 1 - x`"
    made = next((step for step in above if value in step.outputs), None)
    if node.op.glyph == "combine":
        return "dispatch returns the places, as its second result"
    if not isinstance(made, Apply) or made.op.glyph != "topk":
        return ""
    place = made.outputs[1].name
    told = f"{greek_name(value.name or 'the first')} are the values that topk chose"
    return f"{told}, and {greek_name(place)} their places" if place else ""


def _has_twin(node: Apply, slot: Data | Tensor) -> bool:
    """Whether another operand of a defined operator has the same axes and range."""
    if isinstance(slot, Tensor) or slot.below is None:
        return False
    same = [each for each in node.op.data if (each.axes, each.below) == (slot.axes, slot.below)]
    return len(same) > 1


def _integers_below(node: Apply, slot: Data, types: Sequence[TensorType]) -> Dim | str | None:
    """The number that an operand of integers stays below, where the operator says it."""
    shapes = [type_.shape for type_ in types]
    if slot.below is not None:
        below = str(slot.below)
        for data, shape in zip(node.op.data, shapes, strict=False):
            if below in data.axes and len(shape) >= len(data.axes):
                return shape[data.axes.index(below) - len(data.axes)]
        return below
    if slot.name in ("m", "w"):
        return number(2)
    if node.op.glyph == "Emb":
        return next(iter(shapes[1]), None)
    return next(reversed(shapes[0]), None) if node.op.glyph == "CE" else None


# Labels that promise another type than the edge has, and labels in another order than results.


EXCHANGED: Final = 2  # labels, at least


@dataclass(frozen=True, slots=True)
class _WrongLabel:
    """A label that promises another type than its edge has."""

    value: Value
    declared: TensorType
    expected: TensorType
    span: Span


def check_claims(graph: Graph, callees: Mapping[str, Graph]) -> Iterator[Problem]:
    """Check a graph's labels against its types; `callees` are the graphs that it calls.

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
    exchanged = [
        each for step in graph.steps for each in _find_swapped_labels(callees, graph, step, wrong)
    ]
    yield from (problem for problem, _ in exchanged)
    behind = _add_dependents(graph.steps, {value for _, values in exchanged for value in values})
    for each in wrong:
        if each.value not in behind:
            yield _problem(callees, graph, each)


def _find_swapped_labels(
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
    return "results have a fixed order"


def _suggest_swap(callees: Mapping[str, Graph], graph: Graph, wrong: _WrongLabel) -> str:
    """Suggest the label with two names swapped, if the other result has the promised type."""
    step = next((step for step in graph.steps if wrong.value in step.outputs), None)
    if step is None or not wrong.value.name:
        return ""
    labeled = {value for value, _, _ in graph.claims}
    fits = [
        value
        for value in step.outputs
        if value.name and value not in labeled and graph.types.get(value) == wrong.expected
    ]
    if len(fits) != 1:
        return ""
    turned = {wrong.value: fits[0], fits[0]: wrong.value}
    named = (turned.get(value, value) for value in step.outputs if value.name)
    names = ", ".join(greek_name(value.name or "") for value in named)
    return f"{_order_of(callees, step)}: write `: {names}`"


def _add_dependents(steps: Sequence[Apply | Call], values: set[Value]) -> set[Value]:
    """Add everything that is computed from these values to the set, and return it."""
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
    turned = _suggest_swap(callees, graph, wrong)
    if turned:
        return LabelMismatch(wrong.span, written, actual, turned, is_turned=True)
    help = "" if wrong.expected.range else f"declare the range of an output: {actual}"
    if wrong.expected.shape != found.shape:
        names = [str(sizes.fold(dim)) for dim in found.shape]
        help = _over(callees, graph, wrong) or _last(graph, wrong) or _joined(graph, wrong)
        help = help or advice(found.shape, wrong.expected.shape, names)
    return LabelMismatch(wrong.span, written, actual, help)


def _joined(graph: Graph, wrong: _WrongLabel) -> str:
    """Along which axis C gives the shape of its label, where its brackets name another."""
    step = next((step for step in graph.steps if wrong.value in step.outputs), None)
    if not isinstance(step, Apply) or step.op.name != "concat":
        return ""
    first, wanted = graph.types[step.inputs[0]].shape, wrong.expected.shape
    if len(first) != len(wanted):
        return ""
    for place, (dim, length) in enumerate(zip(first, wanted, strict=True)):
        parts = [graph.types[value].shape for value in step.inputs]
        rests = {(*shape[:place], length, *shape[place + 1 :]) for shape in parts}
        put = sum((shape[place] for shape in parts), ZERO)
        if dim != length and rests == {wanted} and put == length:
            axis = graph.sizes.fold(dim).name
            own = axis if axis and first.count(dim) == 1 else str(place - len(first))
            return f"write C[{own}], or C alone, whose label says along which axis"
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
    return f"it has all rounds: `-> {last}` takes the last, mean[{axis}] or sum[{axis}] all"


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


# Calls that share their parameters: these must have one shape in all of them.


Graphs = Mapping[str, Graph]


def shared_shapes(graph: Graph, graphs: Graphs) -> Iterator[SharedShape]:
    """The errors in the calls of a typed graph that share a name."""
    first: dict[str, Call] = {}
    for call in graph.calls:
        before = first.setdefault(call.path, call)
        if before.sizes != call.sizes:
            yield from _differences(graph, before, call, graphs)


def _differences(graph: Graph, first: Call, again: Call, graphs: Graphs) -> Iterator[SharedShape]:
    first_shapes = dict(_params(graph, first, graphs))
    for name, shape in _params(graph, again, graphs):
        if shape != first_shapes[name]:
            shapes = [spell_shape(graph.sizes.fold_shape(s)) for s in (shape, first_shapes[name])]
            yield SharedShape(again.span, name, shapes[0], shapes[1], first.span)
            return  # one says it all


def _params(graph: Graph, call: Call, graphs: Graphs) -> Iterator[tuple[str, Shape]]:
    """Every parameter of a call and of its callees, by path, its shape in the caller's sizes."""

    def below(site: CallSite) -> Iterator[CallSite]:
        return (site.enter(inner, graphs) for inner in site.graph.calls)

    for site in callers_first(CallSite(graph, "", {}).enter(call, graphs), below):
        for param in site.graph.params:
            shape = site.graph.types[param.value].substitute(site.symbols).shape
            yield join(site.path, str(param.value.name)), shape
