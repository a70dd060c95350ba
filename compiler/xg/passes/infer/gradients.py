"""Give each `grad` of a program its body: the backward pass from a loss to its variables.

``grad[x](loss)`` stays one node. Its body composes the gradients of the steps between x and the
loss in reverse order: the same closed forms and terms that `differentiate` uses, so a gradient that
the file asks for and one that training takes are the same numbers. The body is made of primitives,
and all else follows as for any operator: its own gradient (the second derivative), its cost, its
sharding, its code. Steps of a backward graph would need the values that calls save for it, which no
forward pass can read.

The body reads the values of the block as they are, and computes again whatever a call computes
inside. So a step that draws random numbers may be between x and the loss, but not inside a call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final

from xg import ops
from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, map_sizes, substitute, topological
from xg.ir.content import Recent
from xg.ir.dim import ONE, Dim
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg.ir.op import Op, Term, pull_back
from xg.ir.placement import FAMILY
from xg.ir.prim import RANDOM, Expr, Kind, const, operand
from xg.ir.primitive_gradients import without_repeats
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Data
from xg.ir.walk import answers, inside, reachable_keys
from xg.passes.infer.errors import OperatorMisuse
from xg.syntax.spelling import greek_name

GRAD: Final = "grad"
LARGEST: Final = 20_000  # primitives of one body, since every pass and backend walks over them

# A callee, its inputs that vary and its outputs that have a cotangent, by their numbers. Without
# any of them it is only the forward pass.
Request = tuple[str, frozenset[int], frozenset[int]]


class Inderivable(Exception):
    """Carries why a gradient cannot be taken, and what to write instead."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = (help,) if help else ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that a body reads: its operand, its type, and whether it is frozen."""

    expr: Expr
    type: TensorType
    frozen: bool


@dataclass(frozen=True, slots=True)
class Traced:
    """A callee as expressions in its own sizes: over its inputs, cotangents and parameters."""

    inputs: tuple[Expr, ...]
    seeds: Mapping[int, Expr]  # the cotangent of an output, by its number
    params: Mapping[str, Parameter]
    outputs: tuple[Expr, ...]
    gradients: Mapping[int, Expr]  # the cotangent of an input, by its number

    def in_call(self, call: Call, caller: Graph, callee: Graph) -> Traced:
        """The same in the sizes of a caller, its parameters by their paths there."""
        symbols = inside(call, caller, callee, {})

        def change(dim: Dim) -> Dim:
            return callee.sizes.expand(dim).substitute(symbols)

        def typed(type_: TensorType) -> TensorType:
            range_ = None if type_.range is None else change(type_.range)
            return TensorType(tuple(map(change, type_.shape)), range_)

        params = [param.expr for param in self.params.values()]
        parts = (self.inputs, self.seeds.values(), params, self.outputs, self.gradients.values())
        mapped = iter(map_sizes([expr for part in parts for expr in part], change))
        inputs = tuple(next(mapped) for _ in self.inputs)
        seeds = {number: next(mapped) for number in self.seeds}
        named = {
            f"{call.path}.{path}": Parameter(next(mapped), typed(param.type), param.frozen)
            for path, param in self.params.items()
        }
        outputs = tuple(next(mapped) for _ in self.outputs)
        return Traced(inputs, seeds, named, outputs, dict(zip(self.gradients, mapped, strict=True)))


def is_open(step: Step) -> bool:
    """Whether a step is a `grad` of the file that has no body yet."""
    return isinstance(step, Apply) and step.op.glyph == GRAD and not step.op.differentiates


Expanded = Recent[tuple[int, ...], tuple[Graph, ...]]  # by the graphs that a body depends on


