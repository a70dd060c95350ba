"""Steps of a loop that need no state, made for all its rounds at once, before it.

Only emission with kernels asks for it. One product for all positions of a text costs less than one
for each, and so do the gradients of its matrix. A sum of three is put in another order where that
makes two of its terms free of states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, topological
from xg.ir.content import prune
from xg.ir.dim import ONE, Dim
from xg.ir.functions import UNARY
from xg.ir.graph import Apply, Call, Carry, Graph, IRProgram, Loop, Step, Value
from xg.ir.op import Op
from xg.ir.prim import (
    ARITHMETIC,
    COMPARE,
    RANDOM,
    Expr,
    batch_of,
    broadcast,
    concat,
    const,
    cut,
    operand,
    reshape,
)
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Data
from xg.ir.walk import reachable_keys
from xg_kernels.loops import (
    ELEMENTWISE_GLYPHS,
    LoopInCaller,
    LoopSteps,
    in_sizes_of,
    same_symbols,
)

# Find linear recurrences, and compute all but their one step for all rounds at once.
#
# Where ``h_t = a_t ⊙ h_{t-1} + b_t``, all a and b are made for all rounds before the loop, which
# keeps this one step, and what reads the states is made for all of them behind it. Backends have a
# kernel for a loop of this one step.
#
# A scan by doubling makes log2(S) passes over everything and was ten times slower; logarithms of
# the factors can't be 0 or negative. Pieces whose factors overflow run in order, because infinity
# times a state of 0 is not a number.


# The computation of one round of a loop, for all rounds at once: one axis more, in front.


ELEMENTWISE = UNARY | ARITHMETIC | COMPARE | {"pow", "as_float", "where"}
FROM_THE_END = frozenset({"sum", "mean", "max", "cut", "pad"})


class NotForAllRounds(Exception):
    """A step has no form for all rounds at once."""


def for_all_rounds(op: Op, body: Body, apart: Container[int], length: Dim) -> Op:
    """An operator that computes a body for all rounds.

    The operands with numbers in `apart` have the axis of rounds in front, the others all rounds
    share; outputs have it. Raises NotForAllRounds.
    """
    operands = [
        operand(str(expr.name), (length, *expr.shape) if n in apart else expr.shape, expr.kind)
        for n, expr in enumerate(body.operands)
    ]
    made = {id(old): new for old, new in zip(body.operands, operands, strict=True)}
    taken = {id(expr) for n, expr in enumerate(body.operands) if n in apart}
    for expr in body.order():
        if id(expr) in made:
            continue
        if expr.prim in RANDOM:  # each round draws numbers of its own
            raise NotForAllRounds
        args = [made[id(arg)] for arg in expr.args]
        lies = [id(arg) in taken for arg in expr.args]
        made[id(expr)] = _round_by_round(expr, args, lies, length) if any(lies) else expr
        if any(lies):
            taken.add(id(expr))
        elif expr.args:
            made[id(expr)] = replace(expr, args=tuple(args))
    outputs = [
        made[id(out)] if id(out) in taken else broadcast(made[id(out)], (length, *out.shape))
        for out in body.outputs
    ]
    return _computing(op, Body(tuple(operands), tuple(outputs)))


def _computing(op: Op, whole: Body) -> Op:
    """An operator with another body; its gradient is derived from that."""

    def forward(*operands: Expr) -> list[Expr]:
        found = whole.on(operands)
        assert isinstance(found, list)
        return found

    return Op(
        glyph=op.glyph,
        name=op.name,
        family=op.family,
        forward=forward,
        data=tuple(
            Data(str(e.name), "int" if e.kind != "float" else "any") for e in whole.operands
        ),
        outputs=op.output_names(len(whole.outputs)),  # which no operand has
        meaning=op.meaning,
        formula=op.formula,
        gradient=op.gradient,
        source=op.source,
    )


def _round_by_round(expr: Expr, args: list[Expr], has_axis: Sequence[bool], length: Dim) -> Expr:
    """Compute an expression for all rounds; `has_axis` flags arguments with it."""
    shape = (length, *expr.shape)
    if expr.prim in ELEMENTWISE:
        args = [_of_rank(a, expr.rank) if has else a for a, has in zip(args, has_axis, strict=True)]
        return replace(expr, args=tuple(args), shape=shape)
    if expr.prim == "reshape":
        return reshape(args[0], shape)
    if expr.prim == "broadcast":
        return broadcast(_of_rank(args[0], expr.rank), shape)
    if expr.prim == "transpose":
        order = (0, *(axis % expr.rank + 1 for axis in expr.axes("order")))
        return replace(expr, args=tuple(args), shape=shape, attrs=(("order", order),))
    if expr.prim == "contract":
        spec = _with_rounds(str(expr.attr("spec")), has_axis)
        return replace(expr, args=tuple(args), shape=shape, attrs=(("spec", spec),))
    if expr.prim == "concat":
        whole = [
            arg if has else broadcast(reshape(arg, (ONE, *arg.shape)), (length, *arg.shape))
            for arg, has in zip(args, has_axis, strict=True)
        ]
        return replace(expr, args=tuple(whole), shape=shape)
    if expr.prim == "gather" and list(has_axis) == [False, True] and not batch_of(expr):
        return replace(expr, args=tuple(args), shape=shape)
    if expr.prim in FROM_THE_END and _counted_from_the_end(expr):
        return replace(expr, args=tuple(args), shape=shape)
    raise NotForAllRounds


def _of_rank(arg: Expr, rank: int) -> Expr:
    """Reshape an operand of all rounds to a rank, with axes of size 1 after the round axis."""
    return reshape(arg, (arg.shape[0], *(ONE,) * (rank + 1 - arg.rank), *arg.shape[1:]))


def _with_rounds(spec: str, lies: Sequence[bool]) -> str:
    """Add a letter for the round axis to a product, first on each side that has the axis."""
    inputs, out = spec.split("->")
    new = next(letter for letter in "zyxwvutsrqp" if letter not in spec)
    sides = [new + s if lie else s for s, lie in zip(inputs.split(","), lies, strict=True)]
    return f"{','.join(sides)}->{new}{out}"


def _counted_from_the_end(expr: Expr) -> bool:
    given = dict(expr.attrs)
    axes = given["axes"] if "axes" in given else (given["axis"],)
    assert isinstance(axes, tuple)
    return all(isinstance(axis, int) and axis < 0 for axis in axes)


# An expression as a factor times a state, plus a summand.


Linear = tuple[Expr | None, Expr | None]
UNIT: Final = const(1.0)


def linear(whole: Expr, state: Expr) -> Linear:
    """Return a and b of ``a ⊙ h + b``, None for a 0; raises NotForAllRounds if not linear."""
    parts: dict[int, Linear] = {id(state): (UNIT, None)}
    for expr in topological([whole]):
        if id(expr) in parts:
            continue
        args = [parts[id(arg)] for arg in expr.args]
        if all(factor is None for factor, _ in args):
            parts[id(expr)] = (None, expr)
        elif expr.shape != state.shape:
            raise NotForAllRounds
        else:
            parts[id(expr)] = _combine_terms(expr, args)
    return parts[id(whole)]


def _combine_terms(expr: Expr, args: Sequence[Linear]) -> Linear:
    """Return the a and b of an expression from the pairs of its arguments."""
    match expr.prim, args:
        case "add", ((a, b), (c, d)):
            return _sum(a, c), _sum(b, d)
        case "sub", ((a, b), (c, d)):
            return _sum(a, -c if c else None), _sum(b, -d if d else None)
        case "neg", ((a, b),):
            return -a if a else None, -b if b else None
        case "mul", ((None, c), (a, b)) | ((a, b), (None, c)) if c and a:
            return (c if _is_const(a) else a * c), b * c if b else None
        case "div", ((a, b), (None, c)) if c and a:
            return a / c, b / c if b else None
        case (("broadcast" | "reshape"), ((a, b),)):  # of the shape of the state: nothing changes
            return a, b
        case _:
            raise NotForAllRounds


def _sum(a: Expr | None, b: Expr | None) -> Expr | None:
    return a + b if a and b else a or b


def _is_const(expr: Expr) -> bool:
    """Return whether a factor is the constant 1, and not another constant such as 2."""
    return expr.prim == "const" and expr.attr("value") == UNIT.attr("value")


def narrow(factor: Expr, rank: int) -> Expr:
    """A factor before it is repeated, with as many axes as the state."""
    while factor.prim == "broadcast":
        factor = factor.args[0]
    return of_rank(factor, rank)


def of_rank(expr: Expr, rank: int) -> Expr:
    """Broadcast an expression to a rank with leading axes of size 1."""
    return broadcast(expr, (*(ONE,) * (rank - expr.rank), *expr.shape))


# Values and steps of a round of a loop, and those of the caller that stand for all rounds.


@dataclass(slots=True)
class Lifting(LoopInCaller):
    """Compute the values of one round for all rounds, in the caller.

    `above` has for values of a round those of the caller; those in `apart` have the axis of rounds
    in front. `made` are the steps of the caller; `states` are the values that rounds hand on.
    """

    above: dict[Value, Value] = field(default_factory=dict[Value, Value])
    apart: set[Value] = field(default_factory=set[Value])
    made: list[Step] = field(default_factory=list[Step])
    makers: dict[Value, Step] = field(default_factory=dict[Value, Step])
    waiting: set[Value] = field(default_factory=set[Value])
    states: set[Value] = field(default_factory=set[Value])

    def _lift_operands(self) -> None:
        """Move the round axis of scan inputs to the start; keep shared operands as they are."""
        loop = self.loop
        ports = zip(self.callee.inputs, self.call.inputs, loop.inputs, strict=True)
        for port, value, axis in [*ports][: len(loop.inputs) - loop.states]:
            self.above[port] = value
            if axis is not None:
                place = len(self.types[value].shape) + axis
                rest = [n for n in range(len(self.types[value].shape)) if n != place]
                self.above[port] = self._transpose_value(value, (place, *rest))
                self.apart.add(port)

    def _above(self, value: Value) -> Value:
        """The value of all rounds for one of a round; made, if it is not there."""
        if value in self.above:
            return self.above[value]
        if value in self.waiting:  # states that need one another
            raise NotForAllRounds
        self.waiting.add(value)
        if value in self.states:
            return self._state(value)
        if value in self.params():
            self.above[value] = self.param(value)
            return self.above[value]
        step = self.makers.get(value)
        if not isinstance(step, Apply) or len([v for v in step.outputs if v.role != "cache"]) > 1:
            raise NotForAllRounds
        return self._lift_step(step, value)

    def _state(self, value: Value) -> Value:
        """Raise NotForAllRounds; a subclass may return the state of every round."""
        raise NotForAllRounds

    def _lift_step(self, step: Apply, value: Value) -> Value:
        """A step for all rounds; for those that share all its operands once."""
        inputs = [self._above(operand) for operand in step.inputs]
        places = [n for n, operand in enumerate(step.inputs) if operand in self.apart]
        body = step.body(self.callee.types)
        if not places:
            for_all_rounds(step.op, body, (), self.loop.length)  # it must not draw
            return self._emit(step.op, inputs, step.attrs, value)
        self.apart.add(value)
        if step.op.glyph in ELEMENTWISE_GLYPHS and not {"axis", "axes"} & set(step.attrs):
            whole = [
                above if own in self.apart else self._repeat_value(above)
                for own, above in zip(step.inputs, inputs, strict=True)
            ]
            return self._emit(step.op, whole, step.attrs, value)
        if step.op.glyph == "•":
            sides, out = str(step.attrs["spec"]).split("->")
            new = next(letter for letter in "zyxwv" if letter not in sides)
            each = [new * (n in places) + side for n, side in enumerate(sides.split(","))]
            return self._emit(step.op, inputs, {"spec": f"{','.join(each)}->{new}{out}"}, value)
        first = Body(body.operands, body.outputs[:1])
        op = for_all_rounds(step.op, first, places, self.loop.length)
        return self._emit(op, inputs, {}, value)

    def _emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, value: Value) -> Value:
        """A step of the caller in the place of what makes a value in each round."""
        made = Value(value.name, "edge", value.span)
        self.above[value] = made
        self._step(op, inputs, attrs, made, self.callee.types[value].range)
        return made

    def _step(
        self,
        op: Op,
        inputs: Sequence[Value],
        attrs: Attrs,
        made: Value,
        below: Dim | None = None,
    ) -> None:
        types = [self.types[value] for value in inputs]
        body = op.body(types, attrs)
        self.types[made] = TensorType(body.outputs[0].shape, below)
        caches = tuple(Value(name, "cache", made.span) for name in body.caches)
        for cache, out in zip(caches, body.outputs[1:], strict=True):
            self.types[cache] = TensorType(out.shape)
        place = f"{self.call.path}.{made.name or len(self.made)}"
        outputs = (made, *caches)
        self.made.append(Apply(op, tuple(inputs), outputs, attrs, made.span, place))

    def _repeat_value(self, value: Value) -> Value:
        """A value that all rounds share, once for each."""
        shape = self.types[value].shape
        atoms = (self.loop.length, *shape)
        attrs = {"operand": shape, "atoms": atoms, "new": (0,), "shape": atoms}
        made = Value(value.name, "edge", value.span)
        self._step(ops.table()["BC"], [value], attrs, made)
        return made

    def _transpose_value(
        self, value: Value, order: tuple[int, ...], out: Value | None = None
    ) -> Value:
        """A value with its axes in another order."""
        if out is None and order == tuple(range(len(order))):
            return value
        made = out or Value(value.name, "edge", value.span)
        self._step(ops.table()["T"], [value], {"order": order}, made, self.types[value].range)
        return made


MOVES: Final = frozenset({"BC", "⊙", "scale"})  # what is written into a and b, if read once


def _round(a: Expr, b: Expr, h: Expr) -> Expr:
    return a * h + b


RECURRENCE: Final = Op(
    glyph="Recurrence",
    name="recurrence",
    family="multiply",
    data=(Data("a"), Data("b"), Data("h")),
    forward=_round,
    derived=True,
    meaning="a state times a factor, and a summand",
    formula="h_t = a_t ⊙ h_{t-1} + b_t",
    gradient="da_t = dh_t ⊙ h_{t-1}, db_t = dh_t, dh_{t-1} = a_t ⊙ dh_t",
)


@dataclass(slots=True)
class Unrolled(Lifting):
    """A loop over linear recurrences, while it is taken apart; `callees` grow."""

    callees: dict[str, Graph] = field(default_factory=dict[str, Graph])
    reads: Counter[Value] = field(default_factory=Counter[Value])

    def steps(self) -> list[Step] | None:
        """The steps in the place of the loop; None where it is no linear recurrence."""
        callee = self.callee
        self.makers = {value: step for step in callee.steps for value in step.outputs}
        self.reads = Counter(value for step in callee.steps for value in step.inputs)
        self.reads.update([*callee.outputs, *(carry.next for carry in callee.carries)])
        self.states = {v for carry in callee.carries for v in (carry.past, carry.next)}
        if not callee.carries or len(callee.steps) > 200:
            return None
        try:
            self._lift_operands()
            for carry in callee.carries:
                self._above(carry.next)
            visible = len(callee.outputs) - self.loop.states
            for number, value in enumerate(callee.outputs[:visible]):
                self._give(value, self.call.outputs[number], self.loop.outputs[number])
            if not {v for step in self.made for v in step.outputs}.issuperset(self.call.outputs):
                raise NotForAllRounds  # a state that rounds only fill has a last value, too
        except NotForAllRounds:
            return None
        return self.made

    def _give(self, value: Value, out: Value, axis: int | None) -> None:
        """A result, with the axis where the loop puts it."""
        found = self._above(value)
        if axis is None or value not in self.apart:
            raise NotForAllRounds
        rank = len(self.types[found].shape)
        rest = [*range(1, rank)]
        rest.insert(rank + axis, 0)
        self._transpose_value(found, tuple(rest), out)

    def _state(self, value: Value) -> Value:
        """Return the state of every round, from before or after the round."""
        for carry in self.callee.carries:
            if value is carry.next:
                self._recur(carry)
                return self.above[value]
            if value is carry.past:
                return self._before(carry)
        raise NotForAllRounds

    def _recur(self, carry: Carry) -> None:
        """Emit the loop of one state: it reads factors and summands, and returns every state."""
        leaves: dict[Value, Expr] = {}
        state = operand("h", self.callee.types[carry.past].shape)
        composed = {carry.past: state}
        factor, summand = linear(
            self._compose_value(carry.next, carry.past, composed, leaves), state
        )
        if factor is None:
            raise NotForAllRounds
        a = self._part("factor", narrow(factor, state.rank), leaves)
        summand = summand or const(0.0)
        b = self._part("summand", broadcast(of_rank(summand, state.rank), state.shape), leaves)
        after = carry.next
        number = self.callee.carries.index(carry)
        start = self.call.inputs[len(self.call.inputs) - self.loop.states + number]
        last = self.call.outputs[len(self.call.outputs) - self.loop.states + number]
        every = Value(after.name, "edge", after.span)
        self.types[every] = TensorType((self.loop.length, *state.shape))
        callee = self._callee(carry, a, b)
        rank = len(state.shape) + 1
        self.callees[callee.key] = callee
        self.made.append(
            replace(
                self.call,
                callee=callee.key,
                inputs=(a, b, start),
                outputs=(every, last),
                saved=Value(None, "saved", self.call.span),
                loop=replace(
                    self.loop, inputs=(-rank, -rank, None), outputs=(-rank, None), states=1
                ),
            )
        )
        self.above[after] = every
        self.apart.add(after)

    def _callee(self, carry: Carry, a: Value, b: Value) -> Graph:
        """The round that is left: one step."""
        span = carry.next.span
        inputs = (Value("a", "input", span), Value("b", "input", span), carry.past)
        after = Value(carry.next.name or "y", "edge", span)
        shapes = [self.types[a].shape[1:], self.types[b].shape[1:], self.types[b].shape[1:]]
        types = {v: TensorType(shape) for v, shape in zip(inputs, shapes, strict=True)}
        params = {p.value: p.type for p in self.callee.params}
        types |= {**params, after: TensorType(shapes[2])}
        return prune(
            replace(
                self.callee,
                key=f"{self.callee.key}, recurrence {len(self.callees)}",
                inputs=inputs,
                outputs=(after, after),
                output_names=("y", carry.name),
                output_types=(types[after],) * 2,
                steps=(Apply(RECURRENCE, inputs, (after,), {}, span),),
                carries=(replace(carry, next=after),),
                types=types,
                foreign=(),
                claims=(),
                aliases=(),
            )
        )

    def _before(self, carry: Carry) -> Value:
        """The states that the rounds find: the first one, and of the others all but the last."""
        every = self._above(carry.next)
        if carry.next not in self.apart:  # every round leaves the same, such as a shared operand
            every = self._repeat_value(every)
        number = self.callee.carries.index(carry)
        start = self.call.inputs[len(self.call.inputs) - self.loop.states + number]
        length, rank = self.loop.length, len(self.types[every].shape)
        turned = self.loop.reverse

        def forward(states: Expr, start: Expr) -> Expr:
            first = reshape(start, (ONE, *start.shape))
            one, all_ = ONE, length
            if turned:
                return concat([cut(states, -rank, one, all_), first], -rank)
            return concat([first, cut(states, -rank, one - one, all_ - one)], -rank)

        op = Op(
            glyph="past",
            name="past_states",
            family="layout",
            forward=forward,
            data=(Data("states"), Data("start")),
            derived=True,
            meaning="the state that each round finds",
            gradient="the part of each state",
        )
        self.apart.add(carry.past)
        return self._emit(op, [every, start], {}, carry.past)

    def _compose_value(
        self, value: Value, past: Value, known: dict[Value, Expr], leaves: dict[Value, Expr]
    ) -> Expr:
        """A value as an expression of the state before it, and of values that need no state."""
        if value in known:
            return known[value]
        step = self.makers.get(value)
        if not isinstance(step, Apply) or not (
            step.op.glyph == "BC"
            or (step.op.glyph in MOVES and self.reads[value] == 1)
            or self._needs(value, past)
        ):
            known[value] = operand(f"x_{len(leaves) + 1}", self.callee.types[value].shape)
            leaves[value] = known[value]
            return known[value]
        body = step.body(self.callee.types)
        inputs = [self._compose_value(v, past, known, leaves) for v in step.inputs]
        found = Body(body.operands, body.outputs[:1]).on(inputs)
        assert isinstance(found, list)
        known[value] = found[0]
        return found[0]

    def _needs(self, value: Value, past: Value) -> bool:
        """Whether a value needs the state of the round before."""
        pending, seen = [value], set[Value]()
        while pending:
            each = pending.pop()
            if each is past:
                return True
            if each not in seen and each in self.makers:
                seen.add(each)
                pending += self.makers[each].inputs
        return False

    def _part(self, name: str, part: Expr, leaves: dict[Value, Expr]) -> Value:
        """The factors or the summands of all rounds."""
        mentioned = {id(expr) for expr in topological([part])}
        used = {value: leaf for value, leaf in leaves.items() if id(leaf) in mentioned}
        inputs = [self._above(value) for value in used]
        apart = [number for number, value in enumerate(used) if value in self.apart]
        if part.prim == "operand" and apart:
            return inputs[0]
        op = Op(
            glyph=name,
            name=f"recurrence {name}",
            family="multiply",
            forward=lambda: None,
            meaning=f"the {name} of a recurrence",
            gradient="the product rule",
        )
        op = for_all_rounds(op, Body(tuple(used.values()), (part,)), apart, self.loop.length)
        made = Value(None, "edge", self.call.span)
        self._step(op, inputs, {}, made)
        return made


def hoist(program: IRProgram) -> IRProgram:
    """The program with what its loops can do before they begin."""
    graphs: dict[str, Graph] = {}
    for key, graph in program.graphs.items():
        graphs[key] = _hoist_from_loops(graph, graphs)
    kept = {key: graphs[key] for key in reachable_keys(graphs, program.entry)}
    return replace(program, graphs=kept, backwards={})


def _hoist_from_loops(graph: Graph, graphs: dict[str, Graph]) -> Graph:
    """A graph whose loops are relieved; the callees that remain of these join the `graphs`."""
    types, steps = dict(graph.types), list[Step]()
    foreign = {str(value.name): value for value in graph.foreign}
    for step in graph.steps:
        found = None
        if isinstance(step, Call) and step.loop:
            unrolled = _unroll_loop(step, step.loop, graph, graphs, types, foreign)
            if unrolled is not None:
                steps += unrolled
                continue
            if same_symbols(step):
                found = LoopSteps(
                    step, step.loop, graphs[step.callee], types, foreign
                ).hoist_steps()
        if found is None:
            steps.append(step)
            continue
        before, call, callee = found
        key = f"{callee.key}, relieved {len(graphs)}"
        graphs[key] = replace(callee, key=key)
        steps += [*before, replace(call, callee=key)]
    if tuple(steps) == graph.steps:
        return graph
    lent = tuple(foreign.values())
    return prune(replace(graph, steps=tuple(steps), types=types, foreign=lent))


def _unroll_loop(
    call: Call,
    loop: Loop,
    caller: Graph,
    graphs: dict[str, Graph],
    types: dict[Value, TensorType],
    foreign: dict[str, Value],
) -> list[Step] | None:
    """Unroll a loop over linear recurrences; change nothing and return None for other loops."""
    spelled = in_sizes_of(caller, call, graphs[call.callee])
    if spelled is None:
        return None
    call, callee = spelled
    unrolled = Unrolled(call, loop, callee, dict(types), dict(foreign), callees=dict(graphs))
    steps = unrolled.steps()
    if steps is not None:
        types |= unrolled.types
        foreign |= unrolled.foreign
        graphs |= unrolled.callees
    return steps
