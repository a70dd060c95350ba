"""Compute a loop's parameter gradients as one product after it, not one in each round.

A parameter that all rounds share has the gradient ``Σ_t a_t⊤ g_t``: the product of all a with all
g, stacked. The backward pass of a round gives a and g, the graph that makes the loop multiplies
them. Only emission with kernels asks for it.

Readable modules keep the product in the round, because there the backward function of a round is
the backward figure of its block. Ranks keep it too: a gradient that is a sum over ranks belongs to
the round. A rule in the emitter would be needed once per backend, and nothing would check it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import prune
from xg.ir.graph import (
    Apply,
    Backward,
    Call,
    Graph,
    IRProgram,
    Loop,
    Step,
    Value,
    ports,
    stack_along,
)
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs
from xg.ir.walk import inside, moving, reachable_keys

PRODUCT: Final = "•"
TOTAL: Final = "sum"
FAN_OUT: Final = "⊕"
DEPTH: Final = 64  # of additions: a parameter with more uses in a round stays
PLAIN: Final = frozenset({FAN_OUT, "T"})  # the sum of all rounds is that of their operands' sums


def collect(program: IRProgram) -> IRProgram:
    """Compute such gradients after the loops of a program, in callees before their callers."""
    calls = Counter(call.callee for graph in program.graphs.values() for call in graph.calls)
    graphs: dict[str, Graph] = {}
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        caller = _Caller(graph, program.backwards[key], graphs, backwards, calls)
        graphs[key], backwards[key] = caller.collect_gradients()
    kept = frozenset(key for entry in program.entries for key in reachable_keys(graphs, entry))
    return replace(
        program,
        graphs={key: graph for key, graph in graphs.items() if key in kept},
        backwards={key: backward for key, backward in backwards.items() if key in kept},
    )


@dataclass(slots=True)
class _Caller:
    """A graph with its backward pass, while gradients move there out of the loops it makes.

    `graphs` and `backwards` are those of its callees and grow; `calls` counts the calls of each.
    """

    graph: Graph
    backward: Backward
    graphs: dict[str, Graph]
    backwards: dict[str, Backward]
    calls: Mapping[str, int]
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    foreign: dict[str, Value] = field(default_factory=dict[str, Value])
    parts: dict[Value, list[Value]] = field(default_factory=dict[Value, list[Value]])
    steps: list[Step] = field(default_factory=list[Step])
    forward: dict[Call, Call] = field(default_factory=dict[Call, Call])

    def collect_gradients(self) -> tuple[Graph, Backward]:
        """Return the forward and the backward pass, unchanged if no gradient moves."""
        self.types = dict(self.backward.types)
        self.foreign = {str(value.name): value for value in self.graph.foreign}
        for step in self.backward.steps:
            rounds = None
            if isinstance(step, Call) and step.loop and step.origin and not step.again:
                rounds = _Rounds(step, step.loop, self.graph, self.backwards[step.callee])
            if rounds is None or not rounds.collects():
                self.steps.append(step)
            else:
                assert isinstance(step, Call)
                self._collect(step, rounds)
        if not self.parts:
            return self.graph, self.backward
        graph = self._graph()
        return graph, self._backward(graph)

    def _collect(self, call: Call, rounds: _Rounds) -> None:
        """Emit the loop without the gradients that it collects, and their sums after it."""
        key = call.callee
        if self.calls[key] > 1:
            key = f"{key}, collected {len(self.graphs)}"
            self.graphs[key] = replace(self.graphs[call.callee], key=key)
        self.backwards[key] = rounds.backward(self.graphs[key])
        assert call.origin
        origin = call.origin
        self.forward[origin] = replace(origin, callee=key)
        made = tuple(rounds.made.values())
        outputs = (*call.outputs, *made)
        self.steps.append(replace(call, callee=key, outputs=outputs, origin=self.forward[origin]))
        self.types |= rounds.types
        for param, tree in rounds.chosen.items():
            value = self._param(call, param, rounds.type_of(param))
            part = Value(None, "cotangent", call.span)
            self.types[part] = self.types[value]
            self.steps += rounds.sum_steps(tree, part, self.types)
            self.parts.setdefault(value, []).append(part)

    def _param(self, call: Call, param: Value, type_: TensorType) -> Value:
        """A parameter of the callee, as this graph reads it."""
        path = f"{call.path}.{param.name}" if call.path else str(param.name)
        if path not in self.foreign:
            self.foreign[path] = Value(path, "param", param.span)
        self.types.setdefault(self.foreign[path], type_)
        return self.foreign[path]

    def _graph(self) -> Graph:
        lent = tuple(self.foreign.values())
        types = {**self.graph.types, **{value: self.types[value] for value in self.parts}}
        steps = tuple(
            self.forward.get(step, step) if isinstance(step, Call) else step
            for step in self.graph.steps
        )
        return replace(self.graph, steps=steps, foreign=lent, types=types)

    def _backward(self, graph: Graph) -> Backward:
        """The backward pass, with what it gave for the same parameters added."""
        backward, gradients = self.backward, dict(self.backward.gradients)
        of = dict(backward.of)
        for value, parts in self.parts.items():
            total, *others = [*([gradients[value]] if value in gradients else []), *parts]
            of |= dict.fromkeys(parts, value)
            for part in others:
                both = (total, part)
                total = Value(None, "cotangent", value.span)
                of[total], self.types[total] = value, self.types[value]
                self.steps.append(Apply(ops.table()[FAN_OUT], both, (total,), {}, value.span))
            gradients[value] = total
        steps = tuple(self._update_origin(step) for step in self.steps)
        return prune(
            replace(
                backward,
                steps=steps,
                types=self.types,
                forward=graph,
                gradients=gradients,
                of=of,
                totals={**backward.totals, **gradients},
            )
        )

    def _update_origin(self, step: Step) -> Step:
        """A step of the backward pass that names the forward call as it is now."""
        if isinstance(step, Call) and step.origin in self.forward:
            return replace(step, origin=self.forward[step.origin])
        return step


@dataclass(frozen=True, slots=True)
class _Tree:
    """Hold a step of a round, which can be summed over all rounds after them, and its inputs."""

    step: Apply
    below: tuple[_Tree, ...] = ()


@dataclass(slots=True)
class _Rounds:
    """The backward pass of a loop's rounds, while gradients are taken out of it.

    `chosen` are the gradients that move, by parameter; `places` has for every value of a round that
    the caller gets of all of them the place of their axis, counted from the left, `made` the
    caller's value for one that it did not get before, `above` for all.
    """

    call: Call
    loop: Loop
    caller: Graph
    whole: Backward
    chosen: dict[Value, _Tree] = field(default_factory=dict[Value, _Tree])
    places: dict[Value, int] = field(default_factory=dict[Value, int])
    above: dict[Value, Value] = field(default_factory=dict[Value, Value])
    made: dict[Value, Value] = field(default_factory=dict[Value, Value])
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    varying: set[Value] = field(default_factory=set[Value])

    def collects(self) -> bool:
        """Whether a gradient moves."""
        self._note_scan_outputs()
        trees = dict(self._trees())
        waiting = {id(each): each for tree in trees.values() for each in _of(tree, PRODUCT)}
        while waiting:  # first those with an operand that is stacked already
            known = (n for n, each in waiting.items() if self._partner(each) is not None)
            self._stack(waiting.pop(next(known, next(iter(waiting)))))
        for param, tree in trees.items():
            if all(total.step.inputs[0] in self.places for total in _of(tree, TOTAL)):
                self.chosen[param] = tree
        read = {v for tree in self.chosen.values() for each in _all(tree) for v in each.step.inputs}
        self.made = {value: above for value, above in self.made.items() if value in read}
        return bool(self.chosen)

    def _note_scan_outputs(self) -> None:
        """Note all that the loop stacks already: gradients of operands that it took apart."""
        _, results = ports(self.call, self.whole)
        for value, (part, axis) in zip(self.call.outputs, results, strict=True):
            if axis is not None and part not in self.above:
                self.above[part] = value
                self.places[part] = len(self.whole.types[part].shape) + 1 + axis

    # ---- the gradients that move ----------------------------------------------------------------

    def _trees(self) -> Iterator[tuple[Value, _Tree]]:
        """Gradients of parameters that only products, sums over axes and additions make."""
        self._vary()
        steps = self.whole.steps
        makers = {step.outputs[0]: step for step in steps if len(step.outputs) == 1}
        reads = Counter(value for step in steps for value in step.inputs)
        reads.update(self.whole.gradients.values())
        reads.update(value for value, _ in self.whole.rows)
        for param, gradient in self.whole.param_gradients():
            tree = self._tree(gradient, makers, reads, DEPTH)
            if tree:
                yield param, tree

    def _tree(
        self, value: Value, makers: Mapping[Value, Step], reads: Mapping[Value, int], depth: int
    ) -> _Tree | None:
        """Return the tree of steps for a value read once; None if no sum over rounds works."""
        step = makers.get(value)
        if not isinstance(step, Apply) or step.again or reads[value] > 1 or not depth:
            return None
        if step.op.glyph == PRODUCT and all(map(self._differs, step.inputs)):
            return _Tree(step)
        if step.op.glyph == TOTAL:
            return _Tree(step)
        if step.op.glyph not in PLAIN or len(set(step.inputs)) < len(step.inputs):
            return None
        below = [self._tree(each, makers, reads, depth - 1) for each in step.inputs]
        found = tuple(each for each in below if each)
        return _Tree(step, found) if len(found) == len(below) else None

    def _differs(self, value: Value) -> bool:
        """Return whether a value, or the value of a cotangent, differs between rounds."""
        return self.whole.of.get(value, value) in self.varying

    def _vary(self) -> None:
        """Find what comes from an operand that the loop takes apart, or from a state."""
        forward, loop, varying = self.whole.forward, self.loop, self.varying
        states = len(forward.inputs) - loop.states
        for place, (value, axis) in enumerate(zip(forward.inputs, loop.inputs, strict=True)):
            if axis is not None or place >= states:
                varying.add(value)
        for step in forward.steps:
            if varying.intersection(step.inputs):
                varying.update(step.outputs)
        for step in self.whole.steps:  # what an inner loop gives of all its rounds
            origin = step.origin if isinstance(step, Call) else None
            if origin and varying.intersection(origin.outputs):
                varying.update(step.outputs)

    # ---- all rounds of a value ------------------------------------------------------------------

    def _partner(self, product: _Tree) -> int | None:
        """The place of the axis of rounds in an operand of a product."""
        return next((self.places[v] for v in product.step.inputs if v in self.places), None)

    def _stack(self, product: _Tree) -> None:
        """Have the loop stack the operands of a product, both along one axis if it can be."""
        for value in product.step.inputs:
            if value in self.places:
                continue
            place = min(self._partner(product) or 0, len(self.whole.types[value].shape))
            of = self.whole.of.get(value)
            name = value.name or (f"d{of.name or ''}" if of else "part")
            self.places[value] = place
            self.made[value] = self.above[value] = Value(f"all_{name}", "cotangent", value.span)
            self.types[self.above[value]] = self._type_in_caller(value, self._axis(value))

    def _axis(self, value: Value) -> int:
        """The axis of rounds, counted from the end as loops do."""
        return self.places[value] - len(self.whole.types[value].shape) - 1

    def _type_in_caller(self, value: Value, axis: int | None) -> TensorType:
        """A type of a round as the caller says it, of all rounds if there is an axis."""
        forward = self.whole.forward
        types = self.whole.types if value in self.whole.types else forward.types
        symbols = inside(self.call, self.caller, forward, {})
        type_ = forward.sizes.expand_type(types[value]).substitute(symbols)
        return stack_along(type_, axis, self.loop.length)

    def type_of(self, param: Value) -> TensorType:
        """The type of a parameter, as the caller says it."""
        return self._type_in_caller(param, None)

    # ---- both sides -----------------------------------------------------------------------------

    def backward(self, forward: Graph) -> Backward:
        """The backward pass of a round without the gradients that moved."""
        whole = self.whole
        moved = frozenset(each.step for tree in self.chosen.values() for each in _all(tree))
        gone = frozenset(value for step in moved for value in step.outputs)
        steps = tuple(step for step in whole.steps if step not in moved)
        rows = tuple((value, self._axis(value)) for value in self.made)
        kept = {v: g for v, g in whole.gradients.items() if v not in self.chosen}
        read = {value for step in steps for value in step.reads} | {v for v, _ in rows}
        read |= {each.target for each in moving(forward)}
        return prune(
            replace(
                whole,
                key=forward.key,
                forward=forward,
                steps=steps,
                rows=(*whole.rows, *rows),
                saved=tuple(value for value in whole.saved if value in read),
                gradients=kept,
                of={part: value for part, value in whole.of.items() if part not in gone},
                totals={v: total for v, total in whole.totals.items() if total not in gone},
            )
        )

    def sum_steps(self, tree: _Tree, out: Value, types: dict[Value, TensorType]) -> Iterator[Step]:
        """The steps of the caller for the sum of all rounds."""
        step, inputs = tree.step, tuple(self.above.get(v, v) for v in tree.step.inputs)
        attrs: Attrs = step.attrs
        if step.op.glyph == PRODUCT:
            attrs = {"spec": self._spec(step)}
        elif step.op.glyph == TOTAL:
            attrs = {"axes": self._axes(step)}
        else:
            inputs = tuple(Value(None, "cotangent", step.span) for _ in tree.below)
            for below, value in zip(tree.below, inputs, strict=True):
                types[value] = self._type_in_caller(below.step.outputs[0], None)
                yield from self.sum_steps(below, value, types)
        yield replace(step, inputs=inputs, outputs=(out,), attrs=attrs)

    def _spec(self, step: Apply) -> str:
        """A product that is summed over the rounds too: they are a letter of both operands."""
        sides, out = str(step.attrs["spec"]).split("->")
        new = next(letter for letter in "zyxwvutsrqp" if letter not in sides)
        letters = [
            side[: self.places[value]] + new + side[self.places[value] :]
            for side, value in zip(sides.split(","), step.inputs, strict=True)
        ]
        return f"{','.join(letters)}->{out}"

    def _axes(self, step: Apply) -> tuple[int, ...]:
        """Return the axes of a sum and the axis of the rounds, counted from the end."""
        (value,) = step.inputs
        rank, place = len(self.whole.types[value].shape), self.places[value]
        old = (axis % rank for axis in step.attrs["axes"])
        return tuple(n - rank - 1 for n in sorted({place, *(n + (n >= place) for n in old)}))


def _all(tree: _Tree) -> Iterator[_Tree]:
    """A tree and all below it; as deep as one parameter has uses in a round."""
    pending = [tree]
    while pending:
        each = pending.pop()
        yield each
        pending += each.below


def _of(tree: _Tree, glyph: str) -> Iterator[_Tree]:
    return (each for each in _all(tree) if each.step.op.glyph == glyph)