def expand_gradients(
    graphs: Mapping[str, Graph], known: Expanded
) -> tuple[dict[str, Graph], tuple[Problem, ...]]:
    """The typed graphs with a body for each `grad`, and the errors; callees come first.

    The `known` ones stay the same graphs: programs of many choices share them.
    """
    expanded: dict[str, Graph] = {}
    problems: dict[Problem, None] = {}
    done: dict[Request, Traced] = {}
    for key, graph in graphs.items():
        expanded[key] = graph
        if any(map(is_open, graph.steps)):
            below = tuple(graphs[each] for each in reachable_keys(graphs, key))
            found = known.get(tuple(map(id, below)))
            if found is None:
                before = len(problems)
                made = _Expansion(graph, expanded, done, problems).graph_with_bodies()
                found = (made, *below)
                if len(problems) == before:
                    known.put(tuple(map(id, below)), found)
            expanded[key] = found[0]
    return expanded, tuple(problems)


@dataclass(slots=True)
class _Expansion:
    """The gradients of one graph; `done` has what is known of its callees."""

    graph: Graph
    graphs: Mapping[str, Graph]
    done: dict[Request, Traced]
    problems: dict[Problem, None]
    steps: list[Step] = field(default_factory=list[Step])
    foreign: dict[str, Value] = field(default_factory=dict[str, Value])
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])

    def graph_with_bodies(self) -> Graph:
        """The graph; a `grad` with an error keeps a body of zeros."""
        self.foreign = {str(value.name): value for value in self.graph.foreign}
        self.types = dict(self.graph.types)
        for step in self.graph.steps:
            if isinstance(step, Apply) and is_open(step):
                try:
                    self.steps.append(self._with_body(step))
                    continue
                except Inderivable as refusal:
                    misuse = OperatorMisuse(step.span, refusal.message, "", (), refusal.help)
                    self.problems[misuse] = None
            self.steps.append(step)
        foreign = tuple(self.foreign.values())
        return replace(self.graph, steps=tuple(self.steps), foreign=foreign, types=self.types)

    def _with_body(self, step: Apply) -> Apply:
        loss, *variables = step.inputs
        leaves = {value: _leaf(type_) for value, type_ in self.types.items()}
        graph = replace(self.graph, types=self.types)  # with the parameters read so far
        reverse = _ReverseSweep(graph, self.graphs, leaves, set(variables))
        reverse.mark(self.steps)
        reverse.add(loss, broadcast_one(()))
        for earlier in reversed(self.steps):
            asked = reverse.request(earlier)
            if asked:
                answers(asked, self._traced, self.done)
            reverse.step_back(earlier, self.done.get(asked) if asked else None)
        found = [reverse.cotangents.get(value) for value in variables]
        lost = [value for value, each in zip(variables, found, strict=True) if each is None]
        if lost:
            raise _unreached(loss, lost[0], self.steps)
        outputs = without_repeats([each for each in found if each is not None])
        return self._build(step, outputs, reverse)

    def _build(self, step: Apply, outputs: Sequence[Expr], reverse: _ReverseSweep) -> Apply:
        """The step with the operator whose body these outputs are."""
        order = topological(outputs)
        _refuse_body(order)
        by_id = {id(expr): value for value, expr in reverse.known.items()}
        by_id |= {id(p.expr): self._param(path, p) for path, p in reverse.params.items()}
        read = dict.fromkeys(by_id.get(id(expr)) for expr in order if expr.prim == "operand")
        if None in read:
            raise Inderivable(
                "grad reads a value that a repeat or a loop inside a call computes",
                "take the gradient after that call, or write the steps in this block",
            )
        others = [value for value in read if value and value not in step.inputs]
        inputs = (*step.inputs, *others)
        operands = [
            operand(name, self.types[value].shape, _kind(self.types[value]))
            for name, value in zip(_names(inputs), inputs, strict=True)
        ]
        first = dict(reversed([*zip(inputs, operands, strict=True)]))
        replacements = {each: first[value] for each, value in by_id.items() if value in first}
        made = tuple(each for each in substitute(outputs, replacements) if each is not None)
        body = Body(tuple(operands), made)
        free = {id(expr) for expr in body.free()}
        reads = tuple(place for place, each in enumerate(operands) if id(each) in free)
        return replace(step, op=_operator(step, body), inputs=inputs, attrs={"reads": reads})

    def _param(self, path: str, param: Parameter) -> Value:
        """A parameter of a call, which the block reads as it would a tied table."""
        if path not in self.foreign:
            value = Value(path, "param", self.graph.span, frozen=param.frozen)
            self.foreign[path] = value
            self.types[value] = param.type
        return self.foreign[path]

    def _traced(self, request: Request) -> Generator[Request, Traced, Traced]:
        """A callee as expressions; it first requests the blocks that it calls itself."""
        key, varying, counted = request
        graph = self.graphs[key]
        known = {value: _leaf(graph.types[value]) for value in graph.inputs}
        inputs = tuple(known[value] for value in graph.inputs)
        reverse = _ReverseSweep(graph, self.graphs, known, {graph.inputs[n] for n in varying}, True)
        for value in graph.param_values():
            path = str(value.name)
            known[value] = reverse.param(
                path, Parameter(_leaf(graph.types[value]), graph.types[value], value.frozen)
            )
        for step in graph.steps:
            traced: Traced | None = None
            if isinstance(step, Call) and step.rounds is None:
                traced = yield step.callee, frozenset(), frozenset()
            reverse.step_forward(step, traced)
        reverse.mark(graph.steps)
        seeds: dict[int, Expr] = {}
        for number in sorted(counted):
            seeds[number] = _leaf(graph.types[graph.outputs[number]])
            reverse.add(graph.outputs[number], seeds[number])
        for step in reversed(graph.steps if counted else ()):
            asked = reverse.request(step)
            reverse.step_back(step, (yield asked) if asked else None)
        gradients = {
            number: reverse.cotangents[graph.inputs[number]]
            for number in sorted(varying)
            if graph.inputs[number] in reverse.cotangents
        }
        outputs = tuple(known[value] for value in graph.outputs)
        _refuse_size(topological([*outputs, *gradients.values()]))
        return Traced(inputs, seeds, reverse.params, outputs, gradients)


