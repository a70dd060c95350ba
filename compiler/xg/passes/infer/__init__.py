"""A shape on every value: operators are configured, calls are bound, labels are checked.

Every instance is typed once, in its own symbols. A call only needs the ports of its callee, so
graphs are typed callers first and nothing is ever typed twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.limits import Beyond, Rank
from xg.ir.body import Body
from xg.ir.content import Recent
from xg.ir.dim import Dim, DimError, ScalarError
from xg.ir.errors import NotWhole, no_size
from xg.ir.graph import Apply, Call, Carry, Graph, IRProgram, Value, stack_along
from xg.ir.op import Op
from xg.ir.size_checks import beyond_limits
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.ir.use import Attrs, Misuse, Use
from xg.ir.walk import too_many_operators
from xg.passes.infer.calls import (
    CallBinding,
    behind_open_sizes,
    bind,
    bound_names,
    check_repeat,
    complete_loop,
    open_sizes,
    output_types,
    rounds_types,
    sizes_of_starts,
    start_advice,
    taken_apart,
)
from xg.passes.infer.checks import check_claims, check_kinds, shared_shapes
from xg.passes.infer.errors import Mistyped, OperatorMisuse, StateMismatch
from xg.passes.infer.gradients import Expanded, expand_gradients
from xg.syntax.spelling import greek_name

# Graphs that were typed before: equal graphs, whose callees look the same, have equal types.


Freed = frozenset[str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The facts about a callee that a call needs."""

    block: str
    sizes: Hashable
    inputs: tuple[tuple[str | None, TensorType | None], ...]
    outputs: tuple[TensorType, ...]
    params: tuple[tuple[str | None, TensorType], ...]


@dataclass(frozen=True, slots=True)
class Typed:
    """An untyped graph with the signatures of its callees, and what was made of it."""

    source: Graph
    freed: Freed
    callees: tuple[Signature, ...]
    graph: Graph
    asked: tuple[tuple[str, Freed], ...]


@dataclass(slots=True)
class TypedGraphs:
    """Typed graphs by the untyped ones; none of them has errors."""

    known: Recent[int, list[Typed]] = field(default_factory=Recent[int, "list[Typed]"])
    signatures: Recent[int, tuple[Graph, Signature]] = field(
        default_factory=Recent[int, "tuple[Graph, Signature]"]
    )
    expanded: Expanded = field(default_factory=Recent["tuple[int, ...]", "tuple[Graph, ...]"])

    def find(self, source: Graph, freed: Freed, graphs: Mapping[str, Graph]) -> Typed | None:
        """The same graph as it was typed before, if it was."""
        for typed in self.known.get(id(source)) or ():
            if typed.freed == freed and typed.callees == self._callees(source, graphs):
                return typed
        return None

    def keep(
        self,
        source: Graph,
        freed: Freed,
        graphs: Mapping[str, Graph],
        graph: Graph,
        asked: list[tuple[str, Freed]],
    ) -> None:
        """Remember a graph that was typed without errors."""
        entries = self.known.get(id(source)) or self.known.put(id(source), [])
        callees = self._callees(source, graphs)
        entries.append(Typed(source, freed, callees, graph, tuple(asked)))

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.known.next_round()
        self.signatures.next_round()
        self.expanded.next_round()

    def _callees(self, source: Graph, graphs: Mapping[str, Graph]) -> tuple[Signature, ...]:
        calls = source.calls
        return tuple(self._signature(graphs[call.callee]) for call in calls)

    def _signature(self, graph: Graph) -> Signature:
        graphs = self.signatures.get(id(graph))
        if graphs is None:
            graphs = self.signatures.put(id(graph), (graph, _signature(graph)))
        return graphs[1]


def _signature(graph: Graph) -> Signature:
    return Signature(
        block=graph.block,
        sizes=graph.sizes.structure(),
        inputs=tuple((value.name, value.declared) for value in graph.inputs),
        outputs=graph.output_types,
        params=tuple((param.value.name, param.type) for param in graph.params),
    )


Types = dict[Value, TensorType]


def infer(program: IRProgram) -> IRProgram:
    """The typed program; raises DiagnosticError with all that is wrong."""
    typed, problems = infer_partly(program)
    if problems:
        raise DiagnosticError.of(*problems)
    return typed


