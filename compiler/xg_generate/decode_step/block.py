"""Plan a block as a step: the needs of its outputs decide, backwards, what each value is.

A value that is wanted whole is kept: the new positions are appended to those of the steps before,
which the block finds in a state of its own. So every block takes new positions and gives new ones,
and its callers need not know what it keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import attribute
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Loop, Value
from xg.ir.prim import Expr, Windows
from xg.ir.tensor import TensorType
from xg.ir.walk import inside
from xg_generate.decode_step.errors import CannotStep, LooksAhead, NoStep
from xg_generate.decode_step.operator import PositionSymbols, StepUse, Whole, step_use

# A graph in which several symbols are one: an Attention that is called with S = S_k.


def specialize(graph: Graph, symbols: Mapping[str, Dim]) -> Graph:
    """The graph with symbols replaced in every type and every attribute; its values stay."""

    def change(dim: Dim) -> Dim:
        return dim.substitute(symbols)

    if not symbols:
        return graph
    steps: list[Apply | Call] = []
    for step in graph.steps:
        if isinstance(step, Apply):
            attrs = {key: attribute(value, change) for key, value in step.attrs.items()}
            steps.append(replace(step, attrs=attrs))
        else:
            sizes = {name: change(dim) for name, dim in step.sizes.items()}
            count = change(step.count) if step.count is not None else None
            steps.append(replace(step, sizes=sizes, count=count))
    types = {value: type_.substitute(symbols) for value, type_ in graph.types.items()}
    return replace(graph, steps=tuple(steps), types=types)


# A block as a step before its values are made: what is asked of it, and its parts in order.


Token = tuple[Value, Whole]  # a value in one of its states
Port = tuple[int, Whole]  # an input or output by its place


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A request for a block: which outputs in which form.

    `same` are its symbols that are the axis of positions, the first of which stays. `suffix`
    distinguishes the states of several calls under one name. If a block is called `alone`, not in a
    row, values that depend on no position are computed before the first step, and passed in.
    """

    callee: str
    same: tuple[str, ...]
    outputs: tuple[Port, ...]
    suffix: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Used:
    """An operator of the step; `outputs` has a token where the output is read, else None."""

    step: Apply
    use: StepUse
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A value whose positions are kept along one axis: all of them, or the last `past`."""

    value: Value
    axis: int
    rank: int
    span: Span
    past: Dim | None = None

    @property
    def whole(self) -> Whole:
        """Return the flags of the value with all its positions."""
        return tuple(axis == self.axis for axis in range(self.rank))


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call in the step, what it asks of its callee, and what it hands on to it as given."""

    step: Call
    request: StepRequest
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]
    given: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A call over the new positions. Its rounds go on from the states that the step before left.

    `inputs` are those of the call but its `states`, which begin as zeros where the text does.
    """

    step: Call
    request: StepRequest
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A block as a step, before its values are made: `parts` in order.

    `given` are values that were edges, here or in a block that is called, and are inputs now;
    `handed` are those of called blocks, with their types here.
    """

    request: StepRequest
    graph: Graph
    positions: PositionSymbols
    inputs: tuple[Port, ...]
    parts: tuple[StepPart, ...]
    alias: Mapping[Token, Token]
    given: tuple[Value, ...] = ()
    handed: Mapping[Value, TensorType] = field(default_factory=dict[Value, TensorType])

    def type_of(self, value: Value) -> TensorType:
        """The type of a value of the block, or of one that it hands on."""
        return self.handed.get(value) or self.graph.types[value]

    def type_in(self, token: Token) -> TensorType:
        """The type of a value in one of its states."""
        value, whole = token
        positions = self.positions
        for part in self.parts if any(whole) else ():
            if isinstance(part, Kept) and part.past and (part.value, part.whole) == token:
                positions = PositionSymbols(positions.length, part.past)
        return positions.type(self.type_of(value), whole)

    def resolve(self, token: Token) -> Token:
        """Follow aliases to the value that a token is: dropout leaves its operand unchanged."""
        while token in self.alias:
            token = self.alias[token]
        return token

    def states_of(self, value: Value) -> frozenset[Whole]:
        """In which states a value occurs."""
        forms = {whole for place, whole in self.inputs if self.graph.inputs[place] is value}
        for part in self.parts:
            if isinstance(part, Kept):
                if part.value is value:
                    forms |= {(False,) * part.rank, part.whole}
            else:
                forms |= {whole for output, whole in part.outputs if output is value}
        return frozenset(forms)