@dataclass(slots=True)
class _ReverseSweep:
    """The reverse sweep over the steps of one graph, in expressions.

    `known` has the expression of each value. In a graph that is `traced` they are those of its
    inputs and parameters; otherwise each value is an operand.
    """

    graph: Graph
    graphs: Mapping[str, Graph]
    known: dict[Value, Expr]
    active: set[Value]
    traced: bool = False
    cotangents: dict[Value, Expr] = field(default_factory=dict[Value, Expr])
    params: dict[str, Parameter] = field(default_factory=dict[str, Parameter])

    def param(self, path: str, param: Parameter) -> Expr:
        """The operand that a parameter is; calls under one name share theirs."""
        return self.params.setdefault(path, param).expr

    def add(self, value: Value, part: Expr) -> None:
        """Add a part of the cotangent of a value."""
        total = self.cotangents.get(value)
        self.cotangents[value] = part if total is None else total + part

    def mark(self, steps: Sequence[Step]) -> None:
        """Find the floats that may depend on the variables."""
        for step in steps:
            if not self.active.isdisjoint(step.inputs):
                self.active.update(v for v in step.outputs if self._type(v).is_float)

    def _type(self, value: Value) -> TensorType:
        expr = self.known.get(value)
        if expr is None:
            return self.graph.types[value]
        return TensorType(expr.shape, None if expr.kind != "int" else ONE)

    # ---- forward --------------------------------------------------------------------------------

    def step_forward(self, step: Step, traced: Traced | None) -> None:
        """Find the expressions of a step's results; after a repeat or a loop they are operands."""
        if isinstance(step, Apply):
            body = step.body(self.graph.types)
            args = {id(o): self.known[v] for o, v in zip(body.operands, step.inputs, strict=True)}
            made = substitute(body.outputs, args)
            self.known.update((v, e) for v, e in zip(step.outputs, made, strict=True) if e)
        elif traced is None:
            self.known.update((value, _leaf(self.graph.types[value])) for value in step.outputs)
        else:
            found = self._in_place(step, traced)
            outputs = substitute(found[0].outputs, found[1])
            self.known.update((v, e) for v, e in zip(step.outputs, outputs, strict=True) if e)

    def _in_place(self, call: Call, traced: Traced) -> tuple[Traced, dict[int, Expr]]:
        """A callee in the caller's sizes, with what its inputs and parameters are here."""
        here = traced.in_call(call, self.graph, self.graphs[call.callee])
        pairs = zip(here.inputs, call.inputs, strict=True)
        replacements = {id(port): self.known[value] for port, value in pairs}
        for path, param in here.params.items():
            replacements[id(param.expr)] = self.param(path, param)
        return here, replacements

    # ---- backward -------------------------------------------------------------------------------

    def request(self, step: Step) -> Request | None:
        """The pullback of a callee that a call needs; None if no gradient goes through one."""
        if not isinstance(step, Call) or not self._counts(step):
            return None
        if step.rounds is not None:
            what = "over an axis" if step.loop else "repeated"
            block = self.graphs[step.callee].block
            raise Inderivable(
                f"grad cannot go through {step.path}: {block} is called {what}",
                "write each round as its own call, or take the gradient inside a round",
            )
        varying = (n for n, value in enumerate(step.inputs) if value in self.active)
        counted = (n for n, value in enumerate(step.outputs) if value in self.cotangents)
        return step.callee, frozenset(varying), frozenset(counted)

    def step_back(self, step: Step, traced: Traced | None) -> None:
        """Add the cotangents that a step gives its inputs."""
        if isinstance(step, Call):
            if traced is not None:
                self._call_back(step, traced)
        elif self._counts(step):
            for value, part in self._apply_back(step):
                self.add(value, part)

    def _counts(self, step: Step) -> bool:
        """Whether a gradient goes through a step."""
        counted = any(value in self.cotangents and value in self.active for value in step.outputs)
        return counted and not self.active.isdisjoint(step.inputs)

    def _call_back(self, call: Call, traced: Traced) -> None:
        here, replacements = self._in_place(call, traced)
        for number, seed in here.seeds.items():
            replacements[id(seed)] = self.cotangents[call.outputs[number]]
        parts = substitute([*here.gradients.values()], replacements)
        for number, part in zip(here.gradients, parts, strict=True):
            if part is not None:
                self.add(call.inputs[number], part)

    def _apply_back(self, step: Apply) -> Iterator[tuple[Value, Expr]]:
        if step.op.family == FAMILY:
            found = f"grad cannot go through {step.op.glyph}, which moves values between ranks"
            raise Inderivable(found, "place values with a plan instead")
        names = step.op.operand_names(step.attrs)
        operands = dict(zip(names, step.inputs, strict=True))
        wanted = [name for name, value in operands.items() if value in self.active]
        visible = [value for value in step.outputs if value.role != "cache"]
        seeds = [self._cotangent(value) for value in visible]
        if step.op.pullback:
            known = {name: self.known[value] for name, value in operands.items()}
            found = step.op.pullback(step.attrs), known, [*self._floats(visible, seeds)]
            for name, part in pull_back(*found, wanted, _apply_term):
                yield operands[name], part
            return
        types = [self.graph.types[value] for value in step.inputs]
        body = step.op.adjoint_body(types, step.attrs)
        exprs = [*seeds, *(self.known[value] for value in step.inputs)]
        exprs += [*(self.known[value] for value in visible), *self._caches(step)]
        replacements = {id(o): e for o, e in zip(body.operands, exprs, strict=True)}
        of = dict(zip(body.of, substitute(body.outputs, replacements), strict=True))
        for name in wanted:
            part = of.get(name)
            if part is not None:
                yield operands[name], part

    def _cotangent(self, value: Value) -> Expr:
        if value in self.cotangents:
            return self.cotangents[value]
        return Expr("broadcast", (const(0.0),), self.known[value].shape)

    def _floats(self, values: Sequence[Value], seeds: Sequence[Expr]) -> Iterator[Expr]:
        return (seed for v, seed in zip(values, seeds, strict=True) if self._type(v).is_float)

    def _caches(self, step: Apply) -> list[Expr]:
        """Find what the step keeps for its gradient: computed again, unless it is drawn."""
        kept = [value for value in step.outputs if value.role == "cache"]
        body = step.body(self.graph.types)
        if self.traced or any(expr.prim in RANDOM for expr in body.order()):
            return [self.known[value] for value in kept]
        args = {id(o): self.known[v] for o, v in zip(body.operands, step.inputs, strict=True)}
        outputs = substitute(body.outputs[len(body.outputs) - len(kept) :], args)
        return [expr for expr in outputs if expr is not None]


