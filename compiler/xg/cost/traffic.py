"""The communication of a program's ranks: every collective with its payload, as formulas.

Counted from the placed program, in which moves are steps between global tensors: a rank's program
is derived from it, and measured, elsewhere (`xg verify`).

Payload is the V of the cost formulas: the whole tensor on the group for all-reduce, all-gather and
reduce-scatter, and for parts that go round; a rank's part for all-to-all; other mesh axes may cut
it.

Source: seed 001, 8.2 and 9.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import Body
from xg.ir.collective import FAMILY
from xg.ir.collective_prims import AROUND
from xg.ir.dim import ONE, ZERO, Dim, product, symbol
from xg.ir.graph import Apply, Backward, Graph, Program, Value
from xg.ir.instances import Symbols, inside
from xg.ir.mesh_axes import axes_over, axis_of, ranks_over
from xg.ir.placement import PARTIAL, AxisState, Placement
from xg.ir.tensor import Shape, TensorType
from xg.sharding.type_body import type_body, type_step

Pass = Literal["forward", "backward", "shared"]
Kind = Literal[
    "all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all", "shift", "send"
]

KINDS: Final[Mapping[str, Kind]] = {
    "AR": "all_reduce",
    "AG": "all_gather",
    "RS": "reduce_scatter",
    "A2A": "all_to_all",
}


Bindings = dict[str, dict[frozenset[tuple[str, Dim]], Dim]]  # how often a graph runs, by symbols
NO_SYMBOLS: Final = frozenset[tuple[str, Dim]]()


@dataclass(frozen=True, slots=True)
class Sending:
    """One collective over the mesh axis `over`, called `count` times with `payload` elements.

    `name` is what is sent: the author's name, of a gradient with a d in front, None for none.
    `step` is where it is called in the graph with this `key`; sizes are those of the entry block.
    """

    direction: Pass
    kind: Kind
    over: str
    payload: Dim
    count: Dim
    line: int
    name: str | None
    key: str
    step: Apply

    @property
    def elements(self) -> Dim:
        """The payload of all its calls; of what goes round, that of the whole rounds."""
        return self.payload * self.count

    @property
    def calls(self) -> Dim:
        """How often it is called: once for each rank but one, where parts go round."""
        return self.count * (ranks_over(self.over) - 1) if self.kind == "shift" else self.count

    @property
    def each(self) -> Dim:
        """The payload of one call: of what goes round, a part."""
        return self.payload / (ranks_over(self.over) if self.kind == "shift" else ONE)

    @property
    def counted(self) -> Dim:
        """The payload that a rank counts in all calls."""
        return self.calls * self.each


def traffic(program: Program) -> tuple[Sending, ...]:
    """Everything that a placed and differentiated program sends, callers before callees.

    Steps of the forward pass that a backward pass runs again are sent again.

    Nothing is sent on a mesh axis of one rank, though it is counted here.
    """
    forward = {program.entry: {NO_SYMBOLS: ONE}}
    again: Bindings = {}
    sendings = [*_sent_in(program, forward, None, "forward")]
    if program.backwards:
        sendings += _sent_in(program, {program.entry: {NO_SYMBOLS: ONE}}, again, "backward")
        sendings += _sent_in(program, again, None, "backward")
    return tuple(sendings)


def _sent_in(
    program: Program, bindings: Bindings, again: Bindings | None, direction: Pass
) -> Iterator[Sending]:
    """The communication of the graphs under these bindings and of those that they call.

    Without `again` the forward graphs run, with it the backward ones; it gets the forward graphs
    that these run again.
    """
    for key in reversed([*program.graphs]):  # callers first, so that each is complete when left
        graph = program.graphs[key]
        backward = None if again is None else program.backwards[key]
        sender = _Pass(program, graph, backward, direction)
        for binding, count in bindings.get(key, {}).items():
            symbols = dict(binding)
            for step in (backward or graph).steps:
                if isinstance(step, Apply):
                    yield from sender.of(step, symbols, count)
                    continue
                callee = program.graphs[step.callee]
                below = frozenset(inside(step.origin or step, graph, callee, symbols).items())
                times = graph.sizes.expand(step.rounds or ONE).substitute(symbols) * count
                runs = bindings if again is None or not step.again else again
                counts = runs.setdefault(callee.key, {})
                counts[below] = counts[below] + times if below in counts else times


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of one graph, in the `direction` of the program's."""

    program: Program
    graph: Graph
    backward: Backward | None
    direction: Pass

    def of(self, step: Apply, symbols: Symbols, count: Dim) -> Iterator[Sending]:
        """The communication of a step whose graph runs `count` times with these symbols."""
        for kind, over, payload in self._sent(step):
            yield Sending(
                self.direction,
                kind,
                over,
                self.graph.sizes.expand(payload).substitute(symbols),
                count,
                step.span.line,
                self._name(step.outputs[0]),
                self.graph.key,
                step,
            )

    def _sent(self, step: Apply) -> Iterator[tuple[Kind, str, Dim]]:
        if step.op.family != FAMILY:
            yield from self._inside(step)
        elif step.op.glyph in KINDS:
            over, kind = str(step.attrs["over"]), KINDS[step.op.glyph]
            placement = self._placement(step.inputs[0])
            whole = () if kind == "all_to_all" else axes_over(over)
            yield kind, over, local_elements(self._type(step.inputs[0]).shape, placement, whole)

    def _inside(self, step: Apply) -> Iterator[tuple[Kind, str, Dim]]:
        """The payloads that an operator reduces inside its body, over each mesh axis."""
        body = step.op.body([self._type(value) for value in step.inputs], step.attrs)
        if not step.op.sums_over_ranks:
            yield from self._around(step, body)
            return
        typings = {
            axis: type_step(step.op, body, [self._placement(v)[axis] for v in step.inputs], axis)
            for axis in self.program.mesh
        }
        for expr in body.order():
            for over in typings:
                state = typings[over].collected.get(id(expr))
                if state is not None:
                    placement = {axis: typing.before(expr) for axis, typing in typings.items()}
                    kind = "all_reduce" if state == PARTIAL else "all_reduce_max"
                    yield kind, over, local_elements(expr.shape, placement, (over,))

    def _around(self, step: Apply, body: Body) -> Iterator[tuple[Kind, str, Dim]]:
        """The payloads that go round a ring, part by part: keys beside values, dK beside dV."""
        exprs = [expr for expr in body.order() if expr.prim in AROUND]
        for over in dict.fromkeys(str(expr.attr("over")) for expr in exprs):
            typings = {
                axis: type_body(body, [self._placement(v)[axis] for v in step.inputs], axis)
                for axis in self.program.mesh
            }
            messages = dict[str, Dim]()  # what is gathered goes in one, what is summed in another
            for expr in exprs:
                placement = {axis: typing.of(expr) for axis, typing in typings.items()}
                whole = local_elements(expr.shape, placement, axes_over(over))
                messages[expr.prim] = messages.get(expr.prim, ZERO) + whole
            for payload in messages.values():
                yield "shift", axis_of(over), payload

    # ---- values ---------------------------------------------------------------------------------

    def _type(self, value: Value) -> TensorType:
        return (self.backward or self.graph).types[value]

    def _placement(self, value: Value) -> Placement:
        return (self.backward or self.graph).placements[value]

    def _name(self, value: Value) -> str | None:
        of = self.backward.of.get(value) if self.backward else None
        if of is not None:
            return of.name and f"d{of.name}"
        return value.name


def local_elements(
    shape: Shape, placement: Mapping[str, AxisState], whole: Sequence[str] = ()
) -> Dim:
    """The elements of a rank's part of a tensor that is `whole` on some mesh axes."""
    size = product(shape)
    for axis, state in placement.items():
        if state.kind == "S" and axis not in whole:
            size = size / symbol(axis)
    return size