def infer_partly(
    program: IRProgram, known: TypedGraphs | None = None
) -> tuple[IRProgram, tuple[Problem, ...]]:
    """The program with the types that it has, and all its errors; an editor shows both.

    A graph with errors lacks the steps that have one, and those that need their results. `known`
    are graphs of earlier programs, which are not typed again.
    """
    typed: dict[str, Graph] = {}
    bases: dict[str, str] = {}
    problems: dict[Problem, None] = {}
    known = known or TypedGraphs()
    waiting = deque[tuple[str, frozenset[str]]]([(program.entry, frozenset())])
    while waiting:
        key, freed = waiting.popleft()
        name = instance_key(key, freed)
        if name not in typed:
            typed[name], asked = _infer_graph(program, key, freed, problems, known)
            bases[name] = key
            waiting.extend(asked)
    if not problems:
        problems.update((p, None) for graph in typed.values() for p in shared_shapes(graph, typed))
    ordered = _callees_first(typed, bases, list(program.graphs))
    are_sizes = not any(isinstance(problem, NotWhole) for problem in problems)
    opened = tuple(open_sizes(ordered, program.numbers)) if are_sizes else ()
    for repeated in tuple(behind_open_sizes(program, opened, problems)):
        del problems[repeated]
    problems.update(dict.fromkeys(opened))
    if not problems:
        problems.update((p, None) for p in too_many_operators(ordered))
    if not problems:
        ordered, refused = expand_gradients(ordered, known.expanded)
        problems.update(dict.fromkeys(refused))
    return replace(program, graphs=ordered), tuple(problems)


def _infer_graph(
    program: IRProgram,
    key: str,
    freed: frozenset[str],
    problems: dict[Problem, None],
    known: TypedGraphs,
) -> tuple[Graph, Sequence[tuple[str, frozenset[str]]]]:
    """A typed graph, and the graphs that it calls; what is wrong with it is added to `problems`."""
    source = program.graphs[key]
    before = known.find(source, freed, program.graphs)
    if before is not None:
        return before.graph, before.asked
    own: dict[Problem, None] = {}
    typist = _Typist(program, source, freed, own)
    graph = replace(typist.graph(), key=instance_key(key, freed))
    if own:
        problems.update(own)
    else:
        known.keep(source, freed, program.graphs, graph, typist.callees)
    return graph, typist.callees


def instance_key(key: str, freed: frozenset[str]) -> str:
    """The key of an instance that is typed without some definitions of the file."""
    return key + (f" with {', '.join(sorted(freed))} free" if freed else "")


