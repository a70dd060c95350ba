"""The backward graph of every graph (seed 001, section 3): reverse order, one rule per operator.

The result is an ordinary graph over cotangents and saved forward values. A value that is used
several times gets the ⊕ of its cotangents; calls are answered by the backward pass of their callee;
only what some gradient mentions is saved.

A frozen value has no gradient, instead of a gradient of zero: with a zero, weight decay and
momentum would still move it, and a plan would still send it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xg import ops
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import made
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
)
from xg.ir.moves import inputs_again, steps_again
from xg.ir.op import Op, Term, pull_back
from xg.ir.placement import CONSTANT, FAMILY, WHOLE, Memory
from xg.ir.prim import Expr, const
from xg.ir.primitive_gradients import is_constant
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Attrs
from xg.ir.walk import moves, moving


def differentiate(program: IRProgram) -> IRProgram:
    """The program with a backward graph for each of its graphs."""
    backwards: dict[str, Backward] = {}
    learning: set[str] = set()
    moved, carried = moves(program), _carried_inputs(program)
    for key, graph in program.graphs.items():
        around = carried.get(key, ())
        below = tuple(backwards[call.callee] for call in graph.calls)
        backward = graph.derived.get((around, below))
        if backward is None:
            reverse = _Reverse(graph, program.graphs, backwards, learning, moved, around)
            backward = graph.derived[around, below] = reverse.backward()
        backwards[key] = backward
        if any(backward.param_gradients()) or any(s.callee in learning for s in backward.calls):
            learning.add(key)
    return replace(program, backwards=backwards)


def _carried_inputs(program: IRProgram) -> dict[str, tuple[Value, ...]]:
    """Return the float inputs of each callee that a repeat or a loop carries between rounds."""
    found: dict[str, dict[Value, None]] = {}
    for graph in program.graphs.values():
        for call in graph.calls:
            callee = program.graphs[call.callee]
            inputs = (callee.inputs[number] for _, number in carried_ports(call, callee))
            found.setdefault(call.callee, {}).update(dict.fromkeys(inputs))
    return {key: tuple(values) for key, values in found.items()}


def _zeros(*, shape: Shape) -> Expr:
    return Expr("broadcast", (const(0.0),), shape)  # an array, also where it has no axes


ZEROS = Op("0", "zeros", "source", _zeros, data=(), meaning="the gradient of an unused output")


@dataclass(slots=True)
class _Reverse:
    """The backward graph of one graph, while it is made.

    `learning` are the graphs below with a parameter that has a gradient, their own or of a call;
    `moved` are those with running statistics. `carried` are the inputs that a repeat or a loop
    carries: each gets a gradient, a zero where nothing flows, because a round hands it to the round
    before.
    """

    graph: Graph
    graphs: Mapping[str, Graph]
    backwards: Mapping[str, Backward]
    learning: Container[str]
    moved: Container[str]
    carried: Sequence[Value]
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    steps: list[Step] = field(default_factory=list[Step])
    parts: dict[Value, list[Value]] = field(default_factory=dict[Value, list[Value]])
    names: dict[Value, Value] = field(default_factory=dict[Value, Value])
    of: dict[Value, Value] = field(default_factory=dict[Value, Value])
    active: set[Value] = field(default_factory=set[Value])

    def backward(self) -> Backward:
        """Seeds, steps in reverse, gradients of all that have one."""
        self.active = _active(self.graph, self.backwards, self.learning)
        seeds = self._seeds()
        for step in reversed(self.graph.steps):
            outputs = self.active.intersection(step.outputs)
            if any(value in self.parts for value in outputs):
                if isinstance(step, Apply):
                    self._apply(step)
                else:
                    self._call(step)
        zeros = self._carry_zeros()
        gradients = {value: self._rename_value(total) for value, total in self._gradients().items()}
        steps = tuple(self._rename_step(step) for step in self.steps)
        graph, types = self.graph, {self._rename_value(v): type_ for v, type_ in self.types.items()}
        saved = self._saved(steps)
        read = (*saved, *(value for step in steps for value in step.inputs))
        types |= {value: graph.types[value] for value in read if value in graph.types}
        results = {v: gradients[v] for v in graph.inputs if v in gradients}
        return Backward(
            key=graph.key,
            block=graph.block,
            title=graph.title,
            inputs=tuple(seeds.values()),
            outputs=tuple(results.values()),
            output_names=tuple(f"d{value.name}" for value in results),
            output_types=tuple(types[value] for value in results.values()),
            params=(),
            steps=steps,
            sizes=graph.sizes,
            span=graph.span,
            types=types,
            forward=graph,
            saved=saved,
            cotangents=seeds,
            gradients=gradients,
            of={self._rename_value(part): value for part, value in self.of.items()},
            totals=self._totals(),
            zeros=zeros,
        )

    def _seeds(self) -> dict[Value, Value]:
        """A cotangent for each float output; an output may be given twice under two names."""
        seeds: dict[Value, Value] = {}
        for name, value in zip(self.graph.output_names, self.graph.outputs, strict=True):
            if self.graph.types[value].is_float and value not in seeds:
                seed = Value(f"d{value.name or name}", "cotangent", value.span)
                self.types[seed] = self.graph.types[value]
                seeds[value] = seed
                self.parts[value] = [seed]
                self.of[seed] = value
        return seeds

    def _carry_zeros(self) -> frozenset[Value]:
        """Give a zero to every carried input through which no gradient flows; return these."""
        zeros = [v for v in self.carried if v.frozen or v not in self.active or v not in self.parts]
        for value in zeros:
            self.parts.pop(value, None)
            self.parts[value] = self._cotangents([value], value.span)
        return frozenset(zeros)

    def _gradients(self) -> dict[Value, Value]:
        leaves = (*self.graph.inputs, *self.graph.param_values())
        asked = [v for v in leaves if (v in self.parts and not v.frozen) or v in self.carried]
        return {value: self._total(value) for value in asked}

    def _totals(self) -> dict[Value, Value]:
        """The cotangent of each forward value that some step asked for."""
        whole = ((value, parts) for value, parts in self.parts.items() if len(parts) == 1)
        return {value: self._rename_value(part) for value, (part,) in whole}

    def _saved(self, steps: Sequence[Step]) -> tuple[Value, ...]:
        """Forward values that the steps read, in forward order; parameters need not be saved.

        So are those that running statistics approach.
        """
        used = {value for step in steps for value in step.reads}
        used.update(each.target for each in moving(self.graph))
        used.update(call.saved for call in self.graph.calls if call.callee in self.moved)
        order = list(self.graph.inputs)
        for step in self.graph.steps:
            order.extend(step.outputs)
            if isinstance(step, Call):
                order.append(step.saved)
        return tuple(value for value in dict.fromkeys(order) if value in used)

    # ---- cotangents -----------------------------------------------------------------------------

    def _total(self, value: Value) -> Value:
        """The cotangent of a forward value: the ⊕ of its parts, under the seed's name."""
        total, *others = self.parts[value]
        for part in others:
            total = self._emit(_add(), (total, part), {}, value.span)[0]
        self.parts[value] = [total]
        self.of.setdefault(total, value)
        if total.name is None and value.name is not None:
            named = Value("d" + value.name, "cotangent", value.span, value.declared)
            self.names.setdefault(total, named)
        return total

    def _contribute(self, value: Value, part: Value) -> None:
        self.parts.setdefault(value, []).append(part)
        self.of.setdefault(part, value)

    def _emit(
        self,
        op: Op,
        inputs: Sequence[Value],
        attrs: Attrs,
        span: Span,
        origin: Apply | None = None,
    ) -> tuple[Value, ...]:
        return self._take(Apply(op, (), (), attrs, span), inputs, span, origin)

    def _take(
        self, use: Apply, inputs: Sequence[Value], span: Span, origin: Apply | None
    ) -> tuple[Value, ...]:
        """Add a use of an operator on these inputs."""
        step = replace(use, inputs=tuple(inputs), span=span, origin=origin)
        body = step.body({value: self._type(value) for value in inputs})
        outputs = tuple(Value(None, "cotangent", span) for _ in body.outputs)
        self.types.update(
            (value, TensorType(out.shape)) for value, out in zip(outputs, body.outputs, strict=True)
        )
        self.steps.append(replace(step, outputs=outputs))
        return outputs

    def _type(self, value: Value) -> TensorType:
        return self.types[value] if value in self.types else self.graph.types[value]

    def _cotangents(self, values: Sequence[Value], span: Span) -> list[Value]:
        """The cotangents of several outputs; zeros for those that nothing uses."""
        totals: list[Value] = []
        for value in values:
            if value in self.parts:
                totals.append(self._total(value))
            else:
                shape = self.graph.types[value].shape
                zeros = self._emit(ZEROS, (), {"shape": shape}, span)[0]
                self.of[zeros] = value
                totals.append(zeros)
        return totals

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, node: Apply) -> None:
        visible = [v for v in node.outputs if v.role != "cache" and self.graph.types[v].is_float]
        operands = dict(zip(node.op.operand_names(node.attrs), node.inputs, strict=True))
        names = [name for name, value in operands.items() if value in self.active]
        if names and node.op.pullback:
            found = node.op.pullback(node.attrs), operands, self._cotangents(visible, node.span)

            def use(term: Term, args: Sequence[Value]) -> Value:
                return self._emit(_operator(term), args, term.attrs, node.span, node)[0]

            for name, part in pull_back(*found, names, use):
                self._contribute(operands[name], part)
        elif names:
            self._adjoint(node, operands, names)

    def _adjoint(
        self,
        node: Apply,
        operands: Mapping[str, Value],
        wanted: Sequence[str],
    ) -> None:
        types = [self.graph.types[value] for value in node.inputs]
        adjoint = node.adjoint(types, wanted)
        op = adjoint.op
        if not op.outputs:
            return
        caches = [value for value in node.outputs if value.role == "cache"]
        visible = node.outputs[: len(node.outputs) - len(caches)]
        results = dict(zip(node.op.output_names(len(visible)), visible, strict=True))
        values = {**operands, **results, **{str(value.name): value for value in caches}}
        needed = [name for name in results if any(data.name == "d" + name for data in op.data)]
        cotangents = self._cotangents([results[name] for name in needed], node.span)
        values |= {"d" + name: value for name, value in zip(needed, cotangents, strict=True)}
        inputs = [values[data.name] for data in op.data]
        parts = self._take(adjoint, inputs, node.span, node)
        for name, part in zip(op.outputs, parts, strict=True):
            self._contribute(operands[name[1:]], part)

    # ---- calls ----------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        callee, backward = self.graphs[call.callee], self.backwards[call.callee]
        taken, given = gradient_ports(call, backward)
        if call.loop is None:
            self._merge(call, callee)
        cotangents = self._cotangents([call.outputs[number] for number in taken], call.span)
        outputs = tuple(Value(None, "cotangent", call.span) for _ in given)
        around = carried_ports(call, callee)
        carried = tuple((taken.index(left), given.index(found)) for left, found in around)
        self.steps.append(
            replace(call, inputs=tuple(cotangents), outputs=outputs, origin=call, carried=carried)
        )
        for value, gradient in zip((call.inputs[n] for n in given), outputs, strict=True):
            self.types[gradient] = self.graph.types[value]
            if value in self.active:
                self._contribute(value, gradient)

    def _merge(self, call: Call, callee: Graph) -> None:
        """Add the cotangents of a value that a call gives under several names, to the first one's.

        In a loop the rounds themselves add them: one may be stacked, and the other what the last
        round left.
        """
        first: dict[Value, Value] = {}
        for inside, value in zip(callee.outputs, call.outputs, strict=True):
            earlier = first.setdefault(inside, value)
            if earlier is not value and value in self.parts:
                self.parts.setdefault(earlier, []).extend(self.parts.pop(value))

    # ---- names ----------------------------------------------------------------------------------

    def _rename_value(self, value: Value) -> Value:
        return self.names.get(value, value)

    def _rename_step(self, step: Step) -> Step:
        inputs = tuple(map(self._rename_value, step.inputs))
        return replace(step, inputs=inputs, outputs=tuple(map(self._rename_value, step.outputs)))


