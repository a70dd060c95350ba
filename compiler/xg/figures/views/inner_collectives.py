"""Collectives inside an operator, drawn as a box behind it that its results pass through.

A loss over a sharded vocabulary reduces over the mesh inside its body, so no step of the graph says
so; the body of a rank does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from xg.cost.communication import SHORT
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, bold, dimension, plain
from xg.figures.views.arrange import DrawnOperation, Flow
from xg.figures.views.notation import volume
from xg.figures.views.prices import in_one_line, prices
from xg.ir.body import topological
from xg.ir.collective_prims import COLLECTIVES
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Backward, Graph, Step, Value
from xg.ir.mesh_axes import axis_of, is_zigzag
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, Sizes, TensorType


@dataclass(frozen=True, slots=True)
class InnerCollective:
    """Collectives of one step over one mesh axis, named with its order, inside one rank's body.

    `backward` are those of its gradient, in an overview. `value` is the value that goes in.
    """

    step: Apply
    axis: str
    forward: tuple[Expr, ...]
    backward: tuple[Expr, ...]
    value: Value

    @property
    def shape(self) -> Shape:
        """The shape of the value that goes in: that of the first collective, without axes of one
        element.
        """
        first = (*self.forward, *self.backward)[0]
        shape = first.args[0].shape if first.prim == "all_gather" else first.shape
        return tuple(dim for dim in shape if dim != ONE)

    @property
    def id(self) -> str:
        """The id of its box in a figure, if no other box has it."""
        return f"{self.step.op.glyph} {self.axis}"


_AROUND: Final = frozenset({"all_gather", "reduce_scatter"})  # inside an operator, part by part

InnerCollectives = Mapping[Step, tuple[InnerCollective, ...]]


def inner_collectives(graph: Graph, backward: Backward | None = None) -> InnerCollectives:
    """Return the collectives inside each step, with those of its backward pass if that is given."""
    back = {step.origin.outputs[0]: step for step in _applies(backward) if step.origin}
    types = {**(backward.types if backward else {}), **graph.types}
    by_step: dict[Step, tuple[InnerCollective, ...]] = {}
    for step in graph.steps:
        if isinstance(step, Apply):
            reverse = back.get(step.outputs[0])
            by_step[step] = _inner_collectives(step, _sent(step, types), _sent(reverse, types))
    return {step: here for step, here in by_step.items() if here}


def backward_inner_collectives(backward: Backward) -> InnerCollectives:
    """Return the collectives inside each step of a backward pass."""
    sent = {step: _sent(step, backward.types) for step in _applies(backward)}
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


def collective_node(collective: InnerCollective, node_id: str, sizes: Sizes) -> FigureNode:
    """Return the box of an inner collective, with its cost."""
    lines = _prices(collective, collective.forward, sizes)
    return _node(collective, node_id, _name(collective, collective.forward), lines)


def collective_bar(collective: InnerCollective, node_id: str, sizes: Sizes) -> FigureNode:
    """Return the bar of an inner collective in an overview, which shows both passes."""
    passes = [some for some in (collective.forward, collective.backward) if some]
    label = _name(collective, passes[0])
    if collective.backward:
        again = f", {_glyphs(collective.backward)}" if collective.forward else ""
        label = (*label, *plain(f"{again} in the backward pass"))
    costs = dict.fromkeys(_prices(collective, some, sizes) for some in passes)
    lines = tuple(in_one_line(one) for one in costs)
    return _node(collective, node_id, label, lines)


def _node(
    collective: InnerCollective,
    node_id: str,
    label: RichText,
    lines: tuple[RichText, ...],
) -> FigureNode:
    title = f"what {collective.step.op.name} sends on its way"
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines, title=title)


def _prices(
    collective: InnerCollective, sent: Sequence[Expr], sizes: Sizes
) -> tuple[RichText, ...]:
    """Return the cost of what is summed, or of what goes round part by part."""
    glyph = "AG" if sent[0].prim in _AROUND else "AR"
    return prices(glyph, collective.axis, _volume(sent, sizes))


def _name(collective: InnerCollective, sent: Iterable[Expr]) -> RichText:
    order = " in zigzag" if is_zigzag(collective.axis) else ""
    inside = plain(f"{order} inside {collective.step.op.glyph}")
    return (*bold(_glyphs(sent)), *plain(" "), *dimension(axis_of(collective.axis)), *inside)


def _glyphs(sent: Iterable[Expr]) -> str:
    """Return `ARmax, 2 AR`."""
    around = [expr for expr in sent if expr.prim in _AROUND]
    if around:
        return f"{len(around)} around the ring"
    counts = Counter(SHORT[expr.prim] for expr in sent)  # pyright: ignore[reportArgumentType]
    return ", ".join(f"{n} {glyph}" if n > 1 else glyph for glyph, n in counts.items())


def _volume(sent: Iterable[Expr], sizes: Sizes) -> str:
    """Return how many elements are sent in all: `3*B*S`, `(B*S + 1)`, nothing for one."""
    wholes = (_whole(expr) for expr in sent)
    counts = Counter(volume(sizes.fold_shape(whole), sizes) for whole in wholes)
    terms = [_times(count, text) for text, count in counts.items()]
    return f"({' + '.join(term or '1' for term in terms)})" if len(terms) > 1 else terms[0]


def _whole(expr: Expr) -> Shape:
    """Return the shape of all ranks' parts together."""
    return expr.args[0].shape if expr.prim == "reduce_scatter" else expr.shape


def _times(count: int, text: str) -> str:
    if count == 1:
        return text
    return f"{count}*{text}" if text else str(count)


# ---- what is sent --------------------------------------------------------------------------------


def _applies(backward: Backward | None) -> Iterator[Apply]:
    return (step for step in (backward.steps if backward else ()) if isinstance(step, Apply))


def _sent(step: Apply | None, types: Mapping[Value, TensorType]) -> dict[str, list[Expr]]:
    """Return the collectives in the body of a rank's step, by mesh axis; a move is none."""
    expressions: dict[str, list[Expr]] = {}
    if step is not None and step.op.local and step.op.family != "collective":
        body = step.body(types)
        for expr in topological(body.outputs):
            if expr.prim in COLLECTIVES:
                expressions.setdefault(str(expr.attr("over")), []).append(expr)
    return expressions


def _inner_collectives(
    step: Apply, forward: Mapping[str, list[Expr]], backward: Mapping[str, list[Expr]]
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
