"""The functions of one block: its forward pass and, line by line as drawn, its backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xg.emit.layout import bracketed, indented
from xg.emit.locate import Source, locate
from xg.emit.names import Names, identifier
from xg.emit.spelling import Scope, Spelling
from xg.emit.statements import Functions, Statements
from xg.emit.text import Text
from xg.graph import Apply, Backward, Call, CallBack, Graph, Program, Value
from xg.prim import topological
from xg.tensor import TensorType


@dataclass(slots=True)
class Plan:
    """What the functions of a module have to agree on.

    `functions` and `classes` name each graph's functions; `random` are the graphs that draw random
    numbers; `shared` are parameters (graph, name) that more than one place has a gradient for.
    """

    program: Program
    spelling: Spelling
    operators: Functions
    functions: Mapping[str, str]
    classes: Mapping[str, str]
    random: frozenset[str]
    shared: frozenset[tuple[str, str]]
    constants: dict[str, int] = field(default_factory=dict[str, int])
    helpers: dict[str, None] = field(default_factory=dict[str, None])

    def has_path(self, graph: Graph) -> bool:
        """Whether a graph's functions are told where their parameters are: all but the entry's."""
        return graph.key != self.program.entry


def draws_random(program: Program) -> frozenset[str]:
    """The graphs in which, or below which, a random number is drawn."""
    found: set[str] = set()
    for key, graph in program.graphs.items():  # callees stand first
        for step in graph.steps:
            if isinstance(step, Call):
                if step.callee in found:
                    found.add(key)
            else:
                body = step.op.body([graph.types[v] for v in step.inputs], step.attrs)
                if any(expr.prim == "dropout_keep" for expr in topological(body.outputs)):
                    found.add(key)
    return frozenset(found)


def shared_params(program: Program) -> frozenset[tuple[str, str]]:
    """Parameters whose gradient comes from several places: tied ones, and those of shared calls."""
    shared: set[tuple[str, str]] = set()
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        calls: dict[str, str] = {}
        whole = (key, "*") in shared
        for step in graph.steps:
            if isinstance(step, Call):
                if step.path in calls or whole:
                    shared.add((step.callee, "*"))
                calls[step.path] = step.callee
        for value in graph.foreign:
            path, _, name = str(value.name).partition(".")
            shared.update([(key, str(value.name)), (calls[path], name)])
    return frozenset(shared)


@dataclass(slots=True)
class BlockWriter:
    """Writes one pass of one graph."""

    plan: Plan
    graph: Graph
    names: Names
    scope: Scope
    statements: Statements
    known: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    lost: tuple[str, ...] = field(default=(), kw_only=True)

    # ---- what both passes need ------------------------------------------------------------------

    @property
    def path(self) -> bool:
        """Whether the function is told a path."""
        return self.plan.has_path(self.graph)

    def below(self, name: str) -> str:
        """A path below this block's, as text."""
        return f'f"{{at}}.{name}"' if self.path else f'"{name}"'

    def take_params(self, values: Sequence[Value]) -> list[str]:
        """Lines that fetch parameters under their names."""
        names: list[str] = []
        for value in values:
            name = self.names.fresh(str(value.name))
            self.statements.texts[value] = Text(name)
            names.append(name)
        if len(values) <= 1:
            return [
                f"{name} = params[{self.below(str(value.name))}]"
                for name, value in zip(names, values, strict=True)
            ]
        self.plan.helpers["take"] = None
        wanted = " ".join(str(value.name) for value in values)
        at = "at" if self.path else '""'
        return bracketed(f"{', '.join(names)} = take(", ["params", at, f'"{wanted}"'], ")", 4)

    def size_lines(self, sources: Sequence[Source]) -> list[str]:
        """Lines that make the needed sizes known."""
        found = locate(
            self.scope.needed,
            sources,
            self.graph.sizes,
            self.plan.program.main.sizes.defaults,
            self.graph.span,
            self.known,
            self._carried(),
        )
        self.plan.constants.update(found.constants)
        self.lost = found.lost
        return found.lines

    def _carried(self) -> frozenset[str]:
        """Symbols that the inputs or parameters of the forward pass carry."""
        values = [*self.graph.inputs, *(param.value for param in self.graph.params)]
        dims = [dim for value in values for dim in self.graph.types[value].shape]
        names = {self.graph.sizes.fold(dim).name for dim in dims}
        return frozenset(name for name in names if name and name not in self.known)

    def spelled(self, value: Value) -> str:
        """``X [B, S, D]``, as the file says it."""
        shape = ", ".join(str(dim) for dim in self.graph.shape(value))
        return f"{value.name or 'value'} [{shape}]"


