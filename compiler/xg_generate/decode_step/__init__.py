"""A block as a step: the new positions of a text go in, the past ones are kept in states.

`decode_step` turns a block that takes whole texts into one that takes them piece by piece, with the
same results. No operator has a rule for it: what a node needs of earlier positions is read off its
body, axis by axis (`operator`); what is needed whole is kept (`block`), what needs no position is
given (`prologue`); the result is an ordinary program whose graphs have states (`Assembler`); and
whether an earlier position could ever depend on a later one is checked on that result (`causal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import needed_steps, prune
from xg.ir.dim import ZERO, Dim, symbol
from xg.ir.graph import Apply, Call, Carry, Graph, IRProgram, Param, State, Value
from xg.ir.tensor import TensorType
from xg.ir.walk import answers, param_patterns
from xg.syntax.spelling import greek_name
from xg_generate.decode_step.block import (
    BlockPlanner,
    Kept,
    StepCall,
    StepLoop,
    StepPart,
    StepPlan,
    StepRequest,
    Token,
    Used,
    keep_all_positions,
)
from xg_generate.decode_step.causal import check_causal
from xg_generate.decode_step.errors import NoPositions, NoStep
from xg_generate.decode_step.operator import Whole

# The graph of a planned step, and of the prologue before the steps.


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
    values, _ = needed_steps(steps, plan.given)
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


# The step of a program.


def decode_step(program: IRProgram, output: str | None = None) -> IRProgram:
    """The step of a typed program that gives one output, by default the first that has positions.

    Raises DiagnosticError where a step cannot give what the whole text would.
    """
    request, past = _request(program, output), _past(program)
    plans = _plans(program, request, past)
    _check_rows(plans[request])
    if not _is_recurrent(plans.values(), past.symbols()):
        plans[request] = _with_state(plans[request])
    keys = _keys(plans)
    params = _params(program, plans)
    graphs = {
        keys[each]: Assembler(plan, keys).graph(params[each], frozenset(plan.graph.foreign))
        for each, plan in plans.items()
    }
    step = IRProgram(graphs, keys[request])
    step = replace(step, partial=param_patterns(step) != param_patterns(program))
    lengths = {keys[each]: plan.positions.length for each, plan in plans.items()}
    check_causal(step, lengths, past)
    return step


def prologue(program: IRProgram, output: str | None = None) -> IRProgram | None:
    """Return a program for the step inputs that need no positions; None without such inputs.

    The output of an encoder is the same in every step. Unneeded steps are not eliminated here.
    """
    request = _request(program, output)
    plans = _plans(program, request, _past(program))
    if not plans[request].given:
        return None
    graphs = dict(program.graphs)
    keys: dict[StepRequest, str] = {}
    for number, (each, plan) in enumerate(plans.items()):
        if plan.given:
            keys[each] = f"{each.callee} once ({number})"
            graphs[keys[each]] = prologue_graph(plan, program, graphs, keys)
    return replace(program, graphs=graphs, entry=keys[request], backwards={}, partial=True)


def _request(program: IRProgram, output: str | None) -> StepRequest:
    """The request for the entry block: one output at the new positions."""
    main = program.main
    if main.carries:
        what = f"is one round of a loop, with the state {greek_name(main.carries[0].name)}"
        help = f"choose the block that calls it: {main.block} over …"
        raise DiagnosticError.of(NoStep(main.span, main.block, what, help))
    if program.mesh:
        help = "leave the plan out: a decode step runs on one device"
        raise DiagnosticError.of(NoStep(main.span, main.block, "is for one of several ranks", help))
    place, length = _output(main, output)
    whole = (False,) * len(main.types[main.outputs[place]].shape)
    return StepRequest(program.entry, (length,), ((place, whole),), alone=True)


def _output(graph: Graph, wanted: str | None) -> tuple[int, str]:
    """The output of a step, and the symbol of its axis of positions, the last but one."""
    types = [graph.types[value] for value in graph.inputs]
    names = {name for type_ in types for name in _positions(type_)}
    names -= {type_.shape[0].name for type_ in types if len(type_.shape) > 1 + type_.is_float}
    for place, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        type_ = graph.types[value]
        if wanted in (None, name) and type_.is_float and len(type_.shape) > 1:
            length = type_.shape[-2].name
            if length is not None and length in names:
                return place, length
    pairs = zip(graph.output_names, graph.output_types, strict=True)
    outputs = tuple(f"{name} {type_}" for name, type_ in pairs if wanted in (None, name))
    raise DiagnosticError.of(NoPositions(graph.span, graph.block, outputs, wanted))


def _positions(type_: TensorType) -> tuple[str, ...]:
    """Candidates for an axis of positions: the last of integers, the last but one of floats."""
    axes = type_.shape[-2:-1] if type_.is_float else type_.shape[-1:]
    return tuple(dim.name for dim in axes if dim.name is not None)


def _past(program: IRProgram) -> Dim:
    """A symbol for the past positions that the program does not use."""
    used: set[str] = set()
    for graph in program.graphs.values():
        used |= {
            name for type_ in graph.types.values() for d in type_.shape for name in d.symbols()
        }
        used |= {*graph.sizes.defaults, *graph.sizes.definitions}
    names = ["T", "S_past", *(f"T_{number}" for number in range(len(used) + 1))]
    return symbol(next(name for name in names if name not in used))


def _plans(program: IRProgram, request: StepRequest, past: Dim) -> dict[StepRequest, StepPlan]:
    """The plans of a request and of all that it asks, callees first."""
    return answers(request, lambda asked: BlockPlanner(program, asked, past).plan(), {})


def _check_rows(plan: StepPlan) -> None:
    """Refuse a table of pairs of positions as what a step takes or gives: it has new rows alone.

    A block that takes nothing with positions cannot know how many are new.
    """
    graph, length = plan.graph, plan.request.same[0]
    taken = [graph.inputs[place] for place, _ in plan.inputs]
    for value in [*taken, *(graph.outputs[place] for place, _ in plan.request.outputs)]:
        if sum(dim.name == length for dim in graph.types[value].shape) > 1:
            what = f"has a number for every pair of positions {length}"
            raise DiagnosticError.of(NoStep(value.span, str(value.name), what))
    if not any(dim.name == length for value in taken for dim in graph.types[value].shape):
        output = graph.outputs[plan.request.outputs[0][0]]
        what = f"depends on no input with the positions {length}"
        raise DiagnosticError.of(NoStep(output.span, str(output.name), what))


def _is_recurrent(plans: Iterable[StepPlan], past: Sequence[str]) -> bool:
    """Whether what steps leave does not grow, and nothing asks how many positions there were."""
    parts = [(plan, part) for plan in plans for part in plan.parts]
    counted = any(
        _grows(part) or (isinstance(part, Used) and _counts(plan, part, past))
        for plan, part in parts
    )
    return not counted and any(isinstance(part, StepLoop | Kept) for _, part in parts)


def _grows(part: StepPart) -> bool:
    return isinstance(part, Kept) and part.past is None


def _counts(plan: StepPlan, part: Used, past: Sequence[str]) -> bool:
    """Whether an operator computes with the number of past positions, as `range` does."""
    types = list(map(plan.type_in, part.inputs))
    body = part.use.op.body(types, part.use.attrs)
    attrs = (value for expr in body.order() for _, value in expr.attrs)
    dims = (value for value in attrs if isinstance(value, Dim))
    return any(name in past for dim in dims for name in dim.symbols())


def _with_state(plan: StepPlan) -> StepPlan:
    """The entry's plan with a state that counts the positions so far."""
    if any(map(_grows, plan.parts)):
        return plan
    for place, whole in plan.inputs:
        value = plan.graph.inputs[place]
        every = plan.positions.whole_flags(plan.graph.types[value].shape)
        if sum(every) == 1 and not any(whole):
            state = Kept(value, every.index(True), len(every), value.span)
            if state in (replace(p, past=None) for p in plan.parts if isinstance(p, Kept)):
                return keep_all_positions(plan, (value, every))
            return replace(plan, parts=(state, *plan.parts))
    return plan


