"""The graph of a block: values on edges, operators and calls as nodes.

An `IRProgram` holds one graph per *instance* of a block, which has its options and numbers chosen.
Every instance is typed once, in its own symbols; calls only rename. A repeated block is one call
with a count, so nothing grows with the number of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.dim import Dim, Scalar
from xg.ir.op import Op
from xg.ir.placement import CONSTANT, Cuts, Placement, PlacementRequest, Stage
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.ir.use import Attrs, AxisMap

if TYPE_CHECKING:
    from xg.ir.placement import Memory, Plan


# A call that is made once for each position of an axis: recurrences, and maps over an axis.


@dataclass(frozen=True, slots=True)
class Loop:
    """How a looped call takes its operands apart and puts its results together.

    It makes `length` rounds with the same parameters, the last position first if `reverse`.
    `inputs` has for every input the axis of which round i is given position i, counted from the
    end; `outputs` for every output the axis along which the rounds' results are stacked. None is an
    input that all rounds share, and the output of the last round. The last `states` inputs and
    outputs go round: what a round leaves there is what the next one is given.
    """

    length: Dim
    reverse: bool
    inputs: tuple[int | None, ...] = ()
    outputs: tuple[int | None, ...] = ()
    states: int = 0


def drop_axis(type_: TensorType, axis: int | None) -> TensorType:
    """Return the type of one position along an axis counted from the end; None drops no axis."""
    if axis is None:
        return type_
    shape = list(type_.shape)
    del shape[axis]
    return TensorType(tuple(shape), type_.range)


def stack_along(type_: TensorType, axis: int | None, length: Dim) -> TensorType:
    """Return the type of `length` results along an axis of the result, counted from the end."""
    if axis is None:
        return type_
    place = len(type_.shape) + 1 + axis
    shape: Shape = (*type_.shape[:place], length, *type_.shape[place:])
    return TensorType(shape, type_.range)


def meant_axis(named: Sequence[str | None], shape: Sequence[Dim], along: int) -> Dim | None:
    """The axis that a loop was likely meant to go over.

    It goes `along` an axis that a port names among the axes of a round; without another one the
    operand's `shape` has the port's names.
    """
    if None in named or shape[along].name not in named:
        return None
    for place, dim in enumerate(shape, -len(shape)):
        rest = [other.name for at, other in enumerate(shape, -len(shape)) if at != place]
        if place != along and rest == [*named]:
            return dim
    return None


Role = Literal["input", "param", "state", "edge", "cache", "saved", "cotangent"]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor on an edge. Identity is equality.

    `name` is the author's, in ASCII; a parameter's is its path below the block (``attn.W_Q``).
    `declared` is the type as the file writes it, where it does. A value of role "saved" is not a
    tensor but everything that one call keeps for its backward pass. Of a frozen parameter or input
    no gradient is taken.
    """

    name: str | None
    role: Role
    span: Span
    declared: TensorType | None = None
    frozen: bool = False


LAST_ROUND: Final = "last"  # of a repeat, in the path of a `MeantZero`