def _active(
    graph: Graph, backwards: Mapping[str, Backward], learning: Container[str]
) -> set[Value]:
    """The values that depend on a parameter or on a float input that is not frozen.

    Nothing is differentiated through what stops gradients, or is placed as a constant.
    """

    def may(value: Value) -> bool:
        constant = CONSTANT in graph.placements.get(value, {}).values()
        return graph.types[value].is_float and not value.frozen and not constant

    active = {value for value in (*graph.inputs, *graph.param_values()) if may(value)}
    for step in graph.steps:
        if isinstance(step, Apply):
            varies = _varies(step, graph, active)
        else:
            backward = backwards[step.callee]
            taken = zip(backward.forward.inputs, step.inputs, strict=True)
            varies = step.callee in learning or any(
                port in backward.gradients and value in active for port, value in taken
            )
        active.update(filter(may, step.outputs if varies else ()))
    return active


def _varies(step: Apply, graph: Graph, active: Container[Value]) -> bool:
    """Whether an operator hands a gradient on to something active."""
    operands = zip(step.op.operand_names(step.attrs), step.inputs, strict=True)
    names = {name for name, value in operands if value in active}
    if step.op.pullback:
        return not names.isdisjoint(step.op.pullback(step.attrs))
    constant = not step.op.adjoint and is_constant(step.body(graph.types), names)
    return bool(names) and not constant


