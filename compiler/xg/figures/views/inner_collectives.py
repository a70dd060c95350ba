"""Joints: what an operator sends inside, drawn as a box behind it that all it gives goes through.

A loss over a vocabulary that is cut brings its parts together on its way, so nothing in the graph
says so; the body of a rank does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xg.cost.communication import SHORT
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, bold, dimension, plain
from xg.figures.views.arrange import Flow, Operation
from xg.figures.views.notation import volume
from xg.figures.views.prices import in_one_line, prices
from xg.ir.body import topological
from xg.ir.collective_prims import COLLECTIVES
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Backward, Graph, Step, Value
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, Sizes, TensorType


@dataclass(frozen=True, slots=True)
class Joint:
    """What a step sends inside over one mesh axis, as collectives of one rank's body.

    `backward` is what its gradient sends, in an overview. `value` stands for what goes in.
    """

    step: Apply
    axis: str
    forward: tuple[Expr, ...]
    backward: tuple[Expr, ...]
    value: Value

    @property
    def shape(self) -> Shape:
        """The shape of what goes in: that of the first collective, without axes of one element."""
        first = (*self.forward, *self.backward)[0]
        return tuple(dim for dim in first.shape if dim != ONE)

    @property
    def id(self) -> str:
        """What its box is called in a figure, if no other box is."""
        return f"{self.step.op.glyph} {self.axis}"


Joints = Mapping[Step, tuple[Joint, ...]]


def joints(graph: Graph, backward: Backward | None = None) -> Joints:
    """Return the joints of a graph's steps; with those of its backward pass, if that is given."""
    back = {step.origin.outputs[0]: step for step in _applies(backward) if step.origin}
    types = {**(backward.types if backward else {}), **graph.types}
    found: dict[Step, tuple[Joint, ...]] = {}
    for step in graph.steps:
        if isinstance(step, Apply):
            reverse = back.get(step.outputs[0])
            found[step] = _joints(step, _sent(step, types), _sent(reverse, types))
    return {step: here for step, here in found.items() if here}


def backward_joints(backward: Backward) -> Joints:
    """Return the joints of a backward pass."""
    sent = {step: _sent(step, backward.types) for step in _applies(backward)}
    found = {step: _joints(step, here, {}) for step, here in sent.items()}
    return {step: here for step, here in found.items() if here}


def with_joints(graph: Graph, joints: Joints) -> Graph:
    """Return a graph that knows the types of what goes into joints."""
    types = {one.value: TensorType(one.shape) for some in joints.values() for one in some}
    return replace(graph, types={**graph.types, **types}) if types else graph


def through(
    operation: Operation, joints: Sequence[Joint], nodes: Sequence[FigureNode]
) -> list[Operation]:
    """Lead what an operation gives through the boxes of its joints, one after the other."""
    if not joints:
        return [operation]
    values = [joint.value for joint in joints]
    given = [*((value,) for value in values), operation.outputs]
    behind = [
        Operation(node, (Flow(value),), outputs)
        for node, value, outputs in zip(nodes, values, given[1:], strict=True)
    ]
    return [replace(operation, outputs=given[0]), *behind]


# ---- their boxes ---------------------------------------------------------------------------------


def joint_node(joint: Joint, node_id: str, sizes: Sizes) -> FigureNode:
    """Return a joint's box, with its cost."""
    lines = prices("AR", joint.axis, _volume(joint.forward, sizes))
    return _node(joint, node_id, NodeKind.COMMUNICATION, _name(joint, joint.forward), lines)


def joint_bar(joint: Joint, node_id: str, sizes: Sizes) -> FigureNode:
    """Return the bar of a joint in an overview, which tells of both passes."""
    passes = [some for some in (joint.forward, joint.backward) if some]
    kind = NodeKind.COMMUNICATION if joint.forward else NodeKind.GRADIENT_COMMUNICATION
    label = _name(joint, passes[0])
    if joint.backward:
        again = f", {_glyphs(joint.backward)}" if joint.forward else ""
        label = (*label, *plain(f"{again} in the backward pass"))
    volumes = dict.fromkeys(_volume(some, sizes) for some in passes)
    lines = tuple(in_one_line(prices("AR", joint.axis, one)) for one in volumes)
    return _node(joint, node_id, kind, label, lines)


def _node(
    joint: Joint, node_id: str, kind: NodeKind, label: RichText, lines: tuple[RichText, ...]
) -> FigureNode:
    title = f"what {joint.step.op.name} sends on its way"
    return FigureNode(node_id, kind, label, lines=lines, title=title)


def _name(joint: Joint, sent: Iterable[Expr]) -> RichText:
    inside = plain(f" inside {joint.step.op.glyph}")
    return (*bold(_glyphs(sent)), *plain(" "), *dimension(joint.axis), *inside)


def _glyphs(sent: Iterable[Expr]) -> str:
    """Return `ARmax, 2 AR`."""
    counts = Counter(SHORT[expr.prim] for expr in sent)  # pyright: ignore[reportArgumentType]
    return ", ".join(f"{n} {glyph}" if n > 1 else glyph for glyph, n in counts.items())


def _volume(sent: Iterable[Expr], sizes: Sizes) -> str:
    """Return how many elements are sent in all: `3*B*S`, `(B*S + 1)`, nothing for one."""
    counts = Counter(volume(sizes.fold_shape(expr.shape), sizes) for expr in sent)
    terms = [_times(count, text) for text, count in counts.items()]
    return f"({' + '.join(term or '1' for term in terms)})" if len(terms) > 1 else terms[0]


def _times(count: int, text: str) -> str:
    if count == 1:
        return text
    return f"{count}*{text}" if text else str(count)


# ---- what is sent --------------------------------------------------------------------------------


def _applies(backward: Backward | None) -> Iterator[Apply]:
    return (step for step in (backward.steps if backward else ()) if isinstance(step, Apply))


def _sent(step: Apply | None, types: Mapping[Value, TensorType]) -> dict[str, list[Expr]]:
    """Return the collectives in the body of a rank's step, by mesh axis; a move is none."""
    found: dict[str, list[Expr]] = {}
    if step is not None and step.op.local and step.op.family != "collective":
        body = step.op.body([types[value] for value in step.inputs], step.attrs)
        for expr in topological(body.outputs):
            if expr.prim in COLLECTIVES:
                found.setdefault(str(expr.attr("over")), []).append(expr)
    return found


def _joints(
    step: Apply, forward: Mapping[str, list[Expr]], backward: Mapping[str, list[Expr]]
) -> tuple[Joint, ...]:
    return tuple(
        Joint(
            step,
            axis,
            tuple(forward.get(axis, ())),
            tuple(backward.get(axis, ())),
            Value(None, "edge", step.span),
        )
        for axis in dict.fromkeys((*forward, *backward))
    )