Start = str | Scalar | tuple[Scalar, Scalar]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter and what it starts as.

    That is ``ones`` or ``zeros``, normal with a deviation, or uniform between two numbers, which
    are one where it starts as a number.
    """

    value: Value
    type: TensorType
    start: Start


@dataclass(frozen=True, slots=True)
class State:
    """A value that a call takes from the step before, `past`, and leaves to the next one, `next`.

    Like a parameter it belongs to a call and has a path: ``layers.3.attn.K``.
    """

    name: str
    past: Value
    next: Value


@dataclass(frozen=True, slots=True)
class Carry:
    """A state of a block that is called over an axis: what it finds as `past`, it leaves as `next`.

    Both are an input and an output of its graph. It begins as `start` where no value is given.
    """

    name: str
    past: Value
    next: Value
    start: Scalar


@dataclass(frozen=True, slots=True)
class Remark:
    """A text at a place in figures, and whether the place is highlighted.

    `name` is an edge's or a call's; the place is the node that makes the edge if it `is_node`.
    """

    name: str
    is_node: bool
    text: str
    highlights: bool


@dataclass(frozen=True, slots=True)
class MeantZero:
    """`expect dW = 0 "why"` in a block: the gradient of W is zero, whatever arrives.

    `path` leads to W from the block, through calls as `layers.0.W`, `layers.last.W`. The claim is
    about numbers, and `xg verify` proves it. `Backward.zeros` is about structure: nothing flows
    there, so the compiler puts a zero in itself. The two may meet in one value; neither needs the
    other, and no code depends on what a file expects.
    """

    path: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Pending:
    """Properties of a use that only shape inference can determine."""

    axes: AxisMap | None = None
    targets: tuple[Shape | None, ...] = (None,)
    peer: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """One use of an operator. `outputs` are the visible ones, then the caches.

    `place` is its name in the block, from which random numbers are drawn. `attrs` are complete
    after shape inference. In a backward graph `origin` is the step that this one differentiates;
    the sum of a fan-out has none. `parts` are the steps that a fused one replaces. A forward step
    that a backward graph runs `again` makes the values of the forward graph. `traced` and
    `adjoints` are what `body` and `adjoint` found, and of which operator and attributes: copies of
    the step have the same tables.
    """

    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs
    span: Span
    place: str = ""
    pending: Pending = field(default_factory=Pending)
    origin: Apply | None = None
    parts: tuple[Apply, ...] = ()
    again: bool = False
    traced: dict[tuple[TensorType, ...], tuple[Op, Attrs, Body]] = field(
        default_factory=dict[tuple[TensorType, ...], "tuple[Op, Attrs, Body]"],
        repr=False,
        compare=False,
    )
    adjoints: dict[tuple[tuple[TensorType, ...], tuple[str, ...]], tuple[Op, Attrs, Apply]] = field(
        default_factory=dict[
            "tuple[tuple[TensorType, ...], tuple[str, ...]]", "tuple[Op, Attrs, Apply]"
        ],
        repr=False,
        compare=False,
    )

    @property
    def reads(self) -> tuple[Value, ...]:
        """Every value that the step needs: its inputs."""
        return self.inputs

    def body(self, types: Mapping[Value, TensorType]) -> Body:
        """The computation of this step; traced once, since every pass and backend looks at it."""
        operands = tuple([types[value] for value in self.inputs])
        known = self.traced.get(operands)
        if known is None or known[0] is not self.op or known[1] is not self.attrs:
            body = self.op.body(operands, self.attrs)
            self.traced[operands] = self.op, self.attrs, body
            return body
        return known[2]

    def adjoint(self, types: Sequence[TensorType], wanted: Sequence[str]) -> Apply:
        """The use of the operator that gives the gradients of the wanted operands.

        It has no values yet: each backward pass replaces them.
        """
        key = tuple(types), tuple(wanted)
        known = self.adjoints.get(key)
        if known is None or known[0] is not self.op or known[1] is not self.attrs:
            op = self.op.adjoint_op(types, self.attrs, wanted)
            numbers = {name: n for name, n in self.attrs.items() if isinstance(n, Scalar)}
            found = Apply(op, (), (), numbers, self.span)
            self.adjoints[key] = self.op, self.attrs, found
            return found
        return known[2]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a block under the name `path`, or `count` calls in a row ``path.0``, ``path.1`` …

    In a row, the first input goes round and becomes the output; the others stay the same. The
    number of its `first` round is not 0 in a stage of a pipeline. `saved` represents the saved
    values of the calls. `sizes` are the callee's symbols in the caller's
    sizes: those that the file gives, after shape inference all that are not the program's.

    With a `loop` it is made once for each position of an axis; `starts` are the states that the
    file gives it. Shape inference completes the loop and makes inputs of all states.

    In a backward graph `origin` is the call that this one differentiates: it runs the backward
    graph of the callee on the values that that call saved, the rounds of a row in reverse.
    Cotangents of the callee's float outputs go in, gradients of its float inputs come out. Of a row
    and of a loop `carried` says which of them go round: each pair is the number of a cotangent and
    of the gradient from which a round before gets it. One that runs the forward graph `again` makes
    what that call saved.
    """

    callee: str
    path: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    saved: Value
    span: Span
    count: Dim | None = None
    sizes: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    origin: Call | None = None
    loop: Loop | None = None
    starts: Mapping[str, Value] = field(default_factory=dict[str, Value])
    again: bool = False
    first: int = 0
    carried: tuple[tuple[int, int], ...] = ()

    @property
    def rounds(self) -> Dim | None:
        """How many times the callee runs, in a row or over an axis; None for a plain call."""
        return self.loop.length if self.loop else self.count

    @property
    def reads(self) -> tuple[Value, ...]:
        """Every value of the calling graph that the call needs."""
        return self.inputs if self.origin is None else (*self.inputs, self.saved)