def _bases(graph: Graph) -> dict[Value, str]:
    """What a value without a label should be called: by the next label on its way, numbered."""
    bases: dict[Value, str] = {}
    for step in reversed(graph.steps):
        for value in step.outputs:
            if value.name is not None and value.role != "cache":
                bases[value] = value.name
        target = next((bases[v] for v in step.outputs if v in bases), None)
        for value in step.inputs:
            if value.name is None and value not in bases and target:
                bases[value] = target.removesuffix("_#") + "_#"
    for step in graph.steps:
        for value in step.outputs:
            if value.role == "cache":
                owner = step.outputs[0]
                bases[value] = f"{bases.get(owner, 'part').removesuffix('_#')}_{value.name}"
    return bases


# ---- forward --------------------------------------------------------------------------------------


def forward_function(
    plan: Plan, graph: Graph, saved: Sequence[Value], sizes: Sequence[str] = ()
) -> tuple[list[str], dict[Value, str]]:
    """The forward function and the names of the fields it saves; `sizes` are saved too."""
    writer = _ForwardWriter.start(plan, graph, saved, sizes)
    return writer.write()


@dataclass(slots=True)
class _ForwardWriter(BlockWriter):
    saved: Sequence[Value] = ()
    saved_sizes: Sequence[str] = ()
    saved_names: dict[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def start(
        cls, plan: Plan, graph: Graph, saved: Sequence[Value], sizes: Sequence[str]
    ) -> _ForwardWriter:
        names = Names(_symbols(graph))
        scope = Scope(graph.sizes)
        labelled = {v for step in graph.steps for v in step.outputs if v.name and v.role == "edge"}
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=graph.types,
            wanted=_bases(graph),
            fixed=frozenset({*labelled, *saved, *graph.outputs}),
            uses=_uses(graph.steps, (*graph.outputs, *saved)),
            backward=False,
            place=_place(plan, graph),
        )
        scope.needed.update(dict.fromkeys(sizes))
        return cls(plan, graph, names, scope, statements, saved, sizes)

    def write(self) -> tuple[list[str], dict[Value, str]]:
        graph = self.graph
        inputs = [self.names.fresh(str(value.name)) for value in graph.inputs]
        for value, name in zip(graph.inputs, inputs, strict=True):
            self.statements.texts[value] = Text(name)
        params = [value for value in graph.param_values() if self.statements.uses[value]]
        taken = self.take_params(params)
        self._set_dtype(inputs)
        needed = set(_read(graph.steps)) | set(self.saved) | set(graph.outputs)
        for step in graph.steps:
            if isinstance(step, Apply):
                keep = [v for v in step.outputs if v in needed or v.role != "cache"]
                self.statements.apply(step, keep)
            else:
                self._call(step)
        results = [self.statements.settle(value).text for value in graph.outputs]
        fields = self._saved_fields()
        sources = self._sources(params)
        body = [*self._docstring(), *taken, *self.size_lines(sources), *self._dtype_line(inputs)]
        body += [*self.statements.lines, *self._return(results, fields)]
        return [*self._head(inputs), *indented(body)], self.saved_names

    def _sources(self, params: Sequence[Value]) -> list[Source]:
        values = [*self.graph.inputs, *params]
        return [(self.statements.texts[v].text, self.graph.types[v].shape) for v in values]

    def _set_dtype(self, inputs: Sequence[str]) -> None:
        self.scope.dtype = "dtype"

    def _dtype_line(self, inputs: Sequence[str]) -> list[str]:
        if not self.statements.dtype:
            return []
        floats = [v for v in self.graph.inputs if self.graph.types[v].is_float]
        floats += [v for v in self.graph.param_values() if v in self.statements.texts]
        text = self.statements.texts[floats[0]].text if floats else "np.zeros(0)"
        return [f"dtype = {text}.dtype"]

    def _head(self, inputs: Sequence[str]) -> list[str]:
        kinds = [f"{name}: Array" for name in inputs]
        items = ["params: Params", *(["at: str"] if self.path else []), *kinds]
        if self.graph.key in self.plan.random:
            items += ["*", "seed: int | None"]
        results = ["Array"] * len(self.graph.outputs) + [self.plan.classes[self.graph.key]]
        name = self.plan.functions[self.graph.key]
        return bracketed(f"def {name}(", items, f") -> tuple[{', '.join(results)}]:")

    def _docstring(self) -> list[str]:
        graph = self.graph
        place = f"{graph.span.source.name.rsplit('/', 1)[-1]}, line {graph.span.line}"
        arriving = ", ".join(self.spelled(value) for value in graph.inputs)
        pairs = zip(graph.output_names, graph.output_types, strict=True)
        leaving = ", ".join(f"{name} {_shape_text(type_)}" for name, type_ in pairs)
        title = _safe(graph.title)
        return [f'"""{title} ({_safe(place)}).', "", f"{arriving} -> {leaving}", '"""']

    def _saved_fields(self) -> list[str]:
        fields = Names()
        texts: list[str] = []
        for value in self.saved:
            text = self.statements.settle(value).text
            field_name = text.removesuffix("_saved") if value.role == "saved" else text
            self.saved_names[value] = fields.fresh(field_name)
            texts.append(text)
        return [*texts, *self.saved_sizes]

    def _return(self, results: Sequence[str], fields: Sequence[str]) -> list[str]:
        saved = f"{self.plan.classes[self.graph.key]}("
        lines = bracketed(f"return {', '.join(results)}, {saved}", fields, ")", 4)
        if len(lines) == 1:
            return lines
        return [
            *bracketed(f"saved = {saved}", fields, ")", 4),
            f"return {', '.join([*results, 'saved'])}",
        ]

    def _call(self, call: Call) -> None:
        mentions = [self.statements.settle(value).text for value in call.inputs]
        outputs = [self.statements.name(value) for value in call.outputs]
        name = self.names.fresh(f"{identifier(call.path)}_saved")
        self.statements.texts[call.saved] = Text(name)
        function = self.plan.functions[call.callee]
        seed = ["seed=seed"] if call.callee in self.plan.random else []
        comment = f"# {self._shape(call.outputs[0])} line {call.span.line}"
        if call.count is None:
            head = f"{', '.join([*outputs, name])} = {function}("
            args = ["params", self.below(call.path), *mentions, *seed]
            self.statements.lines += [comment, *bracketed(head, args, ")", 4)]
            return
        count = self.scope.size(call.count).text
        args = ["params", self.below(f"{call.path}.{{i}}"), outputs[0], *mentions[1:], *seed]
        if not self.path:
            args[1] = f'f"{call.path}.{{i}}"'
        self.statements.lines += [
            comment,
            f"{outputs[0]} = {mentions[0]}",
            f"{name}: list[{self.plan.classes[call.callee]}] = []",
            f"for i in range({count}):",
            *indented(bracketed(f"{outputs[0]}, one = {function}(", args, ")", 8)),
            f"    {name}.append(one)",
        ]

    def _shape(self, value: Value) -> str:
        shape = self.graph.sizes.fold_shape(self.graph.types[value].shape)
        return "[" + ", ".join(str(dim) for dim in shape) + "]"