def apply_types(op: Op, types: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    """Types of every output of an operator (caches too) whose attributes are complete."""
    return _output_types(op.body(types, attrs), types, attrs)


def _output_types(
    body: Body, types: tuple[TensorType, ...], attrs: Attrs
) -> tuple[TensorType, ...]:
    written = attrs.get("range")
    ranges = [written] if written is not None else [t.range for t in types if t.range is not None]
    return tuple(
        TensorType(out.shape, ranges[0] if out.kind == "int" else None) for out in body.outputs
    )


class _Typist:
    """Types one graph."""

    def __init__(
        self,
        program: IRProgram,
        graph: Graph,
        freed: frozenset[str],
        problems: dict[Problem, None],
    ) -> None:
        self.program = program
        self.source = replace(graph, sizes=graph.sizes.bound_outside(freed))
        self.problems = problems
        self.types: Types = {}
        self.steps: list[Apply | Call] = []
        self.bindings: dict[str, tuple[Call, CallBinding]] = {}
        self.callees: list[tuple[str, frozenset[str]]] = []

    @property
    def sizes(self) -> Sizes:
        """The sizes of the graph's symbols."""
        return self.source.sizes

    def graph(self) -> Graph:
        """The graph with complete attributes and types; problems are added to the list."""
        for value in (*self.source.inputs, *(param.value for param in self.source.params)):
            assert value.declared is not None
            try:
                self.types[value] = self.sizes.expand_type(value.declared)
            except Beyond as beyond:
                self.problems[beyond.limit.at(value.span)] = None
            except DimError as error:
                self.problems[no_size(value.span, error)] = None
        for step in self.source.steps:
            try:
                self.steps.append(
                    self._apply(step) if isinstance(step, Apply) else self._call(step)
                )
            except Mistyped as mistyped:
                self.problems[mistyped.problem] = None
            except Beyond as beyond:
                self.problems[beyond.limit.at(step.span)] = None
            except DimError as error:
                self.problems[no_size(step.span, error)] = None
            except _Unknown:
                continue
        typed = replace(self.source, steps=tuple(self.steps), types=self.types)
        callees = {path: self.program.graphs[c.callee] for path, (c, _) in self.bindings.items()}
        self.problems.update(dict.fromkeys(check_claims(typed, callees)))
        return replace(typed, claims=())

    def _type(self, value: Value) -> TensorType:
        if value not in self.types:
            if value in self.source.foreign:
                self.types[value] = self._foreign(value)
            else:
                raise _Unknown
        return self.types[value]

    def _foreign(self, value: Value) -> TensorType:
        """The type of a parameter that belongs to a call: `bert.E`."""
        assert value.name is not None
        path, *rest = value.name.split(".")
        if path not in self.bindings:
            raise _Unknown
        call, binding = self.bindings[path]
        callee = self.program.graphs[call.callee]
        for param in callee.params:
            if param.value.name == rest[0] and len(rest) == 1:
                return binding.translate(param.type)
        listing = ", ".join(f"{path}.{param.value.name}" for param in callee.params) or "none"
        message = f"{callee.block} has no parameter {'.'.join(rest)}"
        help = f"it has {listing}"
        if any(carry.name == rest[0] for carry in callee.carries):
            names = ", ".join(callee.output_names)
            help = f"the last states are results, named after the outputs: `: {names}`"
        raise Mistyped(OperatorMisuse(value.span, message, "", (), (help,)))

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, node: Apply) -> Apply:
        types = tuple(self._type(value) for value in node.inputs)
        try:
            check_kinds(node, types, self.sizes, self.steps)
        except Mistyped:
            if self._are_said_integers(node.inputs):
                raise _Unknown from None
            raise
        attrs = self._configure_attrs(node, types)
        step = replace(node, attrs=attrs, traced={})
        try:
            body = step.body(self.types)
        except ScalarError as error:
            misuse = OperatorMisuse(node.span, f"{node.op.glyph}: {error}", "", (), ())
            raise Mistyped(misuse) from None
        outputs = _output_types(body, types, attrs)
        for value, type_ in zip(node.outputs, outputs, strict=False):
            Rank.check(len(type_.shape), node.span)
            self.types[value] = type_
        caches = tuple(Value(name, "cache", node.span) for name in body.caches)
        self.types.update(zip(caches, outputs[len(node.outputs) :], strict=True))
        return replace(step, outputs=(*node.outputs, *caches))

    def _are_said_integers(self, values: Sequence[Value]) -> bool:
        """Whether a label gives a range to floats among these: that label is wrong."""
        said = {value for value, declared, _ in self.source.claims if declared.range is not None}
        return any(value in said and self.types[value].is_float for value in values)

    def _configure_attrs(self, node: Apply, types: tuple[TensorType, ...]) -> Attrs:
        if misuse := beyond_limits(node, {}):
            raise Mistyped(_operator_misuse(node, misuse, ()))
        if node.op.configure is None:
            return self._own(node)
        peer = node.pending.peer
        targets = tuple(target and self._expanded(target) for target in node.pending.targets)
        # An editor types what it can of a file whose error this was; layouts are looked for here.
        for shape in (*(type_.shape for type_ in types), *filter(None, targets)):
            Rank.check(len(shape), node.span)
        use = Use(
            types=types,
            own=self._own(node),
            axes=node.pending.axes,
            targets=targets,
            peer=self._type(peer).shape if peer is not None else None,
            sizes=self.sizes,
        )
        try:
            configured = dict(node.op.configure(use))
        except Misuse as misuse:
            raise Mistyped(
                _operator_misuse(node, misuse, self._suggest_param(node, types))
            ) from None
        if "absent" in node.attrs:
            configured["absent"] = node.attrs["absent"]
        return configured

    def _own(self, node: Apply) -> Attrs:
        """The own arguments of a node; lengths among them are expanded."""
        expand = self.sizes.expand
        return {n: expand(v) if isinstance(v, Dim) else v for n, v in node.attrs.items()}

    def _expanded(self, shape: Shape) -> Shape:
        return tuple(map(self.sizes.expand, shape))

    def _suggest_param(self, node: Apply, types: tuple[TensorType, ...]) -> tuple[str, ...]:
        """Suggest the parameter that a • could mean: one that fits the first operand.

        An unused one comes first; of others none where the one that is named fits transposed.
        """
        if node.op.family != "matmul" or node.inputs[1].role != "param":
            return ()
        target = node.pending.targets[0]
        wanted = (*types[0].shape[-1:], *(self._expanded(target)[-1:] if target else ()))
        is_transposed = types[1].shape[-1:] == types[0].shape[-1:]
        unused = [each.value for each in self.source.unused]
        used = [] if is_transposed else [each.value for each in self.source.params]
        for value in (*unused, *used):
            shape = self.sizes.expand_type(value.declared).shape if value.declared else ()
            fits = len(shape) == 2 and len(types[0].shape) > 1 and shape[: len(wanted)] == wanted
            if value != node.inputs[1] and fits:
                whose = ", which no chain uses" if value in unused else ""
                return (f"did you mean {value.span.text}{whose}?",)
        return ()

    # ---- calls ----------------------------------------------------------------------------------

    def _call(self, call: Call) -> Call:
        callee = self.program.graphs[call.callee]
        call = self._in_sizes(call)
        if call.loop:
            return self._loop(call, callee)
        types = [self._type(value) for value in call.inputs]
        binding = bind(call, callee, types, self.source)
        outputs = output_types(call, callee, binding)
        if len(outputs) < len(call.outputs):
            raise _Unknown  # an editor types what it can: an output has no shape yet
        check_repeat(call, callee, types, outputs[0], self.sizes)
        self.types.update(zip(call.outputs, outputs, strict=True))
        self.bindings[call.path] = (call, binding)
        self.callees.append((call.callee, binding.freed))
        return replace(call, callee=instance_key(call.callee, binding.freed), sizes=binding.symbols)

    def _loop(self, call: Call, callee: Graph) -> Call:
        """A call over an axis, with its states as operands: as given, else as they begin."""
        assert call.loop
        types = [self._type(value) for value in call.inputs]
        apart = taken_apart(call, callee, types, self.sizes)
        given = sizes_of_starts(call, callee, self.types, bound_names(self.source))
        said = replace(call, sizes=given)
        binding = bind(said, callee, rounds_types(types, apart), self.source)
        length = self.sizes.expand(call.loop.length)
        unstacked = (t for t, axis in zip(types, apart, strict=True) if axis is not None)
        loop = complete_loop(call, callee, apart, next(unstacked, None), length)
        results = output_types(call, callee, binding)
        if len(results) < len(loop.outputs):
            raise _Unknown  # see _call
        stacks = zip(results, loop.outputs, strict=True)
        outputs = [stack_along(type_, axis, length) for type_, axis in stacks]
        self.types.update(zip(call.outputs, outputs, strict=True))
        pasts = results[len(results) - loop.states :]
        starts = [self._start(call, c, t) for c, t in zip(callee.carries, pasts, strict=True)]
        self.bindings[call.path] = (call, binding)
        self.callees.append((call.callee, binding.freed))
        return replace(
            call,
            callee=instance_key(call.callee, binding.freed),
            inputs=(*call.inputs, *starts),
            sizes=binding.symbols,
            loop=loop,
            starts={},
        )

    def _start(self, call: Call, state: Carry, type_: TensorType) -> Value:
        """The value of a state in the first round."""
        if state.name in call.starts:
            value = call.starts[state.name]
            tensor_type = self._type(value)
            if tensor_type != type_:
                wanted, found = (str(self.sizes.fold_type(each)) for each in (type_, tensor_type))
                how = start_advice(state.name, value, tensor_type, type_, wanted, self.types)
                start = "starts as", found, value.span
                raise Mistyped(StateMismatch(call.span, state.name, wanted, *start, how))
            return value
        value = Value(None, "edge", call.span)
        self.types[value] = type_
        attrs: Attrs = {"shape": type_.shape, "value": state.start}
        if type_.range is not None:
            attrs["range"] = type_.range
        self.steps.append(Apply(ops.table()["fill"], (), (value,), attrs, call.span))
        return value

    def _in_sizes(self, call: Call) -> Call:
        """A call with what it gives in expanded sizes."""
        dims = {name: self.sizes.expand(dim) for name, dim in call.sizes.items()}
        return replace(call, sizes=dims, count=call.count and self.sizes.expand(call.count))


