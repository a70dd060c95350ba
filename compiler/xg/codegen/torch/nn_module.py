"""The section that makes a generated module a `torch.nn.Module`.

Each block that the entry calls, and each piece of the entry between them, is one step of autograd:
a `torch.autograd.Function` around the block's own forward and backward function. Nothing is traced
inside; between the steps autograd is at work, so optimizers, hooks, checkpointing, data-parallel
wrappers and `torch.compile` find what they expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xg.codegen.emit.line_breaks import bracketed, indented
from xg.codegen.emit.locate import Source, locate
from xg.codegen.emit.module import ModuleWriter
from xg.codegen.emit.names import Names, spell_symbol
from xg.codegen.emit.plan import ModulePlan
from xg.codegen.emit.public import PublicWriter
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.writer import names_by_label, safe, size_variables
from xg.codegen.torch.members import is_attribute
from xg.codegen.torch.step import Step, returned_type, size_arguments, variables
from xg.codegen.torch.templates import NAMED, SETTING, around
from xg.ir.dim import symbol
from xg.ir.graph import Backward, Call, Graph, Program, Value


def model_section(writer: ModuleWriter, public: PublicWriter, outlined: Program) -> list[list[str]]:
    """Pieces of the entry, a step for every callee, modules for blocks, and `Model`."""
    return _Section(writer, public, outlined.main).lines()


@dataclass(slots=True)
class _Section:
    writer: ModuleWriter
    public: PublicWriter
    entry: Graph  # of calls only
    modules: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's module
    steps: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's step

    def lines(self) -> list[list[str]]:
        written = set(self.writer.saved)
        parts = [self._named()]  # a class precedes those that use it
        for key in dict.fromkeys(call.callee for call in self._calls()):
            if key not in written:
                parts += self.writer.block(key)
            parts += self._callee(key)
        parts.append(self._model())
        several = any(len(self.writer.program.graphs[key].outputs) > 1 for key in self.steps)
        templates = around(self.plan.frees_saved, several)
        return parts + [list[str](text.rstrip().splitlines()) for text in templates]

    def _named(self) -> list[str]:
        """The modules that hold parameters."""
        ambiguous = any(map(_is_ambiguous, self.writer.program.graphs.values()))
        text = f"{NAMED}\n{SETTING}" if ambiguous else NAMED
        return list[str](text.rstrip().splitlines())

    @property
    def plan(self) -> ModulePlan:
        return self.writer.plan

    def _calls(self) -> Iterator[Call]:
        yield from (step for step in self.entry.steps if isinstance(step, Call))

    def _backward(self, key: str) -> Backward:
        return self.writer.program.backwards[key]

    def _callee(self, key: str) -> Iterator[list[str]]:
        """The classes of one callee; one through which no gradient goes needs none."""
        names = self.plan.operators.names
        graph = self.writer.program.graphs[key]
        base = self.plan.classes[key].removesuffix("Saved")
        if self._backward(key).gradients:
            self.steps[key] = names.fresh(f"{base}Step")
            yield Step(self.plan, graph, self._backward(key), self.steps[key]).lines()
        if self.plan.has_path(graph):
            self.modules[key] = names.fresh(base)
            yield self._module(graph)

    # ---- a block as a module --------------------------------------------------------------------

    def _module(self, graph: Graph) -> list[str]:
        inputs = variables(graph.inputs, graph)
        sizes = size_arguments(self.plan, graph)
        seeded = graph.key in self.plan.random
        given = ["self", *(f"{name}: Array" for name in inputs), *(f"{n}: int" for n in sizes)]
        given += ["*", "seed: Seed = None"] if seeded else []
        passed = [*(["seed"] if seeded else []), *sizes, *inputs]
        returned = returned_type(len(graph.outputs))
        if graph.key in self.steps:
            head, args = f"return {self.steps[graph.key]}.apply(", ["self._at", "self._names"]
            call = bracketed(head, [*args, *passed, "*self._weights()"], ")", 8)
        else:
            call = self._plain_call(graph, inputs, sizes)
        return [
            f"class {self.modules[graph.key]}(Named):",
            f'    """{safe(graph.title)} at its place in the model."""',
            "",
            *indented(bracketed("def forward(", given, f") -> {returned}:", 4)),
            *indented(call, 8),
        ]

    def _plain_call(self, graph: Graph, inputs: list[str], sizes: list[str]) -> list[str]:
        """The function itself, of a block without gradients."""
        function = self.plan.functions[graph.key]
        results = variables(graph.outputs, graph)
        args = ["dict(zip(self._names, self._weights()))", "self._at", *inputs, *sizes]
        args += ["seed=seed"] if graph.key in self.plan.random else []
        head = f"{', '.join([*results, '_'])} = {function}("
        return [*bracketed(head, args, ")", 8), f"return {', '.join(results)}"]

    # ---- the model ------------------------------------------------------------------------------

    def _model(self) -> list[str]:
        return [
            "class Model(Named):",
            f'    """{safe(self.entry.title)} as a module."""',
            "",
            *indented(self._init()),
            "",
            *indented(self._forward()),
        ]

    def _init(self) -> list[str]:
        scope = Scope(self.entry.sizes)
        made: list[str] = []
        for call in self.entry.named_calls():
            if call.path:
                made += self._submodule(call, scope)
        needed = dict.fromkeys([*self.public.sizes, *scope.needed])
        chosen, _ = self.public.chosen_sizes(self.public.sizes)
        _, defined = self.public.chosen_sizes(scope.needed)
        self.public.chosen_sizes(needed)
        given = [item.split(":")[0] for item in self.public.dialect.types]
        given += [f"{name}={name}" for name in map(spell_symbol, chosen)]
        arguments = ["self", *self.public.init_arguments(chosen)]
        return [
            *bracketed("def __init__(", arguments, ") -> None:", 4),
            *indented(bracketed("params = init(", ["seed", *given], ")", 8)),
            '    own = {name: value for name, value in params.items() if "." not in name}',
            '    super().__init__(own, "")',
            *indented([*defined, *made]),
        ]

    def _submodule(self, call: Call, scope: Scope) -> list[str]:
        kind = self.modules[call.callee]
        place = self._place(call.path)
        if call.count is None:
            return [f'{place} = {kind}(params, "{call.path}")']
        count = scope.size(call.count).text
        made = f'[{kind}(params, f"{call.path}.{{i}}") for i in range({count})]'
        return bracketed(f"{place} = torch.nn.ModuleList(", [made], ")", 8)

    def _place(self, path: str) -> str:
        """Where the model keeps the module of a call."""
        return f"self.{path}" if self._is_attribute(path) else f'self._modules["{path}"]'

    def _own(self, name: str) -> str:
        """A parameter of the model: ``self.E``."""
        return f"self.{name}" if self._is_attribute(name) else f'self._weight("{name}")'

    def _is_attribute(self, path: str) -> bool:
        """Whether ``self.PATH`` says it, and does not mean a parameter and a call at once."""
        ambiguous = _params(self.entry) & _calls(self.entry)
        return is_attribute(path) and path.split(".")[0] not in ambiguous

    def _forward(self) -> list[str]:
        entry = self.entry
        names = Names(size_variables(entry) | self.plan.passed_sizes(entry) | {"seed"})
        inputs = {value: names.fresh(str(value.name)) for value in entry.inputs}
        scope = Scope(entry.sizes)
        texts = inputs | {p.value: self._own(str(p.value.name)) for p in entry.params}
        wanted = names_by_label(entry)
        code: list[str] = []
        for call in self._calls():
            args = [texts[value] for value in call.inputs]
            for value in call.outputs:
                texts[value] = names.fresh(wanted.get(value) or "value")
            results = [texts[value] for value in call.outputs]
            code += self._call(call, args, results, scope)
        pairs = zip(entry.output_names, entry.outputs, strict=True)
        outputs = [f'"{name}": {texts[value]}' for name, value in pairs]
        seeded = any(call.callee in self.plan.random for call in self._calls())
        given = ["self", *(f"{name}: Array" for name in inputs.values())]
        given += ["*", "seed: Seed = None"] if seeded else []
        head = bracketed("def forward(", given, ") -> dict[str, Array]:", 4)
        return [
            *head,
            *indented(_docstring(seeded)),
            *indented(_drawn_seed(list(inputs.values())) if seeded else []),
            *indented(self._size_lines(scope, inputs)),
            *indented(code),
            *indented(bracketed("return {", outputs, "}", 8)),
        ]

    def _call(
        self, call: Call, args: Sequence[str], results: Sequence[str], scope: Scope
    ) -> list[str]:
        """A piece, a module, or a row of modules."""
        sizes = [
            scope.size(call.sizes.get(name, symbol(name))).text
            for name in self.plan.arguments[call.callee]
        ]
        seeded = call.callee in self.plan.random
        left = ", ".join(results)
        if not call.path:
            return self._piece_call(call, list(args), sizes, left)
        passed = [*sizes, *(["seed=seed"] if seeded else [])]
        usual, found = self._is_attribute(call.path), f'self._child(["{call.path}"])'
        if call.count is None and usual:
            return bracketed(f"{left} = self.{call.path}(", [*args, *passed], ")", 8)
        if call.count is None:
            run = bracketed(f"{left} = block(", [*args, *passed], ")", 8)
            return [f"block = {found}", *run]
        rows = f"self.{call.path}" if usual else f"{found}.children()"
        rest = [results[0], *args[1:], *passed]
        return [
            f"{left} = {args[0]}",
            f"for block in {rows}:",
            *indented(bracketed(f"{left} = block(", rest, ")", 12)),
        ]

    def _piece_call(self, call: Call, args: list[str], sizes: list[str], left: str) -> list[str]:
        graph = self.writer.program.graphs[call.callee]
        params = [str(param.value.name) for param in graph.params]
        seeded = call.callee in self.plan.random
        if call.callee not in self.steps:  # nothing in it has a gradient
            given = ", ".join(f'"{name}": {self._own(name)}' for name in params)
            function = self.plan.functions[call.callee]
            args = [f"{{{given}}}", *args, *sizes, *(["seed=seed"] if seeded else [])]
            return bracketed(f"{left}, _ = {function}(", args, ")", 8)
        names = [f'"{name}"' for name in params]
        listed = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
        args = [listed, *(["seed"] if seeded else []), *sizes, *args, *map(self._own, params)]
        return bracketed(f"{left} = {self.steps[call.callee]}.apply(", args, ")", 8)

    def _size_lines(self, scope: Scope, inputs: Mapping[Value, str]) -> list[str]:
        """Sizes that steps take as numbers."""
        types = self.entry.types
        sources: list[Source] = [(text, types[value].shape) for value, text in inputs.items()]
        sources += [
            (self._own(str(param.value.name)), types[param.value].shape)
            for param in self.entry.params
        ]
        sizes, span = self.entry.sizes, self.entry.span
        found = locate(scope.needed, sources, sizes, sizes.defaults, span)
        self.plan.constants.update(found.constants)
        return found.lines


def _is_ambiguous(graph: Graph) -> bool:
    """Whether a name would mean two attributes to torch."""
    params, calls = _params(graph), _calls(graph)
    return "training" in params | calls or not params.isdisjoint(calls)


def _params(graph: Graph) -> set[str]:
    return {str(param.value.name) for param in graph.params}


def _calls(graph: Graph) -> set[str]:
    return {call.path for call in graph.named_calls()}


def _docstring(seeded: bool) -> list[str]:
    if seeded:
        return ['"""Outputs by name; in training, dropout draws a seed if none is given."""']
    return ['"""Outputs by name."""']


def _drawn_seed(inputs: Sequence[str]) -> list[str]:
    device = f", device={inputs[0]}.device" if inputs else ""
    return ["if seed is None and self.training:", f"    seed = torch.randint(2**62, (){device})"]