# ---- backward -------------------------------------------------------------------------------------


def backward_function(
    plan: Plan, backward: Backward, fields: Mapping[Value, str]
) -> tuple[list[str], tuple[str, ...]]:
    """The backward function; `fields` name what the forward function saved.

    Also the symbols of sizes that it needs and no saved tensor carries: they must be saved too.
    """
    writer = _BackwardWriter.start(plan, backward, fields)
    lines = writer.write()
    lost = writer.lost
    if lost:
        writer = _BackwardWriter.start(plan, backward, fields)
        writer.known = {name: f"saved.{name}" for name in lost}
        lines = writer.write()
    return lines, lost


@dataclass(slots=True)
class _BackwardWriter(BlockWriter):
    backward: Backward | None = None
    fields: Mapping[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def start(cls, plan: Plan, backward: Backward, fields: Mapping[Value, str]) -> _BackwardWriter:
        graph = backward.forward
        names = Names(["one", *_symbols(graph)])
        scope = Scope(graph.sizes)
        types = {**graph.types, **backward.types}
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=types,
            wanted=_gradient_names(backward, fields),
            fixed=frozenset(_fixed(backward)),
            uses=_uses(backward.steps, tuple(backward.gradients.values())),
            backward=True,
            place=_place(plan, graph),
        )
        return cls(plan, graph, names, scope, statements, backward, fields)

    def write(self) -> list[str]:
        assert self.backward is not None
        backward, graph, texts = self.backward, self.graph, self.statements.texts
        for value in backward.saved:
            texts[value] = Text(f"saved.{self.fields[value]}")
        seeds = [self.statements.name(seed) for seed in backward.cotangents.values()]
        params = [value for value in graph.param_values() if self.statements.uses[value]]
        taken = self.take_params(params)
        self.scope.dtype = "dtype"
        read = set(_read(backward.steps)) | set(backward.gradients.values())
        for step in backward.steps:
            if isinstance(step, Apply):
                self.statements.apply(step, [v for v in step.outputs if v in read])
            else:
                self._call(step)
        results = [
            self.statements.settle(backward.gradients[value]).text
            for value in graph.inputs
            if value in backward.gradients
        ]
        grads = self._give()
        dtype = [f"dtype = {seeds[0]}.dtype"] if self.statements.dtype else []
        body = [*self._docstring(), *taken, *self.size_lines(self._sources(params)), *dtype]
        body += [*self.statements.lines, *grads]
        body += [f"return {', '.join(results)}"] if results else []
        return [*self._head(seeds, len(results)), *indented(body)]

    def _sources(self, params: Sequence[Value]) -> list[Source]:
        assert self.backward is not None
        values = [v for v in self.backward.saved if v.role != "saved"]
        values += [*params, *self.backward.cotangents.values()]
        types = self.statements.types
        return [(self.statements.texts[v].text, types[v].shape) for v in values]

    def _head(self, seeds: Sequence[str], results: int) -> list[str]:
        items = ["params: Params", *(["at: str"] if self.path else [])]
        items += [f"saved: {self.plan.classes[self.graph.key]}"]
        items += [f"{seed}: Array" for seed in seeds] + ["grads: Params"]
        returned = {0: "None", 1: "Array"}.get(results, f"tuple[{', '.join(['Array'] * results)}]")
        name = self.plan.functions[self.graph.key]
        return bracketed(f"def d_{name}(", items, f") -> {returned}:")

    def _docstring(self) -> list[str]:
        place = f"{self.graph.span.source.name.rsplit('/', 1)[-1]}, line {self.graph.span.line}"
        return [f'"""Backward pass of {_safe(self.graph.title)} ({_safe(place)})."""']

    def _give(self) -> list[str]:
        """Lines that hand parameter gradients over."""
        assert self.backward is not None
        own: list[tuple[str, str]] = []
        lines: list[str] = []
        for value in self.graph.param_values():
            gradient = self.backward.gradients.get(value)
            if gradient is None:
                continue
            text = self.statements.settle(gradient).text
            name = str(value.name)
            if {(self.graph.key, name), (self.graph.key, "*")} & self.plan.shared:
                self.plan.helpers["add"] = None
                lines.append(f"add(grads, {self.below(name)}, {text})")
            else:
                own.append((self.below(name), text))
        if len(own) == 1:
            lines.append(f"grads[{own[0][0]}] = {own[0][1]}")
        elif own:
            lines += ["grads |= {", *(f"    {key}: {text}," for key, text in own), "}"]
        return lines

    def _call(self, step: CallBack) -> None:
        call = step.origin
        cotangents = [self.statements.settle(v).text for v in step.cotangents if v]
        results = [(v, self.statements.name(v)) for v in step.outputs if v]
        saved = f"saved.{self.fields[call.saved]}"
        function = f"d_{self.plan.functions[call.callee]}"
        comment = f"# d{self.plan.program.graphs[call.callee].block}, line {call.span.line}"
        names = [name for _, name in results]
        if call.count is None:
            head = f"{', '.join(names)} = {function}(" if names else f"{function}("
            args = ["params", self.below(call.path), saved, *cotangents, "grads"]
            self.statements.lines += [comment, *bracketed(head, args, ")", 4)]
            return
        below = self.below(f"{call.path}.{{i}}") if self.path else f'f"{call.path}.{{i}}"'
        carry, invariants = names[0], names[1:]
        parts = [self.names.fresh(f"{name}_part") for name in invariants]
        args = ["params", below, "one", carry, "grads"]
        head = f"{', '.join([carry, *parts])} = {function}("
        self.statements.lines += [
            comment,
            f"{carry} = {cotangents[0]}",
            *(f"{name}: Any = 0.0" for name in invariants),
            f"for i, one in reversed(list(enumerate({saved}))):",
            *indented(bracketed(head, args, ")", 8)),
            *(f"    {n} = {n} + {p}" for n, p in zip(invariants, parts, strict=True)),
        ]


