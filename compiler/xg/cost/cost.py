"""Count parameters, FLOPs and saved bytes of a program, exact in the file's symbols.

A block is counted once, in its own symbols; a call costs as much as its callee, a repetition that
times its count. So the table grows with the file, not with the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, topological
from xg.ir.collectives import PRIMITIVES
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.functions import UNARY
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Loop, Value, ports
from xg.ir.placement import FAMILY, is_zigzag, ranks_over
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr
from xg.ir.tensor import Shape
from xg.ir.walk import inside

# Floating-point operations, counted from primitives.
#
# A contraction is a multiplication and an addition for each term of its sums (``2 m n k``); a
# reduction is one operation for each element that goes in; everything elementwise (exp and sqrt
# like a sum) is one for each element that comes out; moving, indexing and repeating elements is
# none. Expressions that no tensor goes into are computed once and are not counted.


ELEMENTWISE: Final = (UNARY | ARITHMETIC | COMPARE | {"pow", "where", "dropout_apply"} | RANDOM) - {
    "stop"
}
REDUCTIONS: Final = frozenset(
    {"sum", "mean", "max", "cumsum", "scatter_add", "overlap", "top", "earlier"}
)
MOVES: Final = frozenset(
    {"operand", "const", "iota", "as_float", "stop", "reshape", "transpose", "broadcast"}
    | {"concat", "cut", "pad", "gather", "pick", "place", "window"}
    | set(PRIMITIVES)
)


def flops(outputs: Sequence[Expr]) -> Dim:
    """Operations that these outputs take, what they share counted once."""
    return sum((_own(expr) for expr in _tensor_expressions(outputs)), ZERO)


def flops_of_step(step: Apply, body: Body) -> Dim:
    """Operations of a step on one rank, of several with different amounts on the one with most.

    Keys that go round a ring meet queries in N rounds. Under a causal mask the last rank has work
    in all of them, and the others wait. In zigzag each has it with 3 of the 4 pairs of chunks in
    the round of its own keys, and with 2 in every other round: 2N + 1 of 4N.
    """
    said = (step.origin or step).attrs
    around = str(said.get("around", ""))
    if not is_zigzag(around) or said["mask"] != "causal":
        return flops(body.outputs)
    ranks = ranks_over(around)
    met = (ranks * 2 + 1) / (ranks * 4)
    exprs = list(_tensor_expressions(body.outputs))
    scores = next(expr.shape[-2:] for expr in exprs if expr.prim == "contract")
    return sum((_own(expr) * (met if _is_of(expr, scores) else ONE) for expr in exprs), ZERO)


def _tensor_expressions(outputs: Sequence[Expr]) -> Iterator[Expr]:
    """Every expression that a tensor goes into."""
    constant: set[int] = set()
    for expr in topological(outputs):
        if expr.prim == "const" or (expr.args and all(id(arg) in constant for arg in expr.args)):
            constant.add(id(expr))
        else:
            yield expr


def _is_of(expr: Expr, scores: Shape) -> bool:
    """Return whether an expression works on attention scores; every product counts."""
    each = expr.args[0] if expr.prim in REDUCTIONS else expr
    return expr.prim == "contract" or each.shape[-2:] == scores


def _own(expr: Expr) -> Dim:
    """Operations of one primitive."""
    if expr.prim == "contract":
        return _contraction(expr)
    if expr.prim in REDUCTIONS:
        return product(expr.args[0].shape)
    if expr.prim in ELEMENTWISE:
        return product(expr.shape)
    if expr.prim in MOVES:
        return ZERO
    raise LookupError(f"nobody has said what the primitive {expr.prim} costs")


def _contraction(expr: Expr) -> Dim:
    left, right = str(expr.attr("spec")).split("->")[0].split(",")
    axes = dict(zip(left, expr.args[0].shape, strict=True))
    axes.update(zip(right, expr.args[1].shape, strict=True))
    return product(axes.values()) * 2


BYTES: Final = {"float32": 4, "float64": 8, "bfloat16": 2, "int": 8, "bool": 1}


@dataclass(frozen=True, slots=True)
class Amount:
    """Parameters, FLOPs of both passes, and bytes kept from the forward pass for the backward.

    `learned` are the parameters that have a gradient: all but the frozen ones. `held` are bytes of
    gathered parameters that a plan holds for all passes of a step.
    """

    parameters: Dim = ZERO
    forward: Dim = ZERO
    backward: Dim = ZERO
    saved: Dim = ZERO
    learned: Dim = ZERO
    held: Dim = ZERO

    def dims(self) -> tuple[Dim, Dim, Dim, Dim]:
        """The amounts that tables show, in order: all but the last two."""
        return self.parameters, self.forward, self.backward, self.saved

    def __add__(self, other: Amount) -> Amount:
        pairs = zip(self._all(), other._all(), strict=True)
        return Amount(*(a + b for a, b in pairs))

    def times(self, count: Dim) -> Amount:
        """The same, `count` times."""
        return self.map(lambda dim: dim * count)

    def substitute(self, symbols: Mapping[str, Dim]) -> Amount:
        """The same in a caller's symbols."""
        return self.map(lambda dim: dim.substitute(symbols))

    def map(self, change: Callable[[Dim], Dim]) -> Amount:
        """The same with every amount changed."""
        return Amount(*map(change, self._all()))

    def _all(self) -> tuple[Dim, ...]:
        return (*self.dims(), self.learned, self.held)