def _keys(plans: Mapping[StepRequest, StepPlan]) -> dict[StepRequest, str]:
    """A key for every plan: the block's own, numbered where a block has several steps."""
    keys: dict[StepRequest, str] = {}
    for request in sorted(plans, key=lambda each: each.suffix):
        number = sum(other.callee == request.callee for other in keys) + 1
        keys[request] = request.callee + (f" ({number})" if number > 1 else "")
    return keys


def _params(
    program: IRProgram, plans: Mapping[StepRequest, StepPlan]
) -> dict[StepRequest, tuple[Param, ...]]:
    """The parameters of each block that its steps read, or that a caller reads too."""
    read: dict[StepRequest, dict[Value, None]] = {request: {} for request in plans}
    lent: set[tuple[StepRequest, str]] = set()
    for request, plan in plans.items():
        tokens = [(plan.graph.outputs[place], whole) for place, whole in request.outputs]
        tokens += [t for part in plan.parts if not isinstance(part, Kept) for t in part.inputs]
        values = (value for value, _ in map(plan.resolve, tokens))
        read[request].update((value, None) for value in values if value.role == "param")
        calls = {p.step.path: p.request for p in plan.parts if isinstance(p, StepCall | StepLoop)}
        for value in plan.graph.foreign:
            path, _, name = str(value.name).partition(".")
            if value in read[request] and path in calls:
                lent.add((calls[path], name))
    return {
        request: tuple(
            param
            for param in plan.graph.params
            if param.value in read[request] or (request, str(param.value.name)) in lent
        )
        for request, plan in plans.items()
    }
