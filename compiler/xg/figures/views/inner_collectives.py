"""Find the collectives inside an operator, and draw each as a box after it.

A loss over a sharded vocabulary reduces over the mesh inside its body, so no step of the graph says
so; the body of a rank does.

Without a box, a loss over a sharded vocabulary would look free. Tests check the sums of all boxes
and bars against `xg cost`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from xg.cost.communication import WAYS, share
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, bold, dimension, plain, symbol
from xg.figures.views.arrange import DrawnOperation, Flow
from xg.figures.views.notation import Notation, volume
from xg.ir.body import Body
from xg.ir.collectives import BY_GLYPH, OWNERS, PRIMITIVES, SENDING
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Backward, Graph, Step, Value
from xg.ir.placement import axes_over, axis_of, is_zigzag
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, TensorType

# Prices of collectives as written in boxes and bars (seed 001, 6.2 and 7.3).
#
# Costs are elements that a rank sends, of V in all: naively through one rank, or around a ring.


def collective_name(glyph: str, axis: str) -> RichText:
    """Return the text of the box: AR N_T."""
    return (*bold(glyph), *plain(" "), *mesh_axes(axis))


def order(axis: str) -> str:
    """Return ` in zigzag`, where each rank has a chunk from each end."""
    return " in zigzag" if is_zigzag(axis) else ""


def sum_line(glyph: str, axis: str) -> tuple[RichText, ...]:
    """Return the line of a box that says that it makes partial values their sum: Σ over N_T."""
    return ((*plain("Σ over "), *mesh_axes(axis)),) if BY_GLYPH[glyph].sums else ()


def prices(glyph: str, axis: str, volume: str) -> tuple[RichText, ...]:
    """Return the cost lines of a collective over this number of elements."""
    price = BY_GLYPH[glyph].price
    if price and price.route == "peer":
        return ((*dimension(volume), *plain(" each way")),)
    axes = mesh_axes(axis)
    others = (*plain("("), *axes, *plain(" − 1)"))
    below = (*plain("("), *axes, *plain(")")) if len(axes_over(axis)) > 1 else axes
    ways: dict[tuple[int, bool], list[str]] = {}
    for way in WAYS:
        ways.setdefault(share(BY_GLYPH[glyph].name, way), []).append(way)
    return tuple(
        (
            *plain(f"{', '.join(names)} {times if times > 1 else ''}"),
            *others,
            *((*plain("/"), *below) if divided else ()),
            *_factor(volume),
        )
        for (times, divided), names in ways.items()
    )


def mesh_axes(over: str) -> RichText:
    """Return the mesh axes of a collective, several as a product."""
    first, *others = axes_over(over)
    return (*dimension(first), *(run for a in others for run in (*plain(" · "), *dimension(a))))


def in_one_line(prices: Sequence[RichText]) -> RichText:
    """Return prices beside each other."""
    first, *others = prices
    return (*first, *(run for one in others for run in (*plain(",  "), *one)))


def _factor(volume: str) -> RichText:
    return (*plain(" · "), *dimension(volume)) if volume else ()


@dataclass(frozen=True, slots=True)
class SentInside:
    """One collective inside a body, with the value, or gradient, that it sends around a ring."""

    expr: Expr
    value: Value | None = None
    is_gradient: bool = False

    @property
    def goes_round(self) -> bool:
        """Whether it goes around the ring inside the operator, part by part.

        Operators only sum, or take the largest, beside that, and no axis is cut or joined for it.
        """
        return bool(PRIMITIVES[self.expr.prim].axes)


@dataclass(frozen=True, slots=True)
class InnerCollective:
    """Collectives of one step over one mesh axis, named with its order, inside one rank's body.

    `backward` are those of its gradient, in an overview. `value` is the value that goes in.
    """

    step: Apply
    axis: str
    forward: tuple[SentInside, ...]
    backward: tuple[SentInside, ...]
    value: Value

    @property
    def shape(self) -> Shape:
        """Return the shape of the value that enters the first collective, without axes of length 1.
        element.
        """
        first = (*self.forward, *self.backward)[0].expr
        shape = first.args[0].shape if OWNERS[first.prim].gathers else first.shape
        return tuple(dim for dim in shape if dim != ONE)

    @property
    def id(self) -> str:
        """The id of its box in a figure, if no other box has it."""
        return f"{self.step.op.glyph} {self.axis}"

    def touches(self, *, backward: bool) -> bool:
        """Return whether it changes the operator's result, or the gradient of that, in a pass.

        Operands that go around inside leave the result as it is.
        """
        sent = self.backward if backward else self.forward
        return not all(one.goes_round for one in sent)


_End = tuple[Expr, Value | None, bool]  # an operand, or a result that is the gradient of the value
_NONE: Final[Mapping[Value, Value]] = MappingProxyType({})
InnerCollectives = Mapping[Step, tuple[InnerCollective, ...]]


def inner_collectives(graph: Graph, backward: Backward | None = None) -> InnerCollectives:
    """Return the collectives inside each step, and inside its backward pass if it is given."""
    back = {step.origin.outputs[0]: step for step in _applies(backward) if step.origin}
    types = {**(backward.types if backward else {}), **graph.types}
    of = backward.of if backward else _NONE
    by_step: dict[Step, tuple[InnerCollective, ...]] = {}
    for step in graph.steps:
        if isinstance(step, Apply):
            reverse = back.get(step.outputs[0])
            by_step[step] = _inner_collectives(step, _sent(step, types), _sent(reverse, types, of))
    return {step: here for step, here in by_step.items() if here}


def backward_inner_collectives(backward: Backward) -> InnerCollectives:
    """Return the collectives inside each step of a backward pass."""
    sent = {step: _sent(step, backward.types, backward.of) for step in _applies(backward)}
    by_step = {step: _inner_collectives(step, here, {}) for step, here in sent.items()}
    return {step: here for step, here in by_step.items() if here}


def with_inner_collectives(graph: Graph, inner_collectives: InnerCollectives) -> Graph:
    """Return the graph with the types of the values that enter its inner collectives."""
    types = {
        one.value: TensorType(one.shape) for some in inner_collectives.values() for one in some
    }
    return replace(graph, types={**graph.types, **types}) if types else graph


def through(
    operation: DrawnOperation,
    inner_collectives: Sequence[InnerCollective],
    nodes: Sequence[FigureNode],
) -> list[DrawnOperation]:
    """Lead the results of an operation through the boxes of its inner collectives, in order."""
    if not inner_collectives:
        return [operation]
    values = [collective.value for collective in inner_collectives]
    results = [*((value,) for value in values), operation.outputs]
    behind = [
        DrawnOperation(node, (Flow(value),), outputs)
        for node, value, outputs in zip(nodes, values, results[1:], strict=True)
    ]
    return [replace(operation, outputs=results[0]), *behind]


# ---- their boxes ---------------------------------------------------------------------------------


def collective_node(collective: InnerCollective, node_id: str, notation: Notation) -> FigureNode:
    """Return the box of an inner collective, with its cost."""
    sent = collective.forward
    names = _names(sent, notation)
    what = (*names, *plain(" "), *bold(_glyphs(sent))) if names else bold(_glyphs(sent))
    label = _name(collective, what)
    return _node(collective, node_id, label, _prices(collective, sent, notation))


def collective_bar(collective: InnerCollective, node_id: str, notation: Notation) -> FigureNode:
    """Return the bar of an inner collective in an overview, which shows both passes."""
    passes = {"forward": collective.forward, "backward": collective.backward}
    passes = {name: sent for name, sent in passes.items() if sent}
    label = _name(collective, bold(_glyphs(next(iter(passes.values())))))
    if collective.touches(backward=True):
        again = f", {_glyphs(collective.backward)}" if collective.forward else ""
        label = (*label, *plain(f"{again} in the backward pass"))
    return _node(collective, node_id, label, _costs(collective, passes, notation))


def _costs(
    collective: InnerCollective, passes: Mapping[str, Sequence[SentInside]], notation: Notation
) -> tuple[RichText, ...]:
    """Return a line with the cost of each pass, which says what goes round; equal ones are one."""
    lines: dict[RichText, list[str]] = {}
    for name, sent in passes.items():
        price = in_one_line(_prices(collective, sent, notation))
        names = _names(sent, notation)
        text = (*names, *plain(": "), *price) if names else price
        lines.setdefault(text, []).append(name)
    if len(passes) == 1:
        return tuple(lines)
    return tuple(
        (*plain(f"{' and '.join(names)}{' ' if text[0].bold else ': '}"), *text)
        for text, names in lines.items()
    )


def _node(
    collective: InnerCollective,
    node_id: str,
    label: RichText,
    lines: tuple[RichText, ...],
) -> FigureNode:
    title = f"what {collective.step.op.name} sends on its way"
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines, title=title)


def _prices(
    collective: InnerCollective, sent: Sequence[SentInside], notation: Notation
) -> tuple[RichText, ...]:
    """Return the cost of what is summed, or of what goes round part by part."""
    glyph = OWNERS[sent[0].expr.prim].glyph
    return prices(glyph, collective.axis, _volume(sent, notation))


def _name(collective: InnerCollective, what: RichText) -> RichText:
    inside = plain(f"{order(collective.axis)} inside {collective.step.op.glyph}")
    return (*what, *plain(" "), *dimension(axis_of(collective.axis)), *inside)


def _names(sent: Iterable[SentInside], notation: Notation) -> RichText:
    """Return `K, V, dK, dV`, of what goes round; they are the same on all ranks."""
    known = [(one, notation.name(one.value).rpartition(".")[2]) for one in sent if one.value]
    symbols = [symbol(name or "?", gradient=one.is_gradient) for one, name in known]
    return tuple(run for one in symbols for run in (*plain(", "), *one))[1:]


def _glyphs(sent: Iterable[SentInside]) -> str:
    """Return `ARmax, 2 AR`."""
    if any(one.goes_round for one in sent):
        return "around the ring"
    counts = Counter(OWNERS[one.expr.prim].glyph for one in sent)
    return ", ".join(f"{n} {glyph}" if n > 1 else glyph for glyph, n in counts.items())


def _volume(sent: Iterable[SentInside], notation: Notation) -> str:
    """Return how many elements are sent in all: `3*B*S`, `(B*S + 1)`, nothing for one.

    They are in the symbols of the figure, also where the block is an opened call in it.
    """
    sizes = notation.graph.sizes
    folded = (sizes.fold_shape(_joint_shape(one.expr)) for one in sent)
    wholes = (tuple(dim.substitute(notation.outer) for dim in whole) for whole in folded)
    counts = Counter(volume(whole, sizes) for whole in wholes)
    terms = [_multiple(count, text) for text, count in counts.items()]
    return f"({' + '.join(term or '1' for term in terms)})" if len(terms) > 1 else terms[0]


def _joint_shape(expr: Expr) -> Shape:
    """Return the shape of all ranks' parts together."""
    return expr.args[0].shape if OWNERS[expr.prim].cuts else expr.shape