StepPart = Used | Kept | StepCall | StepLoop
Asking = Generator[StepRequest, StepPlan, StepPlan]


# States of a few positions: what only windows read is kept as far back as they reach.
#
# A causal convolution of k positions needs the k - 1 before the new ones, however long the text is.
# Zeros are in front of a text, and so are they in the state that the first step is given: it reads
# what windows find beyond the first position.


_LAYOUT_VIEWS = frozenset({"reshape", "transpose"})


def keep_recent(plan: StepPlan) -> StepPlan:
    """The plan in which states that only windows read hold as many positions as these need."""
    reaches = {
        (part.value, part.whole): reach
        for part in plan.parts
        if isinstance(part, Kept) and (reach := _reach(plan, (part.value, part.whole)))
    }
    return _with_reaches(plan, reaches)


def keep_all_positions(plan: StepPlan, token: Token) -> StepPlan:
    """Return the plan in which a state holds all past positions again."""
    return _with_reaches(plan, {token: None})


def _with_reaches(plan: StepPlan, reaches: Mapping[Token, Dim | None]) -> StepPlan:
    if not reaches:
        return plan
    return replace(plan, parts=tuple(_cut(plan, part, reaches) for part in plan.parts))


def _cut(plan: StepPlan, part: StepPart, reaches: Mapping[Token, Dim | None]) -> StepPart:
    """A part with the reach in the place of the number of all past positions."""
    if isinstance(part, Kept):
        return replace(part, past=reaches.get((part.value, part.whole), part.past))
    if not isinstance(part, Used) or not reaches.keys() & set(part.inputs):
        return part
    (reach,) = {reaches[token] for token in part.inputs if token in reaches}
    types = [plan.graph.types[value] for value in part.step.inputs]
    ports = [(part.step.outputs.index(value), whole) for value, whole in part.outputs]
    positions = PositionSymbols(plan.positions.length, reach or plan.positions.past)
    return replace(part, use=step_use(part.step, types, ports, positions))


def _reach(plan: StepPlan, token: Token) -> Dim | None:
    """How far back the windows reach that read a value; None if anything else reads it."""
    outputs = [(plan.graph.outputs[place], whole) for place, whole in plan.request.outputs]
    if token in outputs or token in plan.alias.values():
        return None
    reaches: set[Dim | None] = set()
    for part in plan.parts:
        if not isinstance(part, Kept) and token in part.inputs:
            reaches.add(_reach_of(plan, part, token) if isinstance(part, Used) else None)
    (reach,) = reaches if len(reaches) == 1 else (None,)
    return reach


def _reach_of(plan: StepPlan, part: Used, token: Token) -> Dim | None:
    """Return the reach of one use's windows; None if anything else is whole."""
    if any(any(whole) for _, whole in part.outputs):
        return None
    if any(any(whole) for other, whole in part.inputs if other is not token[0]):
        return None
    types = [plan.graph.types[value] for value in part.step.inputs]
    body = part.step.op.body(types, part.step.attrs)
    operands = [e for e, v in zip(body.operands, part.step.inputs, strict=True) if v is token[0]]
    reaches = {*_reaches(body.order(), operands, plan.positions)}
    (reach,) = reaches if len(reaches) == 1 else (None,)
    return reach


def _reaches(
    body: Sequence[Expr], operands: list[Expr], positions: PositionSymbols
) -> Iterator[Dim | None]:
    """Yield the zeros before each window of the operands; None for uses other than windows."""
    views = {id(operand) for operand in operands}
    for expr in body:
        if expr.prim == "iota" and positions.is_axis(expr.shape[0]):
            yield None
        if not any(id(arg) in views for arg in expr.args):
            continue
        if expr.prim in _LAYOUT_VIEWS:
            views.add(id(expr))
        elif expr.prim == "window" and positions.is_axis(Windows.of(expr).length):
            yield Windows.of(expr).before
        else:
            yield None


