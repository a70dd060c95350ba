"""The program of one rank: parts for wholes, collectives for moves.

One mesh axis at a time, the outermost first. Every operator's body becomes that of a rank; casts,
which send nothing, vanish. The result is a program like any other, run by every rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeVar, cast

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body
from xg.ir.collectives import MOVES, once
from xg.ir.dim import Scalar
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Param, Step, Value, gradient_ports
from xg.ir.moves import collective, moved
from xg.ir.op import Description, Op
from xg.ir.placement import (
    CONSTANT,
    FAMILY,
    INVARIANT,
    PARTIAL,
    AxisState,
    Placement,
    axes_over,
    dual,
    joined_axes,
    local_shape,
    ordered_axis,
    same,
    serves,
    zigzag_axes,
)
from xg.ir.prim import ShapeError
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Misuse, Tensor
from xg.passes.shard.calls import in_all_rounds, stacked_along, taken_along
from xg.passes.shard.errors import CutApart
from xg.sharding.local import localize as local_body
from xg.sharding.primitive_rules import IllTyped, type_step

# Every step of a placed program typed once more, forward and backward; nothing is inserted.
#
# The backward pass was derived without a thought of ranks. That its states come out dual to those
# of the forward pass proves that every sum which the gradients need is there, and no sum is twice.


class Unsound(Exception):
    """A placed program that differs from the single-device one: an error of the compiler."""


def check(program: IRProgram, axis: str) -> IRProgram:
    """The program with the states of its backward passes; raises Unsound."""
    for key in program.entries:
        _check_ports(program.graphs[key], axis)
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        _PlacementChecker(axis, graph, program.graphs).forward()
        if key in program.backwards:
            checker = _PlacementChecker(axis, graph, program.graphs)
            backwards[key] = checker.backward(program.backwards)
    return replace(program, backwards=backwards)


def _check_ports(main: Graph, axis: str) -> None:
    """Inputs and outputs of a program must be replicated or sharded."""
    for value in (*main.inputs, *main.param_values(), *main.outputs):
        state = _state(main, value, axis)
        if state.kind not in "SIC":
            raise Unsound(f"{value.name} is {state} over {axis} at the edge of the program")


@dataclass(slots=True)
class _PlacementChecker:
    axis: str
    graph: Graph
    graphs: Mapping[str, Graph]
    states: dict[Value, AxisState] = field(default_factory=dict[Value, AxisState])
    types: Mapping[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    reverse: bool = False

    def forward(self) -> None:
        """Hold every step of the forward pass against the states that it was given."""
        self.states = {value: self._placed_state(value) for value in self.graph.types}
        self.types = dict(self.graph.types)
        for step in self.graph.steps:
            if isinstance(step, Call):
                callee = self.graphs[step.callee]
                operands = zip(callee.inputs, taken_along(step, callee), strict=True)
                results = zip(callee.outputs, stacked_along(step, callee), strict=True)
                self._meet(step.inputs, [self._around(v, axis, callee) for v, axis in operands])
                self._meet(step.outputs, [self._around(v, axis, callee) for v, axis in results])
                continue
            for value, state in zip(step.outputs, self._output_states(step), strict=True):
                expected = self.states[value]
                if state != expected and not (state.is_uniform and expected.kind == "S"):
                    raise Unsound(
                        f"{step.op.glyph} makes {state}, not {expected}, over {self.axis}"
                    )

    def backward(self, backwards: Mapping[str, Backward]) -> Backward:
        """The backward pass with its states."""
        backward = backwards[self.graph.key]
        self.reverse = True
        self.types = backward.types
        self.states = {value: same(self._placed_state(value)) for value in self.graph.types}
        for value, seed in backward.cotangents.items():
            self.states[seed] = self._expected_state(value)
        for step in backward.steps:
            if isinstance(step, Apply):
                self._step(step, backward)
            else:
                self._call(step, backwards[step.callee])
        for value, gradient in backward.gradients.items():
            if self.states[gradient] != self._expected_state(value):
                self._refuse(value, self.states[gradient])
        placements = {
            value: {**backward.placements.get(value, {}), self.axis: self.states[value]}
            for value in backward.types
        }
        return replace(backward, placements=placements)

    def _step(self, step: Apply, backward: Backward) -> None:
        typed_states = self._output_states(step)
        if step.again:
            self._meet_again(step, typed_states)
            return
        for value, state in zip(step.outputs, typed_states, strict=True):
            of = backward.of.get(value)
            self.states[value] = state
            if of is None:
                continue
            expected = self._expected_state(of)
            if not step.inputs or (state == CONSTANT and expected.kind == "S"):
                self.states[value] = expected  # zeros are anything; of the same each takes its part
            elif state != expected:
                self._refuse(of, state)

    def _meet_again(self, step: Apply, found: Sequence[AxisState]) -> None:
        """A forward step that is run again must make its values where they were."""
        for value, state in zip(step.outputs, found, strict=True):
            before = self.states[value]
            if state != before and not (state.is_uniform and before.kind == "S"):
                raise Unsound(f"{step.op.glyph} makes {state}, not {before}, again")

    def _call(self, step: Call, backward: Backward) -> None:
        callee = self.graphs[step.callee]
        operands = [*zip(callee.inputs, taken_along(step, callee), strict=True)]
        if step.again:
            self._meet(step.inputs, [same(self._around(v, axis, callee)) for v, axis in operands])
            return
        results = [*zip(callee.outputs, stacked_along(step, callee), strict=True)]
        taken, given = gradient_ports(step, backward)
        seeded = [results[number] for number in taken]
        self._meet(
            step.inputs[len(seeded) :],
            [same(_state(callee, value, self.axis)) for value in backward.operands],
        )
        for (value, axis), cotangent in zip(seeded, step.inputs, strict=False):
            if self.states[cotangent] != _dual(self._around(value, axis, callee)):
                self._refuse(value, self.states[cotangent])
        learned = (operands[number] for number in given)
        for (value, axis), gradient in zip(learned, step.outputs, strict=True):
            self.states[gradient] = _dual(self._around(value, axis, callee))

    def _around(self, value: Value, axis: int | None, callee: Graph) -> AxisState:
        """The state of a callee's value where it is called, be it over an axis."""
        return in_all_rounds(_state(callee, value, self.axis), axis)

    # ---- states ---------------------------------------------------------------------------------

    def _placed_state(self, value: Value) -> AxisState:
        return _state(self.graph, value, self.axis)

    def _expected_state(self, value: Value) -> AxisState:
        return _dual(self._placed_state(value))

    def _output_states(self, step: Apply) -> list[AxisState]:
        states = [self.states[value] for value in step.inputs]
        if step.op.family == FAMILY:
            return [self._state_after_move(step, states[0])]
        body = step.body(self.types)
        try:
            typing = type_step(step.op, body, states, self.axis)
        except IllTyped as error:
            listing = ", ".join(map(str, states))
            raise Unsound(f"{step.op.glyph} cannot take {listing} over {self.axis}") from error
        return [typing.of(out) for out in body.outputs]

    def _state_after_move(self, step: Apply, state: AxisState) -> AxisState:
        if self.axis not in axes_over(step.attrs["over"]):
            return state
        source, target = step.attrs["source"], step.attrs["target"]
        if self.reverse:
            source, target = same(source), same(target)
        if state != source:
            raise Unsound(f"{step.op.glyph}({self.axis}) takes {source}, not {state}")
        return target

    def _meet(self, values: Sequence[Value], wanted: Sequence[AxisState]) -> None:
        for value, state in zip(values, wanted, strict=True):
            if not serves(self.states[value], state):
                raise Unsound(f"{value.name} is {self.states[value]}, not {state}")

    def _refuse(self, value: Value, found: AxisState) -> None:
        expected = self._expected_state(value) if value in self.graph.types else "its dual"
        name = value.name or "a value"
        raise Unsound(f"the gradient of {name} is {found} over {self.axis}, not {expected}")