def _fixed(backward: Backward) -> Iterator[Value]:
    yield from backward.gradients.values()
    for step in backward.steps:
        for value in step.outputs:
            if value is not None and value.name is not None:
                yield value


def _gradient_names(backward: Backward, fields: Mapping[Value, str]) -> dict[Value, str]:
    """Cotangents are called ``d`` and what their forward value is called."""
    bases = _bases(backward.forward)
    names: dict[Value, str] = {}
    for cotangent, value in backward.of.items():
        if cotangent.name is not None:
            names[cotangent] = cotangent.name
        elif value.name is not None:
            names[cotangent] = f"d{value.name}_#"
        else:
            names[cotangent] = "d" + fields.get(value, bases.get(value, "part"))
    return names


# ---- small parts ----------------------------------------------------------------------------------


def _read(steps: Sequence[Apply | Call | CallBack]) -> Iterator[Value]:
    """Every value that steps read, once per reading."""
    for step in steps:
        if isinstance(step, CallBack):
            yield from (value for value in step.cotangents if value is not None)
        else:
            yield from step.inputs


def _uses(steps: Sequence[Apply | Call | CallBack], results: Sequence[Value]) -> Counter[Value]:
    return Counter([*_read(steps), *results])


def _place(plan: Plan, graph: Graph) -> str:
    return 'f"{{at}}.{}"' if plan.has_path(graph) else '"{}"'


def _symbols(graph: Graph) -> set[str]:
    """Every symbol of a size that the code of a graph can mention: no value is called so."""
    found: set[str] = set()
    for type_ in graph.types.values():
        for dim in type_.shape:
            found.update(dim.symbols(), graph.sizes.fold(dim).symbols())
    return found


def _shape_text(type_: TensorType) -> str:
    return "[" + ", ".join(str(dim) for dim in type_.shape) + "]"


def _safe(text: str) -> str:
    """A title inside a docstring: nothing that could end it or hide in it."""
    cleaned = "".join(char if char.isprintable() else " " for char in text)
    return cleaned.replace("\\", "/").replace('"', "'")