Step = Apply | Call
Port = tuple[Value, int | None]  # a value of a callee, and the axis by which a loop takes it


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """One pass of one instance of a block: the forward pass, unless it is a `Backward`.

    `foreign` are parameters of its calls that the block reads itself (a tied table); `claims` are
    the types that its labels promise, until inference has checked them; `states` are kept from one
    step to the next, `carries` go round where it is called over an axis. `layouts` are the cuts of
    the values whose shape in the file is divided by mesh axes: types are always global. `aliases`
    are labels of values that have a name already, where a choice of options leaves out the nodes
    between. `mentions` are the dims in its text. `placement_requests` are the requested placements
    of values by mesh axis, `placements` the actual ones. `memory` is what a plan says about values
    by name, and about all of them: whether the backward pass computes them again. `file` is the
    number of its file among those of the program. `remarks` are for figures. `meant_zeros` are
    the gradients that the file expects to be zero, which `xg verify` proves. `unused` are the
    parameters that no chain reads, of a graph that is refused. `reusable` are the values that the
    one step that reads them may write into. `derived` are its backward passes, by the inputs that a
    repeat or a loop carries, and by those of the graphs that it calls: several programs have it.
    """

    key: str
    block: str
    title: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    output_names: tuple[str, ...]
    output_types: tuple[TensorType, ...]
    params: tuple[Param, ...]
    steps: tuple[Step, ...]
    sizes: Sizes
    span: Span
    foreign: tuple[Value, ...] = ()
    claims: tuple[tuple[Value, TensorType, Span], ...] = ()
    states: tuple[State, ...] = ()
    carries: tuple[Carry, ...] = ()
    types: Mapping[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    layouts: Mapping[Value, Cuts] = field(default_factory=dict[Value, Cuts])
    aliases: tuple[tuple[str, Value], ...] = ()
    mentions: tuple[str, ...] = ()
    placement_requests: Mapping[Value, Mapping[str, PlacementRequest]] = field(
        default_factory=dict[Value, Mapping[str, PlacementRequest]]
    )
    placements: Mapping[Value, Placement] = field(default_factory=dict[Value, Placement])
    memory: Mapping[str, Memory] = field(default_factory=dict[str, "Memory"])
    file: int = 0
    remarks: tuple[Remark, ...] = ()
    meant_zeros: tuple[MeantZero, ...] = ()
    unused: tuple[Param, ...] = ()
    reusable: tuple[Value, ...] = ()
    derived: dict[tuple[tuple[Value, ...], tuple[Backward, ...]], Backward] = field(
        default_factory=dict["tuple[tuple[Value, ...], tuple[Backward, ...]]", "Backward"],
        init=False,
        compare=False,
    )
    _calls: list[tuple[Call, ...]] = field(default_factory=list["tuple[Call, ...]"], init=False)

    @property
    def block_id(self) -> tuple[int, str]:
        """Its block, which keeps this while its text changes."""
        return self.file, self.block

    def names(self) -> Iterator[tuple[str, Value]]:
        """Every name of the block's text, with the value that it has in this choice of options."""
        outputs = (value for step in self.steps for value in step.outputs)
        params = (param.value for param in self.params)
        for value in (*self.inputs, *params, *outputs):
            if value.name is not None and value.role != "cache":
                yield value.name, value
        yield from self.aliases

    @property
    def calls(self) -> tuple[Call, ...]:
        """The steps that are calls; found once, since every walk over a program asks for them."""
        if not self._calls:
            self._calls.append(tuple(step for step in self.steps if isinstance(step, Call)))
        return self._calls[0]

    @property
    def is_cut(self) -> bool:
        """Whether its text mentions ranks: by a shape that is divided, or a collective."""
        families = (step.op.family for step in self.steps if isinstance(step, Apply))
        return bool(self.layouts) or "collective" in families

    def param_values(self) -> Iterator[Value]:
        """Yield every parameter that the steps read, from the block and from its calls."""
        yield from (param.value for param in self.params)
        yield from self.foreign

    def __repr__(self) -> str:
        taken = ", ".join(str(value.name) for value in self.inputs)
        given = ", ".join(self.output_names)
        return f"<{type(self).__name__} {self.key}({taken}) -> {given}, {len(self.steps)} steps>"

    def named_calls(self) -> Iterator[Call]:
        """The first call under every name: later ones share its parameters."""
        first: dict[str, Call] = {}
        for call in self.calls:
            first.setdefault(call.path, call)
        yield from first.values()

    def shape(self, value: Value) -> Shape:
        """A value's shape as people should read it: as written, or with sizes named."""
        declared = value.declared
        if declared and (not self.sizes.mesh or self._fits(declared, value)):
            return declared.shape
        return self.sizes.fold_shape(self.types[value].shape)

    def _fits(self, declared: TensorType, value: Value) -> bool:
        """Whether a value is still as it was written: on a rank it may be a part of that."""
        return self.sizes.expand_type(declared).shape == self.types[value].shape


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Backward(Graph):
    """The backward pass of one instance: a graph over cotangents and saved forward values.

    Cotangents of the float outputs are its inputs, the gradients of the float inputs its outputs;
    `saved` are the forward values that its steps read besides parameters. `operands` are inputs of
    the forward pass that are not saved: the caller's backward pass makes them again, and hands them
    over after the cotangents. Gradients of parameters
    belong to paths, as parameters do, and are no outputs. `cotangents` and `gradients` find both by
    the forward value; `of` names for every cotangent, whole or part of a sum, its forward value,
    and `totals` the whole one of every forward value that has one. `rows` are values that a loop
    gives its caller of all rounds, each with the axis along which it stacks them. `zeros` are the
    forward inputs whose gradient is zero by structure: nothing flows through them, and a repeat or
    a loop still hands a gradient from one round to the round before.
    """

    forward: Graph
    saved: tuple[Value, ...]
    cotangents: Mapping[Value, Value]
    gradients: Mapping[Value, Value]
    of: Mapping[Value, Value]
    totals: Mapping[Value, Value]
    rows: tuple[Port, ...] = ()
    zeros: frozenset[Value] = frozenset()
    operands: tuple[Value, ...] = ()

    def param_values(self) -> Iterator[Value]:
        """Every parameter of the forward pass: its steps may read them all."""
        return self.forward.param_values()

    def param_gradients(self) -> Iterator[tuple[Value, Value]]:
        """Every parameter that has a gradient, with this."""
        for value in self.forward.param_values():
            if value in self.gradients:
                yield value, self.gradients[value]


@dataclass(frozen=True, slots=True, eq=False)
class IRProgram:
    """All graphs of one compilation, callees first; the last is the entry.

    `mesh` holds the declared axes that have a size, ordered so that the outer axis of a shared cut
    comes first; `plan` is the requested plan, None for a single device and for programs that write
    their placements themselves. `others` are further entries: programs that are checked together.
    `stage` is set where it is a part of a pipeline. A `partial` program reads some parameters of
    the program that it is a part of, as an encoder before its decoder's steps: it takes all.
    `lengths` are the sizes that are padded, each without its padding: its number is with it.
    `communicators` are the groups that all ranks make in this order before they start; it is empty
    until the program is that of one rank (`xg.ir.moves`).
    """

    graphs: Mapping[str, Graph]
    entry: str
    backwards: Mapping[str, Backward] = field(default_factory=dict[str, Backward])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    plan: Plan | None = None
    others: tuple[str, ...] = ()
    stage: Stage | None = None
    partial: bool = False
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])
    communicators: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = map(repr, (*self.graphs.values(), *self.backwards.values()))
        return "\n  ".join((f"<Program of {len(self.graphs)} graphs, callees first>", *lines))

    @property
    def all_numbers(self) -> dict[str, int]:
        """The numbers of the entry's sizes."""
        return {**self.main.sizes.defaults, **self.numbers}

    @property
    def entries(self) -> tuple[str, ...]:
        """The keys of the graphs that nothing of the program has to call."""
        return (self.entry, *self.others)

    @property
    def is_parallel(self) -> bool:
        """Whether it is to run on several ranks: by its plan, or as the file is written."""
        return self.plan is not None or any(graph.is_cut for graph in self.graphs.values())

    def callee(self, call: Call) -> Graph:
        """The graph that a call runs."""
        return (self.backwards if call.origin else self.graphs)[call.callee]

    @property
    def main(self) -> Graph:
        """The graph of the block that was compiled."""
        return self.graphs[self.entry]