def _state(graph: Graph, value: Value, axis: str) -> AxisState:
    return graph.placements[value][axis]


def _dual(state: AxisState) -> AxisState:
    dual_state = dual(state)
    return PARTIAL if dual_state == PARTIAL else same(dual_state or CONSTANT)


# Moves over several mesh axes at once: one collective where one axis would follow the other.
#
# A sum over the ranks of A and then over those of B is the sum over the ranks of both, sent in one
# collective: ``AR_B ∘ AR_A = AR_{A×B}``. Casts, which are transposes of such sums, are joined in
# the same way, and so are gathers and scatters along one axis, the outer mesh axis around the inner
# one. And ``AR_{A×B}(x) + AR_A(y) = AR_{A×B}(x + y)`` where of ``y``, the same along B, only the
# first rank there has its term: the gradient of keys that are cut less than the heads that share
# them.


G = TypeVar("G", bound=Graph)


def join(program: IRProgram) -> IRProgram:
    """A placed program with neighboring moves of a kind over different mesh axes as one."""
    order = tuple(program.mesh)
    graphs: dict[str, Graph] = {}
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        backward = program.backwards.get(key)
        graphs[key] = _join_moves(graph, _read_outside(graph, backward), program)
        if backward is not None:
            between = _step_outputs(graph) - _step_outputs(graphs[key])
            totals = {v: total for v, total in backward.totals.items() if v not in between}
            rest = replace(backward, forward=graphs[key], totals=totals)
            joined = _join_moves(rest, _read_outside(rest, None), program)
            backwards[key] = _Sums(joined, order).graph()
    return replace(program, graphs=graphs, backwards=backwards)


