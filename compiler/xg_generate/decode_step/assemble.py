"""Build the graph of a planned step, and of the prologue before the steps."""

from __future__ import annotations

from collections.abc import Mapping

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import prune
from xg.ir.dim import ZERO
from xg.ir.graph import Apply, Call, Carry, Graph, IRProgram, Param, State, Value
from xg.ir.tensor import TensorType
from xg_generate.decode_step.block import (
    Kept,
    StepCall,
    StepLoop,
    StepPlan,
    StepRequest,
    Token,
    Used,
)
from xg_generate.decode_step.operator import Whole


@dataclass(slots=True)
class Assembler:
    """Makes the graph of one plan. `keys` name the graphs of the requests."""

    plan: StepPlan
    keys: Mapping[StepRequest, str]
    values: dict[Token, Value] = field(default_factory=dict[Token, Value])
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    states: list[State] = field(default_factory=list[State])
    names: dict[Value, str] = field(default_factory=dict[Value, str])

    def graph(self, params: tuple[Param, ...], foreign: frozenset[Value]) -> Graph:
        """The graph, with these parameters of its own."""
        source, request = self.plan.graph, self.plan.request
        self.names = _labels(self.plan)
        for param in params:
            self.types[param.value] = source.types[param.value]
        read = [v for v in source.foreign if v in foreign]
        self.types.update((value, source.types[value]) for value in read)
        inputs = tuple(self._value((source.inputs[i], whole)) for i, whole in self.plan.inputs)
        inputs += tuple(map(self._step_input, self.plan.given))
        steps: list[Apply | Call] = []
        for part in self.plan.parts:
            match part:
                case Used():
                    steps.append(self._use(part))
                case Kept():
                    steps += self._append(part)
                case StepCall():
                    steps.append(self._call(part))
                case StepLoop():
                    steps.append(self._loop(part))
        outputs = [self._value((source.outputs[i], whole)) for i, whole in request.outputs]
        step = replace(
            source,
            key=self.keys[request],
            inputs=inputs,
            outputs=tuple(outputs),
            output_names=tuple(
                source.output_names[i] + ("_all" if any(w) else "") for i, w in request.outputs
            ),
            output_types=tuple(self.types[value] for value in outputs),
            params=params,
            steps=tuple(steps),
            sizes=source.sizes.drop_symbols(frozenset(request.same)),
            foreign=tuple(read),
            states=tuple(self.states),
            carries=tuple(map(self._carry, source.carries)),
            types=self.types,
        )
        return prune(step)

    # ---- values ---------------------------------------------------------------------------------

    def _value(self, token: Token) -> Value:
        token = value, whole = self.plan.resolve(token)
        if value.role == "param":
            return value
        if token not in self.values:
            self.values[token] = copy = Value(self._name(value, whole), value.role, value.span)
            self.types[copy] = self.plan.type_in(token)
        return self.values[token]

    def _step_input(self, value: Value) -> Value:
        """Make a value that was an edge an input."""
        type_ = self.plan.type_of(value)
        stand_in = Value(given_names(self.plan)[value], "input", value.span)
        self.values[value, (False,) * len(type_.shape)] = stand_in
        self.types[stand_in] = type_
        return stand_in

    def _new(self, value: Value) -> Token:
        """A value that has no positions, or new ones only."""
        return value, (False,) * len(self.plan.type_of(value).shape)

    def _name(self, value: Value, whole: Whole) -> str | None:
        """The author's name, for what is whole if there are two: the new positions are K_new."""
        name = self.names.get(value)
        states = self.plan.states_of(value)
        if name is None or len(states) == 1:
            return name
        if value.role == "input":
            return f"{name}_all" if any(whole) else name
        return name if any(whole) else f"{name}_new"

    # ---- steps ----------------------------------------------------------------------------------

    def _use(self, part: Used) -> Apply:
        step, use = part.step, part.use
        inputs = tuple(self._value(token) for token in part.inputs)
        body = use.op.body([self.types[value] for value in inputs], use.attrs)
        outputs: list[Value] = []
        tokens = dict(zip(use.visible, part.outputs, strict=True))
        caches = len(body.outputs) - len(body.caches)
        for place, expr in enumerate(body.outputs):
            if place in tokens:
                outputs.append(self._value(tokens[place]))
                continue
            cache = place >= caches
            name = body.caches[place - caches] if cache else None
            outputs.append(Value(name, "cache" if cache else "edge", step.span))
            below = None if cache else self.plan.type_of(step.outputs[place]).range
            range_ = below if below is None else self.plan.positions.grown(below)
            self.types[outputs[-1]] = TensorType(expr.shape, range_)
        return replace(step, op=use.op, inputs=inputs, outputs=tuple(outputs), attrs=use.attrs)

    def _append(self, part: Kept) -> list[Apply]:
        """``C(K_past, K_new) : K``, and of a few positions the last: ``slice(K) : K_last``."""
        value, rank = part.value, part.rank
        before = part.past or self.plan.positions.past
        new = self._value((value, (False,) * rank))
        whole = last = self._value((value, part.whole))
        label = self.names.get(value) or "part"
        past = Value(f"{label}_past", "state", part.span)
        shape = list(self.types[new].shape)
        lengths = (before, shape[part.axis])
        shape[part.axis] = before
        self.types[past] = replace(self.types[new], shape=tuple(shape))
        taken = {state.name for state in self.states}
        name = f"{label}{self.plan.request.suffix}"
        number = next(n for n in range(1, len(taken) + 2) if _number_name(name, n) not in taken)
        axis = part.axis - rank
        attrs = {"axis": axis, "count": 2, "lengths": lengths}
        steps = [Apply(ops.table()["C"], (past, new), (whole,), attrs, part.span)]
        if part.past:
            last = Value(f"{label}_last", "edge", part.span)
            self.types[last] = self.types[past]
            attrs = {"axis": axis, "start": lengths[1], "stop": sum(lengths, ZERO)}
            steps.append(Apply(ops.table()["slice"], (whole,), (last,), attrs, part.span))
        self.states.append(State(_number_name(name, number), past, last))
        return steps

    def _call(self, part: StepCall) -> Call:
        gone = part.request.same[1:]
        sizes = {name: dim for name, dim in part.step.sizes.items() if name not in gone}
        return replace(
            part.step,
            callee=self.keys[part.request],
            inputs=tuple(map(self._value, (*part.inputs, *map(self._new, part.given)))),
            outputs=tuple(map(self._value, part.outputs)),
            saved=Value(part.step.saved.name, "saved", part.step.span),
            sizes=sizes,
        )

    def _loop(self, part: StepLoop) -> Call:
        """A call over the new positions, from the states that the step before has left."""
        call, loop = part.step, part.step.loop
        assert loop
        outputs = tuple(map(self._value, part.outputs))
        pasts: list[Value] = []
        for name, last in zip(part.states, outputs[len(outputs) - loop.states :], strict=True):
            past = Value(f"{name}_past", "state", call.span)
            self.types[past] = self.types[last]
            self.states.append(State(f"{call.path}.{name}", past, last))
            pasts.append(past)
        return replace(
            call,
            callee=self.keys[part.request],
            inputs=(*map(self._value, part.inputs), *pasts),
            outputs=outputs,
            saved=Value(call.saved.name, "saved", call.span),
        )

    def _carry(self, carry: Carry) -> Carry:
        past, following = (self._value(self._new(v)) for v in (carry.past, carry.next))
        return replace(carry, past=past, next=following)