def broadcast_one(shape: Shape) -> Expr:
    """Return ones as an array, even if it has no axes."""
    return Expr("broadcast", (const(1.0),), shape)


def _kind(type_: TensorType) -> Kind:
    return "float" if type_.is_float else "int"


def _leaf(type_: TensorType) -> Expr:
    return operand("", type_.shape, _kind(type_))


def _apply_term(term: Term, args: Sequence[Expr]) -> Expr:
    """The expression of a gradient term whose arguments are known."""
    op = ops.find(term.op)
    assert op is not None, term.op
    types = [TensorType(arg.shape, ONE if arg.kind == "int" else None) for arg in args]
    first = op.body(types, term.attrs).on(args)[0]
    assert isinstance(first, Expr)
    return first


def _refuse_size(order: Sequence[Expr]) -> None:
    """Refuse a body that is too large; calls of calls can double it each time."""
    if len(order) > LARGEST:
        found = f"grad takes at most {LARGEST} primitives, and this gradient has {len(order)}"
        raise Inderivable(found, "take the gradient of a smaller part")


def _refuse_body(order: Sequence[Expr]) -> None:
    """Refuse a body that is too large, or that would draw other numbers than the forward pass."""
    _refuse_size(order)
    if any(expr.prim in RANDOM for expr in order):
        raise Inderivable(
            "grad cannot go through a call that draws random numbers or has BN inside",
            "write these steps in this block: grad reads their results, and draws nothing again",
        )