def carried_ports(call: Call, callee: Graph) -> tuple[tuple[int, int], ...]:
    """Return which output of a round is which input of the next one, by their numbers.

    Only of what has a gradient: integers have none, nor have values that a plan places as
    constants.
    """
    count = call.loop.states if call.loop else int(call.count is not None)
    outputs = range(len(callee.outputs))[len(callee.outputs) - count :]
    inputs = range(count)
    if call.loop:
        inputs = range(len(callee.inputs) - count, len(callee.inputs))
    return tuple(
        (left, found)
        for left, found in zip(outputs, inputs, strict=True)
        if callee.types[callee.inputs[found]].is_float
        if CONSTANT not in callee.placements.get(callee.inputs[found], {}).values()
    )


def gradient_ports(call: Call, backward: Backward) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the outputs of a callee whose cotangents its backward pass takes, by their numbers.

    So too the inputs whose gradients it gives. A value that is a result twice has one cotangent,
    but two in a loop: ``next h = y`` may be stacked as y, while h is what the last round left.
    """
    outputs = backward.forward.outputs
    taken = [n for n, value in enumerate(outputs) if value in backward.cotangents]
    if call.loop is None:
        taken = [n for n in taken if outputs.index(outputs[n]) == n]
    inputs = enumerate(backward.forward.inputs)
    return tuple(taken), tuple(n for n, value in inputs if value in backward.gradients)


def ports(call: Call, callee: Graph) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The callee's value of every operand and result of a call, and the axis a loop takes it by.

    In the backward pass of a loop cotangents are taken apart as results were stacked, and gradients
    stacked as operands were taken apart. Both cotangents of a result that is there twice have one
    port: a round adds them. Forward inputs that are made again follow the cotangents.
    """
    forward = callee.forward if isinstance(callee, Backward) else callee
    inputs: list[Port] = [(v, None) for v in forward.inputs]
    outputs: list[Port] = [(v, None) for v in forward.outputs]
    if call.loop:
        inputs = [*zip(forward.inputs, call.loop.inputs, strict=True)]
        outputs = [*zip(forward.outputs, call.loop.outputs, strict=True)]
    if not isinstance(callee, Backward):
        return tuple(inputs), tuple(outputs)
    taken, given = gradient_ports(call, callee)
    arriving = [(callee.cotangents[value], axis) for value, axis in (outputs[n] for n in taken)]
    arriving += [(value, None) for value in callee.operands]
    leaving = [(callee.gradients[value], axis) for value, axis in (inputs[n] for n in given)]
    return tuple(arriving), (*leaving, *callee.rows)