@dataclass(frozen=True, slots=True)
class CostRow:
    """One operator, call or repetition; `line` is None for what the compiler added.

    `callee` is the instance that a call costs `name` times; `step` is what is counted, None for
    what is not one step.
    """

    name: str
    line: int | None
    amount: Amount
    callee: str | None = None
    step: Apply | Call | None = None


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One instance of a block, for one call of it; `kept` are its own values that it saves."""

    graph: Graph
    rows: tuple[CostRow, ...]
    kept: frozenset[Value]

    def __repr__(self) -> str:
        return f"<BlockCost of {self.graph.key}: {self.total}>"

    @property
    def total(self) -> Amount:
        """The sum of the rows."""
        return sum((row.amount for row in self.rows), Amount())


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of a program: of its block first, then of the blocks that it calls."""

    program: IRProgram
    dtype: str
    blocks: tuple[BlockCost, ...]

    def __repr__(self) -> str:
        return f"<Cost of {self.program.main.key}, {self.dtype}: {self.total}>"

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return the known numbers of the sizes in the formulas of the program's block."""
        return self.program.main.sizes.bind(self.program.numbers)

    @property
    def total(self) -> Amount:
        """The cost of one forward and one backward pass of the program."""
        return self.blocks[0].total


def cost(program: IRProgram, dtype: str = "float32") -> Cost:
    """Count a program, floats being of `dtype`; without a backward pass nothing is saved."""
    counted: dict[str, BlockCost] = {}
    for key, graph in program.graphs.items():  # callees come first
        backward = program.backwards.get(key)
        counter = _Counter(
            graph, backward, program.graphs, program.backwards, counted, BYTES[dtype]
        )
        counted[key] = counter.count(is_main=key == program.entry)
    return Cost(program, dtype, tuple(reversed(counted.values())))