def _unreached(loss: Value, lost: Value, steps: Sequence[Step]) -> Inderivable:
    """The reason why a loss has no gradient by a value."""
    below = {lost}
    for step in steps:
        if not below.isdisjoint(step.inputs):
            below.update(step.outputs)
    names = [greek_name(value.name) if value.name else "the loss" for value in (loss, lost)]
    if loss not in below:
        return Inderivable(
            f"{names[0]} does not depend on {names[1]}, so it has no gradient with respect to it",
            f"name a value that {names[0]} is computed from",
        )
    return Inderivable(
        f"no gradient goes from {names[0]} to {names[1]}",
        "each path passes integers, a comparison or stop, or is constant",
    )


def _names(values: Sequence[Value]) -> list[str]:
    """A name of its own for each operand."""
    names: dict[str, None] = {}
    for value in values:
        wanted = (value.name or "value").replace(".", "_")
        name, number = wanted, 1
        while name in names:
            number += 1
            name = f"{wanted}_{number}"
        names[name] = None
    return [*names]


def _operator(step: Apply, body: Body) -> Op:
    """The operator of one `grad`, with its body."""
    loss, *variables = step.inputs
    of = loss.name or "the loss"
    by = ", ".join(value.name or "an edge" for value in variables)

    def forward(*operands: Expr, **_: object) -> object:
        return body.on(operands)

    return Op(
        glyph="∂",
        name="gradient",
        family="nonlinear",
        forward=forward,
        data=tuple(Data(str(expr.name), "any") for expr in body.operands),
        outputs=tuple(f"d{expr.name}" for expr in body.operands[1 : 1 + len(variables)]),
        differentiates=len(variables),
        meaning=f"gradient of {of} by {by}",
        formula=", ".join(f"∂{of}/∂{value.name or 'edge'}" for value in variables),
        gradient="derived from its body",
        source=step.op.source,
        legend="gradient of a loss",
    )