def _add() -> Op:
    return ops.table()["⊕"]


def _operator(term: Term) -> Op:
    op = ops.find(term.op)
    if op is None:
        raise LookupError(f"a gradient mentions the operator {term.op}, which does not exist")
    return op


# Forward steps that a backward pass runs again, in place of values kept for it.
#
# A plan says of values, of what a parameter is gathered to, and of whole calls, whether they are
# computed `again` or kept. A value is computed again from kept ones, right before it is read first,
# by the steps of the forward pass: the same operators on the same numbers, drawing the same random
# ones, so that every gradient is the same to the last bit.
#
# The caller recomputes an input, and hands it to the backward pass of the call.


def recompute(program: IRProgram) -> IRProgram:
    """The program with backward passes that compute again what its plan says."""
    if not any(graph.memory for graph in program.graphs.values()):
        return program
    moved, backwards = moves(program), dict[str, Backward]()
    calls = [call for graph in program.graphs.values() for call in graph.calls]
    once = {call.callee for call in calls} - {call.callee for call in calls if call.rounds}
    for key, backward in program.backwards.items():  # callees come first
        graph = program.graphs[key]
        inputs = inputs_again(graph) if key in once else ()
        handed, operands = _hand_over(backward, backwards)
        if graph.memory or operands:
            handed = _Again(handed, moved, inputs, operands).backward_graph()
        backwards[key] = handed
    return replace(program, backwards=backwards)


