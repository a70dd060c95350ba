"""Write the section that makes a generated module a `torch.nn.Module`.

Each block that the entry calls, and each piece of the entry between them, is one step of autograd:
a `torch.autograd.Function` around the block's own forward and backward function. Nothing is traced
inside; between the steps autograd is at work, so optimizers, hooks, checkpointing, data-parallel
wrappers and `torch.compile` find what they expect. Blocks inside blocks are modules too: they hold
their parameters, and run as a step of their own where somebody calls them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.codegen.emit.argument_checks import FLOATS, check_lines, limit_lines, range_lines
from xg.codegen.emit.module import ModuleWriter, Sections
from xg.codegen.emit.module_plan import ModulePlan, size_variables
from xg.codegen.emit.names import Names, mentioned_names, safe, spell_symbol
from xg.codegen.emit.sizes import Source, locate
from xg.codegen.emit.spelling import Scope, private
from xg.codegen.emit.text import bracketed, dictionary, indent_lines, tuple_of, wrap_text
from xg.codegen.torch.block_class import (
    AutogradStep,
    BlockModule,
    call_without_grad,
    holds,
    members,
    set_child,
    set_param,
)
from xg.codegen.torch.templates import PATHS, SETTLE, SHAPES, WEIGHTS, around
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Call, Graph, IRProgram, Value
from xg.ir.labels import value_names
from xg.ir.size_checks import closure, symbols_of
from xg.ir.walk import reachable_keys

# Lines of a model that refuse inputs of other shapes, by the names that the file gives them.


def input_sources(graph: Graph, given: str) -> list[Source]:
    """The inputs in the dict `given`; the number of axes is checked where one is read."""
    shapes = [(value, graph.types[value].shape) for value in graph.inputs]
    return [(f'_array({given}, "{value.name}", {len(shape)})', shape) for value, shape in shapes]


def shape_lines(
    graph: Graph, given: str, wanted: str, own: Sequence[Source], scope: Scope
) -> list[str]:
    """A check of all inputs whose sizes they carry themselves, or parameters of the model.

    `given` is the variable of the inputs, `wanted` that of their shapes, if the line is long.
    """
    items = [
        f'"{value.name}": {tuple_of(scope.shape(graph.types[value].shape))}'
        for value in _known(graph, own)
    ]
    more = "" if len(items) == len(graph.inputs) else f"*{given}"
    return check_lines("arrays", items, "{}", wanted, more, 8, given) if items else []


def _known(graph: Graph, own: Sequence[Source]) -> Iterator[Value]:
    sizes = graph.sizes
    shapes = [*(shape for _, shape in own), *(graph.types[value].shape for value in graph.inputs)]
    carried = symbols_of(shapes, sizes)
    for value in graph.inputs:
        shape = graph.types[value].shape
        symbols = {name for dim in shape for name in sizes.fold_exactly(dim).symbols()}
        names, defined = closure(symbols, carried, sizes)
        if {*carried, *defined}.issuperset(names):
            yield value


def model_section(writer: ModuleWriter, outlined: IRProgram) -> Sections:
    """`Model` and modules for all blocks, pieces of the entry and a step for every callee."""
    return _Section(writer, outlined.main).sections()


@dataclass(slots=True)
class _Section:
    writer: ModuleWriter
    entry: Graph  # of calls only
    modules: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's module
    steps: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's step

    def sections(self) -> Sections:
        """The classes of a reader's interest first, and what they call."""
        graphs, written = self.writer.program.graphs, {*self.writer.saved, *self.plan.recurrences}
        keys = self._callees()
        below = {key for each in keys for key in reachable_keys(graphs, each)}
        own = [key for key in graphs if key in below and key not in written]  # callees first
        pieces = {key: list(self.writer.block(key)) for key in own}
        for key in keys:
            self._name(key)
        public = [self._model()]
        steps: list[list[str]] = []
        for key in keys:
            steps += pieces.pop(key, [])
            if key in self.steps:
                backward = self.writer.program.backwards[key]
                steps.append(
                    AutogradStep(self.plan, graphs[key], backward, self.steps[key]).lines()
                )
            if key in self.modules:
                block = BlockModule(
                    self.plan, graphs[key], self._held(key), self.modules, self.steps
                )
                public.append(block.lines())
        steps = [*(line for inner in pieces.values() for line in inner), *steps]
        several = any(len(graphs[key].outputs) > 1 for key in self.steps)
        support = [SHAPES, *([WEIGHTS] if self.modules else [])]
        support += [PATHS] if "paths" in self.plan.helpers else []
        support += [SETTLE] if self.plan.moved and self.steps else []
        flat = not self.plan.frees_saved_values and all(map(self._saves_tensors, self.steps))
        support += around(self.plan.frees_saved_values, several, flat=flat) if self.steps else []
        return Sections(public, steps, [list(text.rstrip().splitlines()) for text in support])

    @property
    def plan(self) -> ModulePlan:
        return self.writer.plan

    def _saves_tensors(self, key: str) -> bool:
        """Whether a block saves tensors alone: no records of calls, sizes or seeds."""
        forward, sizes = self.writer.saved[key]
        records = any(value.role == "saved" for value in forward.fields)
        return not (records or sizes or key in self.plan.redrawn)

    def _calls(self) -> Iterator[Call]:
        yield from self.entry.calls

    def _callees(self) -> list[str]:
        """The graphs below the entry, callers first."""
        keys = list(dict.fromkeys(call.callee for call in self._calls()))
        for key in keys:  # grows on the way
            inner = dict.fromkeys(call.callee for call in self._held(key).named_calls())
            keys += [callee for callee in inner if callee not in keys]
        return keys

    def _held(self, key: str) -> Graph:
        """The graph whose parameters the module of a callee holds: of a loop, what it calls."""
        graphs = self.writer.program.graphs
        under = {call.path: graphs[call.callee] for call in graphs[key].named_calls()}
        return under.get("", graphs[key])

    def _name(self, key: str) -> None:
        """Names for the classes of one callee; without gradients or functions it has no step."""
        names = self.plan.operators.names
        base = self.plan.classes[key].removesuffix("Saved")
        backward = self.writer.program.backwards[key]
        derives = backward.gradients or backward.calls  # which may have parameters with gradients
        if key not in self.plan.recurrences and derives:
            self.steps[key] = names.fresh(f"{base}Step")
        if self.plan.has_path(self.writer.program.graphs[key]):
            self.modules[key] = names.fresh(base)

    # ---- the model ------------------------------------------------------------------------------

    def _model(self) -> list[str]:
        return [
            "class Model(torch.nn.Module):",
            *indent_lines(wrap_text(f'"""{safe(self.entry.title)} with its parameters."""')),
            "",
            *indent_lines(self._init()),
            "",
            *indent_lines(self._forward()),
            *members(self.entry),
        ]

    def _init(self) -> list[str]:
        scope, entry = Scope(self.entry.sizes), self.entry
        names: list[str] = []
        for param in self.writer.program.main.params:
            names += set_param(entry, param.value, f'"{param.value.name}"')
        for call in entry.named_calls():
            if call.path:
                count = scope.size(call.count).text if call.count is not None else ""
                row = f'f"{call.path}.{{i}}") for i in range({count}' if count else ""
                names += set_child(entry, call, self.modules[call.callee], call.path, row)
        params = self.writer.params
        needed = dict.fromkeys([*params.sizes, *scope.needed])
        chosen, _ = params.chosen_sizes(params.sizes)
        _, defined = params.chosen_sizes(scope.needed)
        params.chosen_sizes(needed)
        items = [item.split(":")[0] for item in params.dialect.types]
        items += [f"{name}={name}" for name in map(spell_symbol, chosen)]
        arguments = ["self", *params.init_arguments(chosen)]
        drawn = bracketed("params = init(", ["seed", *items], ")", 8) if names else []
        body = ["super().__init__()", *drawn, *defined, *names]
        return [*bracketed("def __init__(", arguments, ") -> None:", 4), *indent_lines(body)]

    def _own(self, name: str) -> str:
        """A parameter of the model, or of a module in it: ``self.E``, ``self.bert.E``."""
        if holds(self.entry, name):
            return f"self.{name}"
        *path, last = name.split(".")
        text, graph = "self", self.entry
        for part in path:
            calls = {call.path: call.callee for call in graph.named_calls()}
            text += f".{part}" if holds(graph, part) else f'._modules["{part}"]'
            graph = self._held(calls[part]) if part in calls else graph
        return f"{text}.{last}" if holds(graph, last) else f'{text}._parameters["{last}"]'

    def _forward(self) -> list[str]:
        entry = self.entry
        scope = Scope(entry.sizes)
        range_lines(self.plan, scope, [""] * len(entry.inputs), 8)  # the sizes that they mention
        self._whole_lines(scope)  # so do these
        shape_lines(entry, "", "", self._sources(own=True), scope)  # these mention sizes, too
        sizes = {spell_symbol(name) for name in scope.needed} | self.plan.passed_sizes(entry)
        names = Names(size_variables(entry) | sizes | {"seed"})
        inputs = {value: names.fresh(str(value.name)) for value in entry.inputs}
        given = names.fresh("inputs")
        wanted, own = names.fresh("shapes"), self._sources(own=True)
        checks = shape_lines(entry, given, wanted, own, scope)
        checks += self._float_line(given)
        checks += range_lines(self.plan, scope, list(inputs.values()), 8)
        checks += self._whole_lines(scope)
        texts = inputs | {p.value: self._own(str(p.value.name)) for p in entry.params}
        labels = value_names(self.plan.program, entry.key)
        code: list[str] = []
        for call in self._calls():
            args = [texts[value] for value in call.inputs]
            for value in call.outputs:
                texts[value] = names.fresh(labels.get(value) or "value")
            results = [texts[value] for value in call.outputs]
            code += self._call(call, args, results, scope)
        checks = [*self._size_lines(scope, given), *checks]
        pairs = zip(entry.output_names, entry.outputs, strict=True)
        outputs = [f'"{name}": {texts[value]}' for name, value in pairs]
        seeded = any(call.callee in self.plan.random for call in self._calls())
        parameters = ["self", *(f"{name}: Array" for name in inputs.values())]
        parameters += ["*", "seed: Seed = None"] if seeded else []
        head = bracketed("def forward(", parameters, ") -> dict[str, Array]:", 4)
        return [
            *head,
            *indent_lines(_docstring(seeded)),
            *indent_lines(_dict_of(given, inputs) if given in mentioned_names(checks) else []),
            *indent_lines(checks),
            *indent_lines(_drawn_seed(list(inputs.values())) if seeded else []),
            *indent_lines(self._type_lines(scope, inputs)),
            *indent_lines(code),
            *indent_lines(bracketed("return {", outputs, "}", 8)),
        ]

    def _float_line(self, given: str) -> list[str]:
        """The line that refuses inputs of another type than the first parameter."""
        graph = self.entry
        names = [f'"{value.name}"' for value in graph.inputs if graph.types[value].is_float]
        if not names:
            return []
        self.plan.operators.support[FLOATS] = None
        own = [str(param.value.name) for param in graph.params][:1]
        first = f'{{"{own[0]}": {self._own(own[0])}}}' if own else "dict(self.named_parameters())"
        return bracketed(f"{private(FLOATS)}(", [first, given, *names], ")", 8)

    def _call(
        self, call: Call, args: Sequence[str], results: Sequence[str], scope: Scope
    ) -> list[str]:
        """A piece, a module, or a row of modules."""
        sizes = [
            scope.size(call.sizes.get(name, symbol(name))).text
            for name in self.plan.arguments[call.callee]
        ]
        sizes += scope.types(self.plan.types.get(call.callee, ()))
        seeded = call.callee in self.plan.random
        left = ", ".join(results)
        if not call.path:
            return self._piece_call(call, list(args), sizes, left)
        passed = [*sizes, *(["seed=seed"] if seeded else [])]
        usual = holds(self.entry, call.path)
        module = f"self.{call.path}" if usual else "block" if call.count is None else "blocks"
        names = [] if usual else [f'{module}: Any = self._modules["{call.path}"]']
        if call.count is None:
            return [*names, *bracketed(f"{left} = {module}(", [*args, *passed], ")", 8)]
        rest = [results[0], *args[1:], *passed]
        return [
            *names,
            f"{left} = {args[0]}",
            f"for block in {module}:",
            *indent_lines(bracketed(f"{left} = block(", rest, ")", 12)),
        ]

    def _piece_call(self, call: Call, args: list[str], sizes: list[str], left: str) -> list[str]:
        graph = self.writer.program.graphs[call.callee]
        params = [str(param.value.name) for param in graph.params]
        seeded = call.callee in self.plan.random
        if call.callee not in self.steps:  # nothing in it has a gradient
            own_params = ", ".join(f'"{name}": {self._own(name)}' for name in params)
            function = self.plan.functions[call.callee]
            args = [f"{{{own_params}}}", *args, *sizes, *(["seed=seed"] if seeded else [])]
            return call_without_grad(graph, f"{left}, _ = {function}(", args)
        names = [f'"{name}"' for name in params]
        listed = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
        args = [listed, *(["seed"] if seeded else []), *sizes, *args, *map(self._own, params)]
        return bracketed(f"{left} = {self.steps[call.callee]}.apply(", args, ")", 8)

    def _type_lines(self, scope: Scope, inputs: Mapping[Value, str]) -> list[str]:
        """Lines that fetch float type and device, for callees without a tensor."""
        empty = "next(self.parameters())" if self.plan.has_params else self.plan.spelling.empty
        floats = [text for value, text in inputs.items() if self.entry.types[value].is_float]
        return scope.type_lines(floats, list(inputs.values()), empty)

    def _sources(self, *, own: bool) -> list[Source]:
        """Return the parameters of the model itself, or else the parameters of its modules."""
        values = [param.value for param in self.entry.params]
        return [
            (self._own(str(value.name)), self.entry.types[value].shape)
            for value in values
            if ("." not in str(value.name)) == own
        ]

    def _whole_lines(self, scope: Scope) -> list[str]:
        """Lines that refuse sizes of inputs, those that do not divide too; ``init`` saw others."""
        sources, whole = self._sources(own=True), self.writer.params.whole
        numbers = self.entry.sizes.defaults.keys() - whole.carried
        seen = symbols_of((shape for _, shape in sources), self.entry.sizes) | numbers
        sources += input_sources(self.entry, "")

        def is_open(*dims: Dim) -> bool:
            return not all(seen >= {*dim.symbols()} for dim in dims)

        limits = limit_lines(
            self.writer.program,
            scope,
            lambda each: is_open(each.smaller, each.larger),
            indent=8,
        )
        return [*limits, *whole.lines(sources, scope, is_open)]

    def _size_lines(self, scope: Scope, given: str) -> list[str]:
        """Sizes that steps take as numbers and shapes mention: inputs are to fit parameters."""
        sources = [*self._sources(own=True), *input_sources(self.entry, given)]
        sources += self._sources(own=False)
        inner = self.plan.sources.inner(self.entry).items()
        params = [(self._own(path), shape) for path, shape in inner]
        sizes, span = self.entry.sizes, self.entry.span
        defaults = sizes.defaults
        lines = locate(
            scope.needed, sources, sizes, defaults, span, inner=params, by_definition=True
        )
        self.plan.constants.update(lines.constants)
        if "_array" in mentioned_names(lines.lines):
            self.plan.helpers["array"] = None
        return lines.lines


def _dict_of(given: str, inputs: Mapping[Value, str]) -> list[str]:
    items = [f'"{value.name}": {text}' for value, text in inputs.items()]
    return dictionary(f"{given} = ", items, "", 8)


def _docstring(seeded: bool) -> list[str]:
    if seeded:
        return ['"""Outputs by name; in training, dropout draws a seed if none is given."""']
    return ['"""Outputs by name."""']


def _drawn_seed(inputs: Sequence[str]) -> list[str]:
    device = f", device={inputs[0]}.device" if inputs else ""
    return ["if seed is None and self.training:", f"    seed = torch.randint(2**62, (){device})"]
