"""Check that a backward graph keeps every cotangent: none is lost, swapped or replaced by a zero.

The forward graph says which steps hand a gradient to each of its values. The backward graph has to
add up just as many parts, and each has to be made for that value. `of` and `totals` of a backward
graph are the facts that connect the two; every pass after the derivation keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Step, Value, gradient_ports
from xg.ir.placement import CONSTANT
from xg.ir.primitive_gradients import STOPPING
from xg.ir.scalar import as_scalar

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
    for inside, value in zip(callee.outputs, call.outputs, strict=True):
        earlier = first.setdefault(inside, value)
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