def _hand_over(
    backward: Backward, backwards: Mapping[str, Backward]
) -> tuple[Backward, tuple[Value, ...]]:
    """Give calls the operands that the backward passes of their callees ask for; return these."""
    steps, operands = list[Step](), dict[Value, None]()
    for step in backward.steps:
        if isinstance(step, Call) and step.origin:
            callee = backwards[step.callee]
            given = dict(zip(callee.forward.inputs, step.origin.inputs, strict=True))
            asked = tuple(given[value] for value in callee.operands)
            operands |= dict.fromkeys(asked)
            step = replace(step, inputs=(*step.inputs, *asked)) if asked else step
        steps.append(step)
    return replace(backward, steps=tuple(steps)) if operands else backward, tuple(operands)


def memories(graph: Graph) -> dict[Value, Memory]:
    """The words of a plan about the values of a graph, where it has any.

    A move, and a step that only lays out its operand, follows this; of parameters it gives what a
    whole call says nothing about, since they are stored anyway.
    """
    said: dict[Value, Memory] = {}
    words: dict[str, Memory] = {
        name: "again" if word == "again" else "keep" for name, word in graph.memory.items()
    }  # what is held for all passes is kept for this one
    of_params = set(graph.param_values())
    for value in of_params:
        said[value] = words.get(str(value.name), "keep")
    said.update(dict.fromkeys(inputs_again(graph), "again"))  # and what they are gathered to
    for step in graph.steps:
        first = made(step)[0]
        inherited: Memory | None = None
        if isinstance(step, Apply) and step.op.family in (FAMILY, "layout"):
            inherited = said.get(step.inputs[0]) if len(step.inputs) == 1 else None
            if of_params.issuperset(step.inputs):
                of_params.update(step.outputs)
        named = words.get(str(first.name)) if first.name else None
        memory = named or inherited or words.get(WHOLE)
        if memory is not None:
            said.update(dict.fromkeys(made(step), memory))
            for value in made(step)[1:]:
                if value.role == "edge" and (own := words.get(str(value.name))):
                    said[value] = own
    return said


