"""Steps of a graph as glyphs: what kind of node, which arrow an operand has, what the box says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model import richtext
from xg.figures.model.figure import EdgeStyle, Figure, FigureNode, NodeKind
from xg.figures.model.richtext import RichText
from xg.figures.views.notation import kind
from xg.ir.graph import Apply, Call, Graph, Program, Step, Value
from xg.ir.plan import Plan
from xg.ir.use import Tensor


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and, for every step that it shows, the id of its node."""

    figure: Figure
    nodes: Mapping[Step, str]


@dataclass(slots=True)
class Ids:
    """Unique, stable ids: the second node that asks for W_Q becomes W_Q~2."""

    taken: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with a number."""
        count = self.taken.get(wanted, 0) + 1
        self.taken[wanted] = count
        return wanted if count == 1 else f"{wanted}~{count}"


def operand_style(step: Apply, place: int) -> EdgeStyle:
    """Return the arrow of an operand: the second one of a product is double."""
    double = kind(step.op) is NodeKind.MATMUL and place == 1
    return EdgeStyle.DOUBLE if double else EdgeStyle.SINGLE


def is_transposed(step: Apply, place: int) -> bool:
    """Return whether a product uses an operand's last two axes in the other order.

    The contracted axis comes last in the first operand and last but one in the second.
    """
    if kind(step.op) is not NodeKind.MATMUL:
        return False
    inputs, result = str(step.attrs["spec"]).split("->")
    last = inputs.split(",")[place][-1]
    return (last in result) == (place == 0)


def own_tensors(step: Apply) -> tuple[Value, ...]:
    """Return the operands that the node is made of: γ, β, a table."""
    own = {own.name for own in step.op.own if isinstance(own, Tensor)}
    names = step.op.operand_names(step.attrs)
    return tuple(value for name, value in zip(names, step.inputs, strict=True) if name in own)


def apply_node(step: Apply, node_id: str, graph: Graph, detail: RichText = ()) -> FigureNode:
    """Return the glyph of an operator's use, with the axis it works along if not the last."""
    op = step.op
    title = f"{op.name}: {op.formula}" if op.formula else op.name
    label = (*richtext.plain(op.glyph), *_along(step, graph))
    return FigureNode(node_id, kind(op), label, detail, title)


def _along(step: Apply, graph: Graph) -> RichText:
    origin = step.origin or step
    if origin.op.brackets != "axes" or origin.op.variadic:
        return ()
    if step.origin and not origin.op.keeps_shape:
        return ()
    axes: Sequence[int] = origin.attrs.get("axes", ())
    if "axis" in origin.attrs:
        axes = (*axes, origin.attrs["axis"])
    shape = graph.types[origin.inputs[0]].shape if axes else ()
    names = [
        str(graph.sizes.fold(shape[axis])) if shape.count(shape[axis]) == 1 else str(axis)
        for axis in axes
    ]
    return richtext.shape(names) if names else ()


def call_node(call: Call, callee: Graph, node_id: str, prefix: RichText = ()) -> FigureNode:
    """Return the box of a called block; of a repeated one with its count."""
    label = (*prefix, *richtext.plain(callee.title or callee.block))
    title = f"{callee.block} as {call.path}"
    return FigureNode(node_id, NodeKind.BLOCK, label, times(call), title)


def subtitle(view: str, program: Program) -> str:
    """Return what a figure shows: of a parallel program what one rank does, by which plan."""
    if program.plan is None:
        return view
    rank = " (Node i)" if program.mesh else ""
    return f"{view}{rank}, {plan_name(program.plan)}"


def plan_name(plan: Plan) -> str:
    """Return what a plan is called inside of a sentence."""
    title = plan.title
    return plan.name if title in ("", plan.name) else title[:1].lower() + title[1:]


def times(call: Call) -> RichText:
    """Return × N_L, over S, or nothing for a single call."""
    if call.loop is not None:
        axis = richtext.dimension(str(call.loop.length))
        back = richtext.plain(" reversed") if call.loop.reverse else ()
        return (*richtext.plain("over "), *axis, *back)
    if call.count is None:
        return ()
    return (*richtext.plain("× "), *richtext.dimension(str(call.count)))