@dataclass(slots=True)
class BlockPlanner:
    """Plans one request."""

    program: IRProgram
    request: StepRequest
    past: Dim
    graph: Graph = field(init=False)
    positions: PositionSymbols = field(init=False)
    wanted: dict[Value, dict[Whole, None]] = field(init=False)
    parts: list[StepPart] = field(init=False)
    alias: dict[Token, Token] = field(init=False)
    given: list[Value] = field(init=False)
    handed: dict[Value, TensorType] = field(init=False)

    def plan(self) -> Asking:
        """The plan; yields what it has to know of the blocks that are called."""
        graph = self.program.graphs[self.request.callee]
        length, *others = self.request.same or (None,)
        one = {name: symbol(length) for name in others if length is not None and name}
        self.graph = graph = specialize(graph, one)
        self.positions = PositionSymbols(length, self.past)
        self.wanted, self.parts, self.alias, self.given, self.handed = {}, [], {}, [], {}
        producers = {value: step for step in graph.steps for value in step.outputs}
        constant = self._constants(graph.param_values())
        fixed = self._fixed_values(constant) if self.request.alone else frozenset[Value]()
        suffixes = self._suffixes()
        for place, whole in self.request.outputs:
            self._want((graph.outputs[place], whole))
        for carry in graph.carries:
            self._want(self._new(carry.past))
        for step in reversed(graph.steps):
            for value in step.outputs:
                if value in fixed:
                    self._give(value, producers)
                elif value not in constant:
                    self._keep(value, step.span, producers)
            if isinstance(step, Apply):
                self._use(step)
            elif any(value in self.wanted for value in step.outputs):
                yield from self._call(step, suffixes[step])
        for value in graph.inputs:
            self._keep(value, value.span, producers)
        inputs = [(i, w) for i, v in enumerate(graph.inputs) for w in self.wanted.get(v, ())]
        parts = tuple(reversed(self.parts))
        given = tuple(reversed(self.given))
        asked = self.request, graph, self.positions, tuple(inputs)
        return keep_recent(StepPlan(*asked, parts, self.alias, given, self.handed))

    def _want(self, token: Token) -> Token:
        value, whole = token
        if value.role == "param" and any(self._all(value, value.span)):
            help = "give it enough rows for the longest text: range(S) -> Emb(P), P [S_max, D]"
            what = "has exactly as many rows as there are positions"
            raise DiagnosticError.of(NoStep(value.span, str(value.name), what, help))
        self.wanted.setdefault(value, {})[whole] = None
        return token

    def _refuse(self, span: Span, node: str, what: str, *, ahead: bool = False) -> NoReturn:
        problem: Problem = (LooksAhead if ahead else NoStep)(span, node, what)
        raise DiagnosticError.of(problem)

    def _refuse_loop(self, call: Call, callee: Graph, what: str, help: str) -> NoReturn:
        raise DiagnosticError.of(NoStep(call.span, callee.block, what, help))

    def _all(self, value: Value, span: Span) -> Whole:
        try:
            return self.positions.whole_flags(self.graph.types[value].shape)
        except CannotStep as refused:
            self._refuse(span, value.name or "this node", str(refused))

    def _constants(self, known: Iterable[Value]) -> frozenset[Value]:
        """Values that depend on no input: positions and tables, computed at any length."""
        values = {*known}
        for step in self.graph.steps:
            if isinstance(step, Apply) and values.issuperset(step.inputs):
                values.update(step.outputs)
        return frozenset(values)

    def _fixed_values(self, constant: frozenset[Value]) -> frozenset[Value]:
        """Find values that only depend on inputs without positions, like an encoder's output."""
        values = {v for v in self.graph.inputs if not any(self._all(v, v.span))} | constant
        for step in self.graph.steps:
            if step.inputs and values.issuperset(step.inputs):
                values.update(v for v in step.outputs if not any(self._all(v, step.span)))
        return frozenset(values - constant)

    def _give(self, value: Value, producers: dict[Value, Apply | Call]) -> None:
        """Make a fixed value that is wanted an input, where that is its place."""
        if value in self.wanted and not _kept_earlier(value, producers, self.graph.types):
            del self.wanted[value]
            self.given.append(value)

    def _suffixes(self) -> dict[Call, str]:
        """A second call under one name has the same parameters and states of its own."""
        seen: dict[str, int] = {}
        suffixes: dict[Call, str] = {}
        for step in self.graph.steps:
            if isinstance(step, Call):
                seen[step.path] = number = seen.get(step.path, 0) + 1
                suffixes[step] = self.request.suffix + (f"_{number}" if number > 1 else "")
        return suffixes

    # ---- caches ---------------------------------------------------------------------------------

    def _keep(self, value: Value, span: Span, producers: dict[Value, Apply | Call]) -> None:
        """Make a value that is wanted whole one that is kept, where that is its place."""
        for whole in list(self.wanted.get(value, ())):
            every = self._all(value, span)
            if not any(whole) or (sum(every) > 1 and whole != every):
                continue  # new, or of queries that are new and keys that are not
            if sum(every) > 1:
                what = f"is needed for every pair of positions {self.positions.length}"
                self._refuse(span, value.name or "this node", what)
            if not _kept_earlier(value, producers, self.graph.types):
                del self.wanted[value][whole]
                self._want((value, (False,) * len(whole)))
                self.parts.append(Kept(value, whole.index(True), len(whole), span))

    # ---- steps ----------------------------------------------------------------------------------

    def _use(self, step: Apply) -> None:
        values = step.inputs if step.op.differentiates else ()
        dims = {dim for value in values for dim in self.graph.types[value].shape}
        if any(self.positions.length in dim.symbols() for dim in dims):
            what = f"takes the gradient of a loss of all positions {self.positions.length}"
            help = "in a step the loss has new terms: generate from a block without this gradient"
            raise DiagnosticError.of(NoStep(step.span, "grad", what, help))
        for ports in _rounds([list(self.wanted.get(value, ())) for value in step.outputs]):
            types = [self.graph.types[value] for value in step.inputs]
            try:
                use = step_use(step, types, ports, self.positions)
            except CannotStep as refused:
                first, what = (
                    None if refused.ahead else _find_mixing_step(self.graph, step, self.positions),
                    str(refused),
                )
                if first:
                    what = f"makes an axis of the number of positions {self.positions.length}"
                at = first or step
                self._refuse(at.span, at.op.glyph, what, ahead=refused.ahead)
            names = dict(zip(step.op.operand_names(step.attrs), step.inputs, strict=True))
            inputs = tuple(self._want((names[name], whole)) for name, whole in use.operands)
            outputs = tuple((step.outputs[place], whole) for place, whole in ports)
            if use.same is not None:
                self.alias[outputs[0]] = inputs[0]
            else:
                self.parts.append(Used(step, use, inputs, outputs))

    def _call(self, call: Call, suffix: str) -> Generator[StepRequest, StepPlan, None]:
        callee = self.program.graphs[call.callee]
        if call.loop:
            yield from self._loop(call, call.loop, callee, suffix)
            return
        same = self._positions_of(call, callee)
        if call.count is not None and self.positions.length in call.count.symbols():
            self._refuse(call.span, callee.block, "is repeated once for each position")
        for ports in _rounds([list(self.wanted.get(value, ())) for value in call.outputs]):
            alone = self.request.alone and call.count is None
            request = StepRequest(call.callee, same, tuple(ports), suffix, alone)
            planned = yield request
            values = tuple(self._hand(call, callee, planned, value) for value in planned.given)
            carried = [whole for place, whole in planned.inputs if place == 0]
            if call.count is not None and [any(whole) for whole in carried] != [False]:
                self._refuse(call.span, callee.block, "is repeated with more than new positions")
            inputs = [self._want((call.inputs[place], whole)) for place, whole in planned.inputs]
            outputs = tuple((call.outputs[place], whole) for place, whole in ports)
            self.parts.append(StepCall(call, request, tuple(inputs), outputs, values))

    def _loop(
        self, call: Call, loop: Loop, callee: Graph, suffix: str
    ) -> Generator[StepRequest, StepPlan, None]:
        """A call over the positions goes over the new ones: the state is all that is past."""
        length = self.positions.length
        if length is None or loop.length.name != length:
            help = "only a loop over the positions can continue from the previous step"
            self._refuse_loop(call, callee, f"is called over {loop.length}", help)
        if loop.reverse:
            self._refuse(
                call.span, callee.block, "runs backwards from the last position", ahead=True
            )
        if any(length in dim.symbols() for dim in self._sizes_inside(call, callee)):
            help = "give each round its own position of every input"
            self._refuse_loop(call, callee, "is given all positions in every round", help)
        visible, visible_inputs = (
            len(values) - loop.states for values in (call.outputs, call.inputs)
        )
        if any(value in self.wanted for value in call.outputs[visible:]):
            what = "gives its last state, which depends on every position"
            self._refuse(call.span, callee.block, what, ahead=True)
        for carry, value in zip(callee.carries, call.inputs[visible_inputs:], strict=True):
            if not self._is_zero(value):
                help = (
                    f"state {carry.name} {callee.types[carry.past]} = zeros, and none at the call"
                )
                self._refuse_loop(call, callee, f"starts with {carry.name} other than 0", help)
        ports = tuple(
            (place, (False,) * len(callee.types[value].shape))
            for place, value in enumerate(callee.outputs)
        )
        request = StepRequest(call.callee, (), ports)
        planned = yield request
        taken = [place for place, _ in planned.inputs]
        cut = [place for place in taken if place < visible_inputs]
        inputs = tuple(self._want(self._new(call.inputs[place])) for place in cut)
        axes = tuple(loop.inputs[place] for place in taken)
        outputs = tuple(map(self._new, call.outputs))
        call = replace(call, loop=replace(loop, inputs=axes))
        states = tuple(f"{carry.name}{suffix}" for carry in callee.carries)
        self.parts.append(StepLoop(call, request, inputs, outputs, states))

    def _is_zero(self, value: Value) -> bool:
        """Whether a value is the zeros that a state begins as."""
        made = (s for s in self.graph.steps if isinstance(s, Apply) and value in s.outputs)
        return any(step.op.glyph == "fill" and step.attrs["value"].constant == 0 for step in made)

    def _new(self, value: Value) -> Token:
        return value, (False,) * len(self.graph.types[value].shape)

    def _sizes_inside(self, call: Call, callee: Graph) -> Iterator[Dim]:
        """Express the sizes of a callee's edges in the sizes of this block."""
        symbols = inside(call, self.graph, callee, {})
        return (dim.substitute(symbols) for dim in _axes(callee))

    def _hand(self, call: Call, callee: Graph, planned: StepPlan, value: Value) -> Value:
        """A value that a called block is given, as one that this block is given."""
        symbols = inside(call, self.graph, callee, {})
        here = Value(value.name, "input", call.span)
        self.handed[here] = planned.type_of(value).substitute(symbols)
        self.given.append(here)
        return here

    def _positions_of(self, call: Call, callee: Graph) -> tuple[str, ...]:
        """The callee's symbols that are the caller's axis of positions here; inputs' come first."""
        length = self.positions.length
        if length is None:
            return ()
        symbols = {length: symbol(length), **inside(call, self.graph, callee, {})}
        mentioned = [name for dim in _axes(callee) for name in dim.symbols()]
        names: dict[str, None] = {}
        for name in mentioned:
            dim = symbols.get(name)
            if dim is not None and length in dim.symbols():
                if dim.name != length:
                    what = f"takes {dim} positions where {callee.block} says {name}"
                    self._refuse(call.span, callee.block, what)
                names[name] = None
        return tuple(names)


