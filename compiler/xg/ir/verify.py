"""Check the rules that every graph of a program keeps after every pass.

Single assignment, no use before its definition, operands that the operator takes, types that its
body derives again, callees before callers, and no entry for a value that is gone. A violation is a
bug of a pass, never of a file: it names the graph, the step and the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.content import entering, made, values
from xg.ir.dim import as_scalar
from xg.ir.functions import UNARY
from xg.ir.graph import (
    Apply,
    Backward,
    Call,
    Graph,
    IRProgram,
    Step,
    Value,
    carried_ports,
    gradient_ports,
    ports,
    stack_along,
)
from xg.ir.moves import broken_communicators
from xg.ir.placement import CONSTANT, FAMILY
from xg.ir.prim import ARITHMETIC, Expr, ShapeError
from xg.ir.primitive_gradients import STOPPING
from xg.ir.tensor import TensorType
from xg.ir.use import Misuse
from xg.ir.walk import PREPARED, inside

# Check that a backward graph keeps every cotangent: none is lost, swapped or replaced by a zero.
#
# The forward graph says which steps hand a gradient to each of its values. The backward graph has
# to add up just as many parts, and each has to be made for that value. `of` and `totals` of a
# backward graph are the facts that connect the two; every pass after the derivation keeps them.


ADD: Final = "⊕"
ZERO: Final = frozenset({"const", "broadcast"})  # the primitives of a zero


@dataclass(frozen=True, slots=True)
class GradientFlow:
    """Which steps of a forward graph hand a gradient to its values.

    `readers` has each step once for every operand, and None for a result of the graph; a value that
    is missing there has no gradient. `given` are the values that depend on something of which a
    gradient is taken. `lent` are parameters whose gradient the caller computes, from what a loop
    gives of all its rounds, with their numbers of readers; `borrowed` are those of callees. `calls`
    are those through which a gradient flows. `learns` says whether some parameter has a gradient,
    here or below.
    """

    readers: Mapping[Value, Sequence[Step | None]]
    given: frozenset[Value]
    lent: Mapping[str, int]
    borrowed: frozenset[Value]
    calls: tuple[Call, ...]
    learns: bool


@dataclass(slots=True)
class GradientFlows:
    """The flows of a program whose graphs keep all other rules; each is found once."""

    program: IRProgram
    found: dict[str, GradientFlow] = field(default_factory=dict[str, GradientFlow])

    def broken(self, backward: Backward) -> Iterator[str]:
        """Every rule about gradients that a backward graph breaks."""
        for key, each in self.program.backwards.items():  # callees come first
            if key not in self.found:
                self.found[key] = self._flow(each)
            if key == backward.key:
                break
        yield from _Connections(backward, self.found, self.program).broken()

    def _flow(self, backward: Backward) -> GradientFlow:
        graph = backward.forward
        given = self._dependent_values(graph)
        readers: dict[Value, list[Step | None]] = {}
        for value in graph.outputs:
            if graph.types[value].is_float:
                readers[value] = [None]
        calls: list[Call] = []
        for step in reversed(graph.steps):
            if any(value in readers for value in step.outputs if value in given):
                calls += [step] if isinstance(step, Call) else []
                if isinstance(step, Call) and step.loop is None:
                    _merge(step, self.program.graphs[step.callee], readers)
                for value in self._receivers(step, graph, given):
                    readers.setdefault(value, []).append(step)
        named = {str(value.name): value for value in graph.foreign}
        borrowed = [
            (named[path], count)
            for call in calls
            for path, count in lent_paths(call, self.found[call.callee])
            if path in named
        ]
        for value, count in borrowed:
            readers.setdefault(value, []).extend([None] * count)
        lent = {
            str(value.name): len(readers[value])
            for value in graph.param_values()
            if value in readers and value in given and value not in backward.gradients
        }
        return GradientFlow(
            readers,
            frozenset(given),
            lent,
            frozenset(value for value, _ in borrowed),
            tuple(calls),
            bool(lent)
            or any(backward.param_gradients())
            or any(self.found[call.callee].learns for call in calls),
        )

    def _dependent_values(self, graph: Graph) -> set[Value]:
        """Return the values that depend on a parameter or an input with a gradient."""

        def may(value: Value) -> bool:
            constant = CONSTANT in graph.placements.get(value, {}).values()
            return graph.types[value].is_float and not value.frozen and not constant

        given = {value for value in (*graph.inputs, *graph.param_values()) if may(value)}
        for step in graph.steps:
            learns = isinstance(step, Call) and self.found[step.callee].learns
            if learns or any(True for _ in self._receivers(step, graph, given)):
                given.update(filter(may, step.outputs))
        return given

    def _receivers(self, step: Step, graph: Graph, given: set[Value]) -> Iterator[Value]:
        """The operands of a step that get a gradient from it, once for each use."""
        if isinstance(step, Apply):
            names = _differentiable(step, step.body(graph.types))
            operands = zip(step.op.operand_names(step.attrs), step.inputs, strict=True)
            yield from (value for name, value in operands if name in names and value in given)
            return
        backward = self.program.backwards[step.callee]
        ports = zip(backward.forward.inputs, step.inputs, strict=True)
        yield from (value for port, value in ports if port in backward.gradients and value in given)


def lent_paths(call: Call, flow: GradientFlow) -> Iterator[tuple[str, int]]:
    """The parameters that a callee lends to its caller, by their paths there."""
    beginning = f"{call.path}." if call.path else ""
    yield from ((beginning + name, count) for name, count in flow.lent.items())


def _differentiable(step: Apply, body: Body) -> set[str]:
    """The operands of an operator to which a gradient goes from its results."""
    if step.op.pullback:
        return {*step.op.pullback(step.attrs)}
    visible = body.outputs[: len(body.outputs) - len(body.caches)]
    reached = {id(expr) for expr in visible}
    found: set[str] = set()
    for expr in reversed(body.order()):
        if id(expr) not in reached or expr.kind != "float":
            continue
        if expr.prim == "operand":
            found.add(str(expr.name))
        elif expr.prim not in STOPPING:
            reached.update(map(id, expr.args))
    return found


def _merge(call: Call, callee: Graph, readers: dict[Value, list[Step | None]]) -> None:
    """Give the readers of a value that a call gives under several names to the first name."""
    first: dict[Value, Value] = {}
    for output, value in zip(callee.outputs, call.outputs, strict=True):
        earlier = first.setdefault(output, value)
        if earlier is not value and value in readers:
            readers.setdefault(earlier, []).extend(readers.pop(value))


class _Connections:
    """Compares the parts that a backward graph adds up with the flow of its forward graph."""

    def __init__(
        self, backward: Backward, flows: Mapping[str, GradientFlow], program: IRProgram
    ) -> None:
        self.backward = backward
        self.flows = flows
        self.flow = flows[backward.key]
        self.program = program
        self.makers = {v: step for step in backward.steps if not step.again for v in step.outputs}
        self.totals = {**backward.totals, **backward.gradients}
        self.seeds = frozenset(backward.cotangents.values())

    def broken(self) -> Iterator[str]:
        """Every rule that the backward graph breaks."""
        graph = self.backward.forward
        for value in (*graph.inputs, *graph.param_values()):
            yield from self._leaf(value)
        for value, total in self.totals.items():
            if value in self.flow.readers and value not in self.backward.zeros:
                yield from self._parts(value, total)
        reversed_ = {call.saved for call in self.backward.calls if call.origin}
        for call in self.flow.calls:
            if call.saved not in reversed_:
                yield f"nothing differentiates the call of {call.callee}"
        for number, step in enumerate(self.backward.steps):
            if step.origin is not None and not step.again:
                lines = self._apply(step) if isinstance(step, Apply) else self._call(step)
                yield from (f"step {number}: {line}" for line in lines)

    def _leaf(self, value: Value) -> Iterator[str]:
        """A parameter or an input has a gradient if one flows to it, and only then."""
        backward, name = self.backward, _name(value)
        flows = value in self.flow.readers and not value.frozen
        gradient = backward.gradients.get(value)
        if value in backward.zeros:
            if flows and value in self.flow.given:
                yield f"the gradient of {name} is among the zeros, but something flows there"
            elif gradient and not self._is_zero(gradient):
                yield f"the gradient of {name} is among the zeros, but is made by another step"
        elif flows and gradient is None:
            lends = str(value.name) in self.flow.lent and value.role == "param"
            if not lends or backward.key in self.program.entries:
                yield f"the gradient of {name} is lost"
        elif gradient and not flows:
            yield f"{name} has a gradient, though nothing hands it one"

    def _parts(self, value: Value, total: Value) -> Iterator[str]:
        """A gradient is the sum of what each reader of its value hands it."""
        readers, parts = self.flow.readers[value], self._summands(value, total)
        if len(parts) != len(readers):
            yield (
                f"the gradient of {_name(value)} has {len(parts)} parts, "
                f"but {len(readers)} steps hand it one"
            )
        results = [made for step in readers if step for made in step.outputs]
        passed = Counter(self.totals.get(result) for result in results)  # on, as x + y does
        for part, uses in Counter(parts).items():
            if uses > max(passed[part], 1):
                yield f"a part of the gradient of {_name(value)} is added {uses} times"
            if not self._is_part(part, value, results):
                what = "a zero" if self._is_zero(part) else "a value that was not made for it"
                yield f"a part of the gradient of {_name(value)} is {what}"

    def _summands(self, value: Value, total: Value) -> list[Value]:
        """The parts that a gradient adds up, also if one sum over ranks follows for all of them."""
        found: list[Value] = []
        waiting = [total]
        while waiting:
            part = waiting.pop()
            step = self.makers.get(part)
            if isinstance(step, Apply) and self._is_sum(step, part, value):
                waiting += step.inputs
            else:
                found.append(part)
        return found

    def _is_sum(self, step: Apply, part: Value, value: Value) -> bool:
        if not self._may_be_of(part, value):
            return False  # the whole cotangent of another value
        if step.op.family == FAMILY:
            return self._may_be_of(step.inputs[0], value)
        return step.op.glyph == ADD and step.origin is None

    def _may_be_of(self, part: Value, value: Value) -> bool:
        return self.backward.of.get(part, value) is value

    def _is_part(self, part: Value, value: Value, results: Sequence[Value]) -> bool:
        """Whether a summand was made for a value, or is the cotangent of a result of a reader."""
        of, step = self.backward.of.get(part), self.makers.get(part)
        if self._is_zero(part):
            return of in results and of not in self.flow.readers
        if of is value or any(self.totals.get(result) is part for result in results):
            return True
        if isinstance(step, Apply) and step.op.family == FAMILY:
            return self._is_part(step.inputs[0], value, results)
        return of is None and value in self.flow.borrowed

    def _is_zero(self, value: Value) -> bool:
        """Whether a step makes zeros of nothing."""
        step = self.makers.get(value)
        if not isinstance(step, Apply) or step.inputs:
            return False
        body = step.body(self.backward.types)
        constants = [expr for expr in body.order() if expr.prim == "const"]
        made = {expr.prim for expr in body.order()} <= ZERO
        return made and all(expr.attr("value") == as_scalar(0.0) for expr in constants)

    def _apply(self, step: Apply) -> Iterator[str]:
        """A step reads the cotangents of what its forward step makes, and no other ones.

        Those of moves are held by the sums: one move may stand for several. The forward step may be
        one of a loop's round: then this step reads what the loop gives of all its rounds.
        """
        assert step.origin
        made = step.origin.outputs
        is_of_round = not any(value in self.backward.forward.types for value in made)
        for value in () if step.op.family == FAMILY else step.inputs:
            maker = self.makers.get(value)
            if maker is None and value not in self.seeds:
                continue  # a forward value
            if maker is not None and maker.origin is step.origin:
                continue  # a term within the term of this step
            is_own = value in self.backward.of or self._is_zero(value)
            is_row = is_of_round and (isinstance(maker, Call) or not is_own)
            if not is_row and not any(self._is_of(value, result) for result in made):
                yield f"{step.op.glyph} reads a cotangent that is not that of its forward step"

    def _is_of(self, cotangent: Value, value: Value) -> bool:
        """Whether a cotangent is the whole one of a value, or a zero for one that has none."""
        if value in self.totals:
            return self.totals[value] is cotangent
        is_unused = value not in self.flow.readers
        return is_unused and self._may_be_of(cotangent, value) and self._is_zero(cotangent)

    def _call(self, call: Call) -> Iterator[str]:
        """A call takes the cotangents of its results, and gives the gradients of its operands."""
        forward = call.origin
        assert forward
        callee = self.program.backwards[call.callee]
        taken, given = gradient_ports(call, callee)
        for number, cotangent in zip(taken, call.inputs, strict=False):  # operands come last
            if not self._is_of(cotangent, forward.outputs[number]):
                yield f"takes a cotangent of {_name(forward.outputs[number])} that is not its own"
        operands = dict(zip(callee.forward.inputs, forward.inputs, strict=True))
        for value, operand in zip(callee.operands, call.inputs[len(taken) :], strict=True):
            if operands[value] is not operand:
                yield f"takes {_name(operand)} as {_name(value)}, which the forward call did not"
        for number, gradient in zip(given, call.outputs, strict=False):  # rows come last
            if not self._may_be_of(gradient, forward.inputs[number]):
                yield f"gives {_name(forward.inputs[number])} the gradient of another operand"
        paths = {str(value.name) for value in self.backward.forward.foreign}
        for path, _ in lent_paths(call, self.flows[call.callee]):
            if path not in paths:
                yield f"the gradient of {path} is lost"


def _name(value: Value) -> str:
    return value.name or f"a value of line {value.span.line}"


# Which values are arrays of their own, so that the step that reads them may write into them.
#
# A primitive either computes a new array, or it may give its argument, or a view of it: windows
# that overlap, rows repeated without a copy, the whole array unchanged. Writing into a view would
# change what it is a view of. `Graph.reusable` records the values for which that is safe, and the
# verifier asks for the reason of each after every pass.
#
# A result of a module may be an argument or a view of one, as in torch: a copy would cost memory
# that few callers need. So a kernel never writes into a result either.


# In every backend these give a new array without a second reader. A primitive that is not listed
# counts as a view: dropout and `draw` give their argument itself if there is no seed.
NEW: Final = (
    (UNARY - {"stop"})
    | ARITHMETIC
    | {"pow", "where", "sum", "mean", "max", "contract", "cumsum", "concat", "pad", "overlap"}
    | {"gather", "scatter_add", "pick", "place"}
)


def view_sources(expr: Expr) -> Iterator[Expr]:
    """Yield the expressions whose array an expression may be or view, itself first."""
    waiting = [expr]
    while waiting:
        found = waiting.pop()
        yield found
        if found.prim not in NEW:
            waiting += found.args


@dataclass(frozen=True, slots=True)
class Reuse:
    """Makers and readers of the values of a graph; `kept` are read after its last step."""

    graph: Graph
    makers: dict[Value, Apply]
    readers: dict[Value, Apply]
    reads: Counter[Value]
    kept: frozenset[Value]

    @classmethod
    def of(cls, program: IRProgram, graph: Graph) -> Reuse:
        """The makers and readers of a graph of a program."""
        steps = [step for step in graph.steps if isinstance(step, Apply)]
        reads = Counter(value for step in graph.steps for value in step.inputs)
        return cls(
            graph,
            {value: step for step in steps for value in step.outputs},
            {value: step for step in steps for value in step.inputs},
            reads,
            frozenset(_kept(program, graph)),
        )

    def values(self) -> tuple[Value, ...]:
        """The values that their reader may write into, in the order in which they are made."""
        return tuple(value for value in self.makers if not self.refusal(value))

    def refusal(self, value: Value) -> str:
        """Why the step that reads a value may not write into it; empty if it may."""
        maker, reader = self.makers.get(value), self.readers.get(value)
        if maker is None or maker.op.glyph == PREPARED:
            return "belongs to the caller"
        if value in self.kept or self.reads[value] != 1 or reader is None:
            return "has another reader than one step"
        type_ = self.graph.types[value]
        shapes = [self.graph.types[output].shape for output in reader.outputs]
        if not type_.is_float or type_.shape not in shapes:
            return "has no room for a result of its reader"
        body = maker.body(self.graph.types)
        place = maker.outputs.index(value)
        mine = body.outputs[place]
        if mine.prim not in NEW:
            of = [str(each.name) for each in view_sources(mine) if each.prim == "operand"]
            return f"may be a view of {', '.join(of) or 'another array'}"
        others = (other for n, other in enumerate(body.outputs) if n != place)
        if any(each is mine for other in others for each in view_sources(other)):
            return "shares its array with another result"
        return ""


def _kept(program: IRProgram, graph: Graph) -> Iterable[Value]:
    """Yield the values of a graph that are read after its last step."""
    yield from graph.outputs
    yield from (state.next for state in graph.states)
    yield from (carry.next for carry in graph.carries)
    if isinstance(graph, Backward):
        yield from graph.gradients.values()
        yield from (value for value, _ in graph.rows)
    elif graph.key in program.backwards:
        yield from program.backwards[graph.key].saved


class BrokenProgram(Exception):
    """A program that breaks the rules of the IR, with every violation on a line of its own."""


def verify(program: IRProgram, verified: IRProgram | None = None) -> None:
    """Raise BrokenProgram with every rule that a graph of the program breaks."""
    if broken := tuple(violations(program, verified)):
        raise BrokenProgram("\n".join(broken))


def violations(program: IRProgram, verified: IRProgram | None = None) -> Iterator[str]:
    """Every broken rule, in the order of the graphs.

    `verified` breaks none: a graph that it has too, with the same callees, keeps them here as well.
    """
    if program.entry not in program.graphs:
        yield f"the entry {program.entry} is not among the graphs"
        return
    if list(program.graphs)[-1] != program.entry:
        yield f"the entry {program.entry} is not the last graph"
    broken = [
        *_broken(program, program.graphs, verified),
        *_broken(program, program.backwards, verified),
    ]
    yield from broken or (*_broken_flows(program, verified), *broken_communicators(program))


def _broken_flows(program: IRProgram, verified: IRProgram | None) -> Iterator[str]:
    """Every rule about gradients that the backward passes break, if they keep all others."""
    flows = GradientFlows(program)
    for key, backward in program.backwards.items():
        if verified is None or not _is_identical(
            program, key, backward, program.backwards, verified
        ):
            yield from (f"{key}, backward: {what}" for what in flows.broken(backward))


def _broken(
    program: IRProgram, graphs: Mapping[str, Graph], verified: IRProgram | None
) -> Iterator[str]:
    """Every rule that the forward passes break, or the backward ones."""
    before: set[str] = set()
    for key, graph in graphs.items():
        name = key
        if isinstance(graph, Backward):
            name = f"{key}, backward"
            if program.graphs.get(key) is not graph.forward:
                yield f"{name}: its forward pass is not that of the program"
        if verified is None or not _is_identical(program, key, graph, before, verified):
            rules = _GraphRules(program, graph, before)
            yield from (f"{name}: {what}" for what in rules.broken(key))
        before.add(key)


def _is_identical(
    program: IRProgram, key: str, graph: Graph, before: Container[str], verified: IRProgram
) -> bool:
    """Return whether both programs have a graph, with the same callees for its calls."""
    graphs = verified.backwards if isinstance(graph, Backward) else verified.graphs
    saves_as_before = program.backwards.get(key) is verified.backwards.get(key)
    if graph.reusable and not saves_as_before:
        return False  # a value that the backward pass reads now may not be written into
    return graphs.get(key) is graph and all(
        call.callee in before and program.callee(call) is verified.callee(call)
        for call in graph.calls
    )


class _GraphRules:
    """The rules for one graph. Before shape inference there are no types, only structure."""

    def __init__(self, program: IRProgram, graph: Graph, before: Iterable[str]) -> None:
        self.program = program
        self.graph = graph
        self.before = frozenset(before)
        self.defined = set(entering(graph))
        self.all = frozenset(values(graph))
        rows = graph.rows if isinstance(graph, Backward) else ()
        self.used = {*graph.inputs, *graph.outputs, *(value for value, _ in rows)}
        self.typed = bool(graph.types)

    def broken(self, key: str) -> Iterator[str]:
        """Every rule that the graph breaks."""
        if self.graph.key != key:
            yield f"its key is {self.graph.key}"
        if len(set(self.graph.inputs)) < len(self.graph.inputs):
            yield "takes a value as two inputs, so neither has a gradient of its own"
        for number, step in enumerate(self.graph.steps):
            label = step.op.glyph if isinstance(step, Apply) else f"call of {step.callee}"
            yield from (f"step {number}, {label}: {what}" for what in self._step(step))
        yield from self._results()
        yield from self._tables()
        yield from self._reuse()
        yield from self._meant_zeros()
        if isinstance(self.graph, Backward):
            yield from self._links(self.graph)

    def _step(self, step: Step) -> Iterator[str]:
        for value in step.reads:
            if value not in self.defined:
                yield f"reads {_name(value)}, which nothing before it makes"
        for value in made(step):
            if value in self.defined:
                yield f"makes {_name(value)} a second time"
            self.defined.add(value)
        self.used.update((*step.reads, *made(step)))
        if isinstance(step, Call):
            yield from self._call(step)
        elif self.typed:
            yield from self._apply(step)

    def _apply(self, step: Apply) -> Iterator[str]:
        names = step.op.operand_names(step.attrs)
        if len(names) != len(step.inputs):
            yield f"takes {len(names)} operands, not {len(step.inputs)}"
            return
        types = self.graph.types
        if any(value not in types for value in (*step.inputs, *step.outputs)):
            return  # reported with the tables
        yield from self._differentiates(step)
        try:
            outputs = step.body(types).outputs
        except (ShapeError, Misuse) as error:
            yield f"cannot be computed: {error}"
            return
        if len(outputs) != len(step.outputs):
            yield f"gives {len(outputs)} results, not {len(step.outputs)}"
            return
        for value, out in zip(step.outputs, outputs, strict=True):
            if (out.kind == "int") == types[value].is_float:
                found = "integers without a range" if out.kind == "int" else "a range for floats"
                yield f"gives {_name(value)} {found}"
            if not self._types_match(types[value], TensorType(out.shape, types[value].range)):
                yield f"gives {TensorType(out.shape)}, but {_name(value)} is {types[value]}"

    def _differentiates(self, step: Apply) -> Iterator[str]:
        """A gradient reads a loss, which is one float, and its variables."""
        count, types = step.op.differentiates, self.graph.types
        if count and (types[step.inputs[0]].shape or not types[step.inputs[0]].is_float):
            yield f"is a gradient of {_name(step.inputs[0])}, which is not one float"
        if count and (len(step.outputs) != count or len(step.inputs) <= count):
            yield f"is a gradient by {count} values, and gives {len(step.outputs)}"
        elif count:
            for of, value in zip(step.outputs, step.inputs[1 : 1 + count], strict=True):
                if not self._gradient_fits(of, value):
                    yield f"gives {types[of]} as the gradient by {_name(value)}: {types[value]}"

    def _call(self, call: Call) -> Iterator[str]:
        if call.callee not in self.before:
            yield "its callee does not come before it"
            return
        callee = self.program.callee(call)
        if isinstance(callee, Backward):
            yield from self._carries(call, callee)
            if callee.operands and call.rounds is not None:
                yield "its rounds need operands that are made again for one call only"
        elif call.carried:
            yield "hands gradients from round to round, but computes none"
        takes, gives = map(len, ports(call, callee))
        if len(call.inputs) != takes:
            yield f"takes {takes} inputs, not {len(call.inputs)}"
        elif len(call.outputs) != gives:
            yield f"gives {gives} outputs, not {len(call.outputs)}"
        elif self.typed and callee.types:
            yield from self._call_types(call, callee)

    def _carries(self, call: Call, callee: Backward) -> Iterator[str]:
        """Check that a round passes on the gradients of its states as their cotangents."""
        forward = callee.forward
        taken, given = gradient_ports(call, callee)
        around: list[tuple[int, int]] = []
        for left, found in carried_ports(call, forward):
            name = _name(forward.inputs[found])
            if found not in given:
                yield f"its rounds hand on {name}, which has no gradient and no zero"
            elif left not in taken:
                yield f"its rounds hand on {name}, which has no cotangent"
            else:
                around.append((taken.index(left), given.index(found)))
        if call.carried != tuple(around):
            yield f"its rounds hand on the gradients {call.carried}, not {tuple(around)}"

    def _call_types(self, call: Call, callee: Graph) -> Iterator[str]:
        """Types at a call are the callee's, its symbols bound by the call."""
        types, symbols = self.graph.types, inside(call, self.graph, callee, {})
        inputs, outputs = ports(call, callee)
        operands = [
            *zip(call.inputs, inputs, strict=True),
            *zip(call.outputs, outputs, strict=True),
        ]
        for value, (port, axis) in operands:
            if value in types and port in callee.types:
                type_ = callee.sizes.expand_type(callee.types[port]).substitute(symbols)
                if call.loop:
                    type_ = stack_along(type_, axis, call.loop.length)
                if not self._types_match(types[value], type_):
                    yield f"{_name(value)} is {types[value]}, but the callee's is {type_}"

    def _results(self) -> Iterator[str]:
        graph = self.graph
        for value in graph.outputs:
            if value not in self.defined:
                yield f"returns {_name(value)}, which nothing makes"
        if len({len(graph.outputs), len(graph.output_names)}) != 1:
            yield f"has {len(graph.outputs)} outputs and {len(graph.output_names)} names for them"
        if self.typed:
            for value, type_ in zip(graph.outputs, graph.output_types, strict=True):
                if value in graph.types and not self._types_match(graph.types[value], type_):
                    yield f"returns {type_}, but {_name(value)} is {graph.types[value]}"
        for state in graph.states:
            if state.next not in self.defined:
                yield f"leaves {_name(state.next)} to the next step, which nothing makes"

    def _tables(self) -> Iterator[str]:
        """Every value has a type, and no table names a value that is gone."""
        graph = self.graph
        if self.typed:
            for value in self.used:
                if value not in graph.types and value.role != "saved":
                    yield f"{_name(value)} has no type"
        tables: Mapping[str, Iterable[Value]] = {
            "types": graph.types,
            "placements": graph.placements,
            "layouts": graph.layouts,
            "placement requests": graph.placement_requests,
            "aliases": (value for _, value in graph.aliases),
        }
        for table, entries in tables.items():
            for value in entries:
                if value not in self.all:
                    yield f"{table} have {_name(value)}, which no step reads or makes"

    def _reuse(self) -> Iterator[str]:
        """A value that a step may write into is an array of its own, and has no other reader."""
        if self.graph.reusable:
            known = Reuse.of(self.program, self.graph)
            for value in self.graph.reusable:
                if refusal := known.refusal(value):
                    yield f"{_name(value)} is to be reused, but {refusal}"

    def _meant_zeros(self) -> Iterator[str]:
        """Check that each intended zero gradient belongs to a learned float, here or below."""
        graph = self.graph
        own = {value.name: value for value in (*graph.inputs, *graph.param_values())}
        heads = {call.path for call in graph.calls}
        for each in graph.meant_zeros:
            value = own.get(each.path)
            if value is None and each.path.partition(".")[0] not in heads:
                yield f"expects a zero gradient of {each.path}, which it does not have"
            elif value and (value.frozen or (self.typed and not graph.types[value].is_float)):
                yield f"expects a zero gradient of {each.path}, which has no gradient"

    def _links(self, backward: Backward) -> Iterator[str]:
        """A backward graph and the forward graph that it differentiates know each other."""
        forward = frozenset(values(backward.forward))
        for value in (*backward.saved, *backward.cotangents, *backward.gradients):
            if value not in forward:
                yield f"speaks of {_name(value)}, which the forward pass does not have"
        if (*backward.cotangents.values(), *backward.operands) != backward.inputs:
            yield "its inputs are not the cotangents and the operands that are made again"
        for value in backward.operands:
            if value not in backward.forward.inputs or value in backward.saved:
                yield f"{_name(value)} is made again, but is saved or no input of the forward pass"
        for value in (*backward.gradients.values(), *backward.totals.values()):
            if value not in self.all:
                yield f"the gradient {_name(value)} is made by nothing"
        for value in backward.zeros:
            if value not in backward.gradients:
                yield f"{_name(value)} has no zero, though nothing flows through it"
        for value, _ in backward.rows:
            if value not in self.all:
                yield f"the row {_name(value)} is made by nothing"

    def _gradient_fits(self, of: Value, value: Value) -> bool:
        """Whether a gradient has its variable's type, except along axes that ranks cut apart."""
        one, other = (self.graph.sizes.expand_type(self.graph.types[v]) for v in (of, value))
        if len(one.shape) != len(other.shape) or one.range != other.range:
            return False
        # A rank may have another part of the gradient than of the variable.
        cuts = [
            {
                (state.axis % len(one.shape), over)
                for over, state in self.graph.placements.get(each, {}).items()
                if state.kind == "S"
            }
            for each in (of, value)
        ]
        apart = {axis for axis, _ in cuts[0] ^ cuts[1]}
        pairs = enumerate(zip(one.shape, other.shape, strict=True))
        return all(left == right for axis, (left, right) in pairs if axis not in apart)

    def _types_match(self, left: TensorType, right: TensorType) -> bool:
        sizes = self.graph.sizes
        return left == right or sizes.expand_type(left) == sizes.expand_type(right)