@dataclass(slots=True)
class _Again:
    """Rewrite one backward pass so that it recomputes values.

    `moved` are the graphs that move running statistics. The caller makes `inputs` again if a step
    reads them, and this graph makes `operands` again for the backward passes of its calls.
    """

    backward: Backward
    moved: Container[str]
    inputs: Sequence[Value]
    operands: Sequence[Value]
    makers: dict[Value, Step] = field(init=False)
    said: dict[Value, Memory] = field(init=False)
    there: set[Value] = field(init=False)
    saved: set[Value] = field(default_factory=set[Value])
    steps: list[Step] = field(default_factory=list[Step])
    copies: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])

    def __post_init__(self) -> None:
        """Find what is there when the backward pass begins."""
        graph = self.backward.forward
        kept = {call.saved for call in graph.calls if call.callee in self.moved}
        self.saved.update(kept, (each.target for each in moving(graph)))
        self.makers = {value: step for step in graph.steps for value in made(step)}
        self.said = memories(graph)
        for value in self.operands:
            steps = steps_again(value, self.makers)
            for each in (each for step in steps for each in step.outputs):
                self.said.setdefault(each, "again")
            for each in steps[-1].inputs if steps else (value,):
                self.said.setdefault(each, "keep")
        self.there = {*graph.param_values(), *self.backward.inputs, *kept, *self.inputs}

    def backward_graph(self) -> Backward:
        """The backward pass, which needs fewer values saved."""
        for step in self.backward.steps:
            for value in step.reads:
                self._provide(value)
            self.steps.append(step)
            self.there.update(step.outputs)
        graph, steps = self.backward.forward, tuple(self.steps)
        order = [*graph.inputs, *(v for step in graph.steps for v in made(step))]
        read = {value for step in steps for value in step.reads}
        operands = tuple(value for value in self.inputs if value in read)
        values = {value for step in steps for value in (*step.reads, *step.outputs)} | self.saved
        types = {value: graph.types[value] for value in values if value in graph.types}
        return replace(
            self.backward,
            inputs=(*self.backward.inputs, *operands),
            operands=operands,
            steps=steps,
            saved=tuple(value for value in order if value in self.saved),
            types={**types, **self.backward.types, **self.copies},
        )

    def _keeps(self, value: Value) -> bool:
        """Whether a forward value is kept: it is an input, or said to be, or was kept before."""
        said = self.said.get(value)
        if value not in self.makers or said == "keep":
            return True
        return said is None and value in self.backward.saved

    def _provide(self, wanted: Value) -> None:
        """Make a value available: as it was kept, or by the steps that lead to it."""
        waiting = [wanted]
        while waiting:
            value = waiting[-1]
            if value in self.there:
                waiting.pop()
            elif self._keeps(value):
                self.saved.add(value)
                self.there.add(value)
            else:
                step = self.makers[value]
                missing = [each for each in step.inputs if each not in self.there]
                if missing:
                    waiting += reversed(missing)
                    continue
                self.steps.append(replace(step, again=True, outputs=self._outputs(step)))
                self.there.update(made(step))

    def _outputs(self, step: Step) -> tuple[Value, ...]:
        """Return the outputs of a step that runs again, with copies in place of saved values."""
        outputs = list(step.outputs)
        for place, value in enumerate(outputs):
            if value in self.saved:
                outputs[place] = Value(value.name, value.role, value.span)
                self.copies[outputs[place]] = self.backward.forward.types[value]
        return tuple(outputs)