def _step_outputs(graph: Graph) -> set[Value]:
    return {value for step in graph.steps for value in step.outputs}


def _read_outside(graph: Graph, backward: Backward | None) -> Iterator[Value]:
    """Yield what is read besides by the graph's own steps."""
    yield from graph.outputs
    yield from (value for _, value in graph.aliases)
    if backward is not None:
        yield from backward.saved
    if isinstance(graph, Backward):
        yield from (*graph.gradients.values(), *graph.totals.values())


def _join_moves(graph: G, outside: Iterable[Value], program: IRProgram) -> G:
    reads = Counter(outside)
    reads.update(value for step in graph.steps for value in step.inputs)
    makers: dict[Value, Apply] = {}
    steps: dict[Step, None] = {}
    for step in graph.steps:
        if not isinstance(step, Apply) or not _joins(step):
            steps[step] = None
            continue
        (operand,) = step.inputs
        first = makers.get(operand)
        both = _merge_moves(first, step, program) if first and reads[operand] == 1 else None
        if first and both:
            del steps[first]
        apply = both or step
        steps[apply] = None
        makers[step.outputs[0]] = apply
    return _drop_stale_values(replace(graph, steps=tuple(steps)), _step_outputs(graph))


def _joins(step: Apply) -> bool:
    """Tell whether two such moves, over different mesh axes, can be one."""
    record = collective(step.op)
    return record is not None and record.nesting != "never"


def _drop_stale_values(graph: G, before: Set[Value]) -> G:
    """Drop what is known of values that the graph made `before` and no longer makes."""
    gone = before - _step_outputs(graph)
    return replace(
        graph,
        types={value: type_ for value, type_ in graph.types.items() if value not in gone},
        placements={value: at for value, at in graph.placements.items() if value not in gone},
    )


def _merge_moves(first: Apply, second: Apply, program: IRProgram) -> Apply | None:
    """One move for two, if they are of a kind over different mesh axes."""
    alike = [(m.op, m.attrs["source"], m.attrs["target"]) for m in (first, second)]
    if alike[0] != alike[1]:
        return None
    before, after = axes_over(first.attrs["over"]), axes_over(second.attrs["over"])
    axes = tuple(axis for axis in program.mesh if axis in before or axis in after)
    nested = {"outer first": (*before, *after), "inner first": (*after, *before)}
    record = collective(second.op)
    in_order = nested.get(record.nesting) if record else None
    if in_order and (in_order != axes or zigzag_axes(program.plan) & {*axes}):
        return None  # the parts of parts would not be contiguous
    over = joined_axes(axes)
    return replace(second, inputs=first.inputs, attrs={**second.attrs, "over": over})