def _axes(graph: Graph) -> list[Dim]:
    """List every size on the edges of a graph, the sizes of its inputs first."""
    values = [*graph.inputs, *graph.types]
    return [dim for value in values for dim in graph.types[value].shape]


def _find_mixing_step(graph: Graph, step: Apply, positions: PositionSymbols) -> Apply | None:
    """Find the step that gave an operand of another step an axis made of positions, if any."""
    mixed: dict[Value, Apply] = {}
    for each in graph.steps:
        made = next((mixed[value] for value in each.inputs if value in mixed), None)
        if each is step:
            return made
        shapes = [graph.types[value].shape for value in each.outputs]
        if isinstance(each, Apply) and any(map(positions.mixes, itertools.chain(*shapes))):
            mixed |= dict.fromkeys(each.outputs, made or each)
    return None


def _rounds(states: Sequence[list[Whole]]) -> list[list[Port]]:
    """The outputs that are made together: the first state of each, then the second of some …"""
    count = max(map(len, states), default=0)
    return [
        [(place, wholes[turn]) for place, wholes in enumerate(states) if turn < len(wholes)]
        for turn in range(count)
    ]


# ---- views --------------------------------------------------------------------------------------
# The place of a cache is the value that is needed whole, or one that it is only a view of:
# ``K -> BC -> T : KT`` is needed whole as KT. The views cost little and a repetition would make the
# cache larger, so K is kept: the first value with a name before anything is repeated.

_VIEWS = frozenset({"operand", "reshape", "transpose", "broadcast"})


def _kept_earlier(
    value: Value, producers: Mapping[Value, Apply | Call], types: Mapping[Value, TensorType]
) -> bool:
    """Whether the cache belongs further up than `value`."""
    chain = list(_upwards(value, producers, types))
    if any(repeats for _, repeats in chain):
        return True
    return any(source.name for source, _ in chain) or (bool(chain) and not value.name)


def _upwards(
    value: Value, producers: Mapping[Value, Apply | Call], types: Mapping[Value, TensorType]
) -> Iterator[tuple[Value, bool]]:
    """The values that a value is a view of, nearest first, and whether a view repeats elements."""
    while True:
        step = producers.get(value)
        if not isinstance(step, Apply) or len(step.inputs) != 1:
            return
        body = step.op.body([types[step.inputs[0]]], step.attrs)
        prims = {expr.prim for expr in body.order()}
        if not prims <= _VIEWS:
            return
        (value,) = step.inputs
        yield value, "broadcast" in prims