def _multiple(count: int, text: str) -> str:
    if count == 1:
        return text
    return f"{count}*{text}" if text else str(count)


# ---- what is sent --------------------------------------------------------------------------------


def _applies(backward: Backward | None) -> Iterator[Apply]:
    return (step for step in (backward.steps if backward else ()) if isinstance(step, Apply))


def _sent(
    step: Apply | None,
    types: Mapping[Value, TensorType],
    of: Mapping[Value, Value] = _NONE,
) -> dict[str, list[SentInside]]:
    """Return the collectives in the body of a rank's step by mesh axis, without moves.

    `of` are the values of which the step's results are gradients.
    """
    sent: dict[str, list[SentInside]] = {}
    if step is not None and step.op.local and step.op.family != "collective":
        body = step.body(types)
        ends = _ends(step, body, of)
        for expr in body.order():
            if expr.prim in SENDING:
                sent.setdefault(str(expr.attr("over")), []).append(_sending(expr, ends))
        places = {end[1:]: place for place, end in enumerate(ends)}
        for some in sent.values():
            some.sort(key=lambda one: places.get((one.value, one.is_gradient), -1))
    return sent


def _ends(step: Apply, body: Body, of: Mapping[Value, Value]) -> list[_End]:
    """Return the operands of a body, then the results that are gradients."""
    operands = [
        (expr, value, False) for expr, value in zip(body.operands, step.inputs, strict=False)
    ]
    pairs = zip(body.outputs, step.outputs, strict=False)  # caches are behind them
    return [*operands, *((expr, of[value], True) for expr, value in pairs if value in of)]


def _sending(expr: Expr, ends: Sequence[_End]) -> SentInside:
    """Return a collective with the operand that it begins with, or the gradient that it gives."""
    if not PRIMITIVES[expr.prim].axes:
        return SentInside(expr)
    end = expr if OWNERS[expr.prim].cuts else expr.args[0]
    found = ((value, is_gradient) for other, value, is_gradient in ends if other is end)
    return SentInside(expr, *next(found, (None, False)))


def _inner_collectives(
    step: Apply, forward: Mapping[str, list[SentInside]], backward: Mapping[str, list[SentInside]]
) -> tuple[InnerCollective, ...]:
    return tuple(
        InnerCollective(
            step,
            axis,
            tuple(forward.get(axis, ())),
            tuple(backward.get(axis, ())),
            Value(None, "edge", step.span),
        )
        for axis in dict.fromkeys((*forward, *backward))
    )