@dataclass(slots=True)
class _Sums:
    """Writes a backward pass again with one sum over ranks for a sum of several."""

    backward: Backward
    order: Sequence[str]
    reads: Counter[Value] = field(init=False)
    makers: dict[Value, Apply] = field(default_factory=dict[Value, Apply])
    kept: dict[Step, None] = field(default_factory=dict[Step, None])
    types: dict[Value, TensorType] = field(init=False)
    placements: dict[Value, Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Count who reads what."""
        self.reads = Counter(_read_outside(self.backward, None))
        self.reads.update(value for step in self.backward.steps for value in step.inputs)
        self.types = dict(self.backward.types)
        self.placements = dict(self.backward.placements)

    def graph(self) -> Backward:
        """The backward pass with fewer sums."""
        for step in self.backward.steps:
            sums = self._sums(step)
            if isinstance(step, Apply) and sums:
                for each in sums:
                    del self.kept[each]
                self._sum_once(step, sums)
            else:
                self._keep(step)
        steps, types, placements = tuple(self.kept), self.types, self.placements
        backward = replace(self.backward, steps=steps, types=types, placements=placements)
        return _drop_stale_values(backward, _step_outputs(self.backward))

    def _keep(self, step: Step) -> None:
        self.kept[step] = None
        if isinstance(step, Apply) and step.op.glyph == MOVES["P", "I"].glyph:
            self.makers[step.outputs[0]] = step

    def _sums(self, step: Step) -> tuple[Apply, ...]:
        """Return the sums over ranks that one sum can replace, if a ⊕ adds only such sums."""
        if not isinstance(step, Apply) or step.op.glyph != "⊕":
            return ()
        steps = [self.makers.get(v) for v in step.inputs if self.reads[v] == 1]
        sums = tuple(each for each in steps if each is not None)
        fits = len(sums) == len(step.inputs) > 1 and all(map(self._is_term, sums))
        over = joined_axes(self._axes(sums))
        return sums if fits and all(self._can_be(each, over) for each in sums) else ()

    def _axes(self, sums: Iterable[Apply]) -> tuple[str, ...]:
        axes = {axis for each in sums for axis in axes_over(each.attrs["over"])}
        return tuple(axis for axis in self.order if axis in axes)

    @staticmethod
    def _is_term(each: Apply) -> bool:
        return each.attrs["source"] == PARTIAL and each.attrs["target"] == INVARIANT

    def _can_be(self, each: Apply, over: str) -> bool:
        """Whether what is summed is the same along all other mesh axes of the common sum."""
        rest = {*axes_over(over)} - {*axes_over(each.attrs["over"])}
        return all(self.placements[each.inputs[0]][axis].is_uniform for axis in rest)

    def _sum_once(self, step: Apply, sums: Sequence[Apply]) -> None:
        """Add the terms first, and then sum once."""
        axes = self._axes(sums)
        terms = tuple(self._term(each, axes) for each in sums)
        total = self._make_value(terms[0], self.placements[terms[0]], step)
        self._keep(replace(step, inputs=terms, outputs=(total,)))
        attrs = {**sums[0].attrs, "over": joined_axes(axes)}
        self._keep(replace(sums[0], inputs=(total,), outputs=step.outputs, attrs=attrs))

    def _term(self, each: Apply, axes: Sequence[str]) -> Value:
        """The summed value, as a term along all of some mesh axes."""
        (value,) = each.inputs
        rest = [axis for axis in axes if axis not in axes_over(each.attrs["over"])]
        if not rest:
            return value
        term = self._make_value(
            value, {**self.placements[value], **dict.fromkeys(rest, PARTIAL)}, each
        )
        attrs = {"over": joined_axes(rest), "source": INVARIANT, "target": PARTIAL}
        op = ops.table()[once.COLLECTIVE.glyph]
        self.kept[replace(each, op=op, outputs=(term,), attrs=attrs)] = None
        return term

    def _make_value(self, like: Value, placement: Placement, step: Apply) -> Value:
        value = Value(None, "cotangent", step.span)
        self.types[value], self.placements[value] = self.types[like], placement
        return value


def localize(program: IRProgram, axis: str) -> IRProgram:
    """The program of one rank of a mesh axis; it must have been checked."""
    graphs: dict[str, Graph] = {}
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        writer = _LocalGraph(axis, zigzag_axes(program.plan), graph.types, graph.placements)
        graphs[key] = writer.graph(graph)
        if key in program.backwards:
            backwards[key] = writer.backward(program.backwards[key], graphs[key])
    return replace(program, graphs=graphs, backwards=backwards)


@dataclass(slots=True)
class _LocalGraph:
    """Writes both passes of one graph. `same` maps what a cast made to what was cast."""

    axis: str
    zigzag: Collection[str]
    types: Mapping[Value, TensorType]
    placements: Mapping[Value, Placement]
    same: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def graph(self, graph: Graph) -> Graph:
        """The forward pass of a rank."""
        steps = self._steps(graph)
        types = {value: self._type(value) for value in self.types}
        outputs = self._all(graph.outputs)
        return replace(
            graph,
            outputs=outputs,
            output_types=tuple(types[value] for value in outputs),
            params=tuple(self._param(param) for param in graph.params),
            steps=steps,
            types=types,
            aliases=tuple((name, self._now(value)) for name, value in graph.aliases),
        )

    def backward(self, backward: Backward, forward: Graph) -> Backward:
        """Write the backward pass of a rank, after its forward pass."""
        # A rank's operator is derived from the forward step, whose operands may not be saved.
        self.types = {**self.types, **backward.types}
        self.placements = {
            **{v: {**p, self.axis: same(p[self.axis])} for v, p in self.placements.items()},
            **backward.placements,
        }
        calls = {call.saved: call for call in forward.calls}
        steps = tuple(
            replace(step, origin=calls[step.saved])
            if isinstance(step, Call) and not step.again
            else step
            for step in self._steps(backward)
        )
        outputs = self._all(backward.outputs)
        types = {self._now(value): self._type(value) for value in backward.types}
        return replace(
            backward,
            outputs=outputs,
            output_types=tuple(types[value] for value in outputs),
            steps=steps,
            types=types,
            placements={self._now(v): at for v, at in backward.placements.items()},
            forward=forward,
            cotangents={self._now(v): seed for v, seed in backward.cotangents.items()},
            gradients={v: self._now(gradient) for v, gradient in backward.gradients.items()},
            saved=self._saved(backward),
            of={part: self._now(value) for part, value in backward.of.items()},
            totals={
                value: self._now(total)
                for value, total in backward.totals.items()
                if value not in self.same
            },
        )

    def _steps(self, graph: Graph) -> tuple[Step, ...]:
        steps: list[Step] = []
        for step in graph.steps:
            if isinstance(step, Call):
                steps.append(replace(step, inputs=self._all(step.inputs)))
            elif local := self._apply(step):
                steps.append(local)
        return tuple(steps)

    def _saved(self, backward: Backward) -> tuple[Value, ...]:
        """Return the saved values; a cast of a parameter need not be saved."""
        params = set(backward.forward.param_values())
        saved = dict.fromkeys(self._all(backward.saved))
        return tuple(value for value in saved if value not in params)

    # ---- values ---------------------------------------------------------------------------------

    def _now(self, value: Value) -> Value:
        """Return a rank's value for a global one; for a cast, the operand of the cast."""
        return self.same.get(value, value)

    def _all(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(map(self._now, values))

    def _state(self, value: Value) -> AxisState:
        return self.placements[value][self.axis]

    def _type(self, value: Value) -> TensorType:
        type_ = self.types[value]
        return replace(type_, shape=local_shape(type_.shape, self._state(value), self.axis))

    def _param(self, param: Param) -> Param:
        shape = local_shape(param.type.shape, self._state(param.value), self.axis)
        return replace(param, type=replace(param.type, shape=shape))

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, step: Apply) -> Apply | None:
        """Return a rank's version of a step; None for a cast, whose result is its operand."""
        record = collective(step.op)
        if record and record.is_free and self._goes(step):
            self.same[step.outputs[0]] = self._now(step.inputs[0])
            return None
        inputs = self._all(step.inputs)
        body = self._body(step)
        if body is None:
            return replace(step, inputs=inputs)
        own = self._reuse_operator(step, body)
        if own is not None:
            return replace(own, inputs=inputs)
        op = _rank_op(step.op, body, step.attrs)
        return replace(step, op=op, inputs=inputs, attrs=_written(step.attrs))

    def _goes(self, step: Apply) -> bool:
        """Whether a move becomes one of a rank here: over several mesh axes on the last."""
        return "over" in step.attrs and axes_over(step.attrs["over"])[-1] == self.axis

    def _reuse_operator(self, step: Apply, body: Body) -> Apply | None:
        """The operator itself where on parts it is the same computation, only smaller.

        Its random draws are then a part of the global ones.
        """
        types = {value: self._type(value) for value in step.inputs}
        drawn = _drawn(body)
        attrs = {**step.attrs, **drawn} if drawn else step.attrs
        try:
            op = self._on_parts(step)
            own = op and replace(step, op=op, attrs=attrs)
            same = own and own.body(types).matches(body)
        except (ShapeError, Misuse):
            return None  # parts of some operands meet the whole of others
        return own if same else None

    def _on_parts(self, step: Apply) -> Op | None:
        """The operator of a step as it would be made for a rank's part; None if it is not known."""
        origin = step.origin
        if origin is None or not step.op.name.startswith("gradient of "):
            return None if step.op.local else step.op
        if origin.op.local:
            return None
        names = [name.removeprefix("d") for name in step.op.outputs]
        operands = [self._type(value) for value in origin.inputs]
        return origin.adjoint(operands, names).op

    def _body(self, step: Apply) -> Body | None:
        """Return the computation of a rank; None if it equals the global operator's."""
        body = step.body(self.types)
        if step.op.family == FAMILY and "over" in step.attrs:
            return self._move_body(step, body) if self._goes(step) else None
        states = [self._state(value) for value in step.inputs]
        output_states = [self._state(value) for value in step.outputs]
        try:
            typing = type_step(step.op, body, states, self.axis)
        except IllTyped as error:  # what another mesh axis has made of it before
            raise DiagnosticError.of(self._apart(step, error)) from error
        if not typing.collected and all(state.kind != "S" for state in (*states, *output_states)):
            return None
        over = ordered_axis(self.axis, self.zigzag)
        return local_body(body, typing, output_states, self.axis, over)

    def _apart(self, step: Apply, error: IllTyped) -> Problem:
        help = "cut another axis, or write the two mesh axes in the other order: that sends no more"
        return CutApart(step.span, step.op.glyph, self.axis, error.reason, (), (help,))

    def _move_body(self, step: Apply, body: Body) -> Body:
        (operand,) = body.operands
        shape = local_shape(operand.shape, step.attrs["source"], self.axis)
        part = replace(operand, shape=shape)
        over = step.attrs["over"]
        if "S" in (step.attrs["source"].kind, step.attrs["target"].kind):
            over = ordered_axis(over, self.zigzag)
        return Body((part,), (moved(step.op, part, {**step.attrs, "over": over}),))


def _drawn(body: Body) -> Attrs:
    """Along which axes a mask is drawn in part, for an operator that draws one."""
    for expr in body.order():
        if expr.prim == "dropout_keep" and expr.attr("cuts"):
            return {"cuts": expr.attr("cuts")}
    return {}


def _written(attrs: Attrs) -> Attrs:
    """The key of a step as written, without any size: sizes are global.

    A move is identified by the mesh axis that it goes `across`.
    """
    attributes = {key: value for key, value in attrs.items() if _is_of_a_part_too(value)}
    return {"across" if key == "over" else key: value for key, value in attributes.items()}


def _is_of_a_part_too(value: object) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(each, int) for each in cast("tuple[object, ...]", value))
    return isinstance(value, (Scalar, str, AxisState))


def _rank_op(op: Op, body: Body, attrs: Attrs) -> Op:
    """An operator of the same name and figure with the body of a rank."""
    said = op.description(attrs)
    of_rank = said if op.local else replace(said, meaning=f"{said.meaning}; one rank's part")
    own = {each.name for each in op.own if isinstance(each, Tensor)}
    names = [str(expr.name) for expr in body.operands]

    def describe(attrs: Attrs) -> Description:
        del attrs
        return of_rank

    data, owned = ([n for n in names if (n in own) is is_own] for is_own in (False, True))
    return replace(op.computing(body, data, owned), local=True, describe=describe)