def given_names(plan: StepPlan) -> dict[Value, str]:
    """Distinct names for the values that were edges and are inputs now."""
    labels = _labels(plan)
    taken = {str(value.name) for value in plan.graph.inputs}
    names: dict[Value, str] = {}
    for value in plan.given:
        base = labels.get(value) or value.name or "given"
        count = range(1, len(plan.given) + 2)
        names[value] = next(n for n in (_number_name(base, i) for i in count) if n not in taken)
        taken.add(names[value])
    return names


def _labels(plan: StepPlan) -> dict[Value, str]:
    """The name of each value: as written, or its result's where a step leaves nothing to do."""
    names = {v: v.name for v in plan.graph.types if v.name}
    for (result, _), (operand, _) in reversed(list(plan.alias.items())):
        if result in names:
            names.setdefault(operand, names[result])
    for step in reversed(plan.graph.steps):
        label = next((names[v] for v in step.outputs if v in names), None)
        for value in step.inputs:
            if label and any(isinstance(p, Kept) and p.value is value for p in plan.parts):
                names.setdefault(value, f"{label}_in")
    return names


def _number_name(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


# The prologue of a block's steps: their inputs, computed from inputs without positions.


def prologue_graph(
    plan: StepPlan, program: IRProgram, graphs: Mapping[str, Graph], keys: Mapping[StepRequest, str]
) -> Graph:
    """Build the block that only computes what its step is given."""
    graph = program.graphs[plan.request.callee]
    asked: dict[Value, list[StepCall]] = {}
    for part in plan.parts:
        if isinstance(part, StepCall) and part.given:
            asked.setdefault(part.step.saved, []).append(part)
    steps: list[Apply | Call] = []
    for step in graph.steps:
        steps.append(step)
        if isinstance(step, Call):
            callee = program.graphs[step.callee]
            for part in asked.get(step.saved, ()):
                ready = graphs[keys[part.request]]
                steps.append(_call_before(step, part, callee, ready, plan.request.same))
    values = set(plan.given)
    for step in reversed(steps):
        if not values.isdisjoint(step.outputs):
            values.update(step.inputs)
    names = given_names(plan)
    before_steps = replace(
        graph,
        key=keys[plan.request],
        inputs=tuple(value for value in graph.inputs if value in values),
        outputs=plan.given,
        output_names=tuple(names[value] for value in plan.given),
        output_types=tuple(map(plan.type_of, plan.given)),
        steps=tuple(steps),
        types={**graph.types, **plan.handed},
    )
    return prune(before_steps)


def _call_before(
    call: Call, part: StepCall, callee: Graph, before: Graph, positions: tuple[str, ...]
) -> Call:
    """The call of a callee's prologue, with sizes that have no positions."""
    ports = zip(callee.inputs, call.inputs, strict=True)
    return replace(
        call,
        callee=before.key,
        inputs=tuple(value for port, value in ports if port in before.inputs),
        outputs=part.given,
        saved=Value(call.saved.name, "saved", call.span),
        sizes={
            name: dim
            for name, dim in call.sizes.items()
            if not set(positions).intersection(dim.symbols())
        },
    )