@dataclass(slots=True)
class _Counter:
    """Counts one instance."""

    graph: Graph
    backward: Backward | None
    graphs: Mapping[str, Graph]
    backwards: Mapping[str, Backward]
    callees: Mapping[str, BlockCost]
    float_bytes: int
    kept: frozenset[Value] = field(init=False)
    masks: frozenset[Value] = field(init=False)

    def __post_init__(self) -> None:
        """Find the values that backward steps keep: the block's own steps, or its calls'."""
        self.masks = booleans(self.graph)
        saved = self.backward.saved if self.backward else ()
        values = {value for value in saved if value.role != "saved"}
        for call in self.graph.calls:
            if call.saved in self._again():
                continue
            callee = self.graphs[call.callee]
            inner = self.callees[call.callee].kept
            pairs = zip(callee.inputs, call.inputs, strict=True)
            values.update(value for port, value in pairs if port in inner)
        self.kept = frozenset(values)

    def count(self, *, is_main: bool) -> BlockCost:
        """The rows, in the order of the file."""
        rows: list[CostRow] = []
        if is_main:
            inputs = [value for value in self.graph.inputs if value in self.kept]
            rows += (
                [CostRow("inputs", None, Amount(saved=self._bytes_of(inputs)))] if inputs else []
            )
        seen: set[Value | str] = set()
        backward = self._backward_flops()
        for step in self.graph.steps:
            if isinstance(step, Apply):
                rows.append(self._operator(step, backward[step.outputs[0]], seen))
            else:
                rows.append(self._call(step, seen))
        sums = backward[None] + self._shared_gradients() + self._sums_over_rounds()
        if sums != ZERO:
            amount = self._expanded(Amount(backward=sums))
            rows.append(CostRow("sums of gradients", None, amount))
        return BlockCost(self.graph, tuple(rows), self.kept)

    def _operator(self, node: Apply, backward: Dim, seen: set[Value | str]) -> CostRow:
        body = self._body(node)
        values = [value for value in node.outputs if value in self.kept]
        is_held = self._holds_parameter(node)
        amount = self._first_read(node, seen) + Amount(
            forward=flops_of_step(node, body),
            backward=backward,
            saved=ZERO if is_held else self._bytes_of(values),
            held=self._bytes_of(node.outputs) if is_held else ZERO,
        )
        label = node.outputs[0].name
        name = f"{node.op.glyph} : {label}" if label else node.op.glyph
        return CostRow(name, node.span.line, self._expanded(amount), step=node)

    def _first_read(self, step: Apply | Call, seen: set[Value | str]) -> Amount:
        """The parameters of this block that no step before this one reads."""
        own = [p for p in self.graph.params if p.value in step.inputs and p.value not in seen]
        seen.update(param.value for param in own)
        return Amount(
            parameters=_sum(product(param.type.shape) for param in own),
            learned=_sum(product(param.type.shape) for param in own if not param.value.frozen),
        )

    def _holds_parameter(self, node: Apply) -> bool:
        """Whether a step gathers a parameter that a plan holds."""
        name = str(node.inputs[0].name) if node.op.family == FAMILY else ""
        return self.graph.memory.get(name) == "hold"

    def _call(self, call: Call, seen: set[Value | str]) -> CostRow:
        callee, inner = self.graphs[call.callee], self.callees[call.callee]
        once = self._once(call)
        if call.path in seen:
            once = replace(once, parameters=ZERO, learned=ZERO, held=ZERO)
        if self.backward and call not in self._calls_with_backward():
            once = replace(once, backward=ZERO, saved=ZERO)
            inner = replace(inner, kept=frozenset[Value]())
        if call.saved in self._again():
            once = replace(once, backward=once.backward + once.forward, saved=ZERO)
            inner = replace(inner, kept=frozenset[Value]())
        seen.add(call.path)
        rounds = once.times(call.rounds or ONE)
        if call.loop:  # every round reads the same parameters
            rounds = replace(rounds, parameters=once.parameters, learned=once.learned)
        amount = rounds + Amount(saved=self._kept_results(call, callee, inner.kept))
        amount = amount + self._first_read(call, seen)
        name = callee.block
        if call.count is not None:
            name = f"{self.graph.sizes.fold(call.count)} × {name}"
        if call.loop is not None:
            name = f"{name} over {self.graph.sizes.fold(call.loop.length)}"
        return CostRow(name, call.span.line, self._expanded(amount), call.callee, call)

    def _calls_with_backward(self) -> set[Call | None]:
        """Return the calls with a backward pass; calls of frozen blocks on inputs lack one."""
        return {step.origin for step in self.backward.calls} if self.backward else set()

    def _again(self) -> frozenset[Value]:
        """The saved values of calls that the backward pass runs again."""
        steps = self.backward.steps if self.backward else ()
        return frozenset(step.saved for step in steps if isinstance(step, Call) and step.again)

    def _once(self, call: Call) -> Amount:
        """The cost of one of a call's rounds, in the sizes of this block."""
        callee = self.graphs[call.callee]
        total = self.callees[call.callee].total
        return total.substitute(inside(call, self.graph, callee, {}))

    def _kept_results(self, call: Call, callee: Graph, inner: frozenset[Value]) -> Dim:
        """Bytes of results that are kept out here, or as the input of the next round."""
        total = ZERO
        if call.loop:
            return self._kept_states(call, call.loop, callee, inner)
        for value, result in zip(call.outputs, callee.outputs, strict=True):
            if result in inner:
                continue  # counted where it is made
            size = self._bytes_of([value])
            total = total + (size if value in self.kept else ZERO)
            if call.count is not None and callee.inputs[0] in inner:
                total = total + size * (call.count - 1)
        return total

    def _kept_states(self, call: Call, loop: Loop, callee: Graph, inner: frozenset[Value]) -> Dim:
        """Bytes of stacked results that are kept out here, and of states that rounds keep.

        The first state is made out here, and one that a round keeps as its result counts there.
        """
        total = _sum(self._bytes_of([value]) for value in call.outputs if value in self.kept)
        states = slice(len(call.inputs) - loop.states, None)
        going = zip(call.inputs[states], callee.carries, strict=True)
        for value, state in going:
            if state.past in inner and state.next not in inner:
                total = total + self._bytes_of([value]) * (loop.length - 1)
        return total

    def _backward_flops(self) -> dict[Value | None, Dim]:
        """FLOPs of the backward steps by what the forward step they answer, or repeat, makes.

        None: sums of a fan-out, and what answers a cast, which no rank runs.
        """
        dims: dict[Value | None, Dim] = dict.fromkeys([None], ZERO)
        for step in self.graph.steps:
            if isinstance(step, Apply):
                dims[step.outputs[0]] = ZERO
        for step in self.backward.steps if self.backward else ():
            if isinstance(step, Apply):
                source = step if step.again else step.origin
                result = source.outputs[0] if source else None
                answered = result if result in dims else None
                dims[answered] = dims[answered] + flops_of_step(
                    step, self._body(step, self.backward)
                )
        return dims

    def _shared_gradients(self) -> Dim:
        """One addition for each element that a parameter's gradient gets from a further use."""
        gradients = self.backward.gradients if self.backward else dict[Value, Value]()
        foreign = (value for value in self.graph.foreign if value in gradients)
        total = _sum(product(self.graph.types[value].shape) for value in foreign)
        seen: set[str] = set()
        for call in self.graph.calls if self.backward and self.backward.steps else ():
            if call.path in seen:
                total = total + self._once(call).parameters * (call.rounds or ONE)
            elif call.loop:
                total = total + self._once(call).parameters * (call.loop.length - 1)
            seen.add(call.path)
        return total

    def _sums_over_rounds(self) -> Dim:
        """Additions for what every round of a row reads: its gradient is a sum over rounds."""
        total = ZERO
        if self.backward is None:
            return total
        for call in self.backward.calls:
            if call.rounds is None or call.again:
                continue
            _, given = ports(call, self.backwards[call.callee])
            around = {number for _, number in call.carried}
            shapes = (
                self.backward.types[call.outputs[number]].shape
                for number, (_, axis) in enumerate(given)
                if axis is None and number not in around
            )
            total = total + _sum(map(product, shapes)) * (call.rounds - 1)
        return total

    # ---- single facts ---------------------------------------------------------------------------

    def _body(self, step: Apply, of: Graph | None = None) -> Body:
        types = (of or self.graph).types
        return step.body(types)

    def _bytes_of(self, values: Sequence[Value]) -> Dim:
        saved_values = (value for value in values if value.role != "param")
        return _sum(
            bytes_of(value, self.graph, self.float_bytes, self.masks) for value in saved_values
        )

    def _expanded(self, amount: Amount) -> Amount:
        """No defined symbol left, so that like terms are added up."""
        return amount.map(self.graph.sizes.expand)


def booleans(graph: Graph) -> frozenset[Value]:
    """The values that are masks."""
    steps = [step for step in graph.steps if isinstance(step, Apply)]
    values = [(value, out) for step in steps for value, out in _result_pairs(step, graph)]
    return frozenset(value for value, out in values if out.kind == "bool")


def _result_pairs(step: Apply, graph: Graph) -> Iterator[tuple[Value, Expr]]:
    body = step.body(graph.types)
    return zip(step.outputs, body.outputs, strict=True)


def bytes_of(value: Value, graph: Graph, float_bytes: int, masks: frozenset[Value]) -> Dim:
    """The bytes of a value of a graph; `masks` are its `booleans`."""
    type_ = graph.types[value]
    width = float_bytes if type_.is_float else BYTES["int"]
    return product(type_.shape) * (BYTES["bool"] if value in masks else width)


def _sum(dims: Iterable[Dim]) -> Dim:
    return sum(dims, ZERO)