class _Unknown(Exception):
    """An operand whose type failed already: its users are not reported again."""


def _operator_misuse(node: Apply, misuse: Misuse, fitting: tuple[str, ...]) -> OperatorMisuse:
    places = tuple((node.inputs[index].span, text) for index, text in misuse.notes.items() if index)
    help = (*fitting, *(line for line in misuse.help if not fitting or "T(…)" in line))
    if len(node.inputs) == 2 and (name := greek_name(node.inputs[1].name or "")):
        named = (line.replace("<=T(…)", f"<=T({name})") for line in help)
        repeats = "BC({}) repeats the operand"
        help = tuple(line.replace(repeats.format("…"), repeats.format(name)) for line in named)
        first = greek_name(node.inputs[0].name or "") or "…"
        help = tuple(line.replace("… -> •<=…", f"{name} -> •<={first}") for line in help)
    return OperatorMisuse(node.span, misuse.message, misuse.notes.get(0, ""), places, help)


def _callees_first(
    typed: Mapping[str, Graph], bases: Mapping[str, str], order: Sequence[str]
) -> dict[str, Graph]:
    """The typed graphs in the order of the graphs they were made from."""
    place = {key: i for i, key in enumerate(order)}
    return {key: typed[key] for key in sorted(typed, key=lambda key: place[bases[key]])}
