"""Write the forward function of a block, and the numbers that parameters alone decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from xg.codegen.emit.call_text import run_call
from xg.codegen.emit.function import OperatorFunction, operator_function
from xg.codegen.emit.module_plan import (
    ModulePlan,
    PassWriter,
    count_uses,
    place_text,
    read_values,
    size_variables,
)
from xg.codegen.emit.names import Names, safe, spell_symbol
from xg.codegen.emit.parameters import Key, Row, Symbols, named_lines, spell_gathers
from xg.codegen.emit.sizes import Source
from xg.codegen.emit.spelling import Scope, private
from xg.codegen.emit.statements import Statements, describe, function_name
from xg.codegen.emit.text import Text, bracketed, call, indent_lines, wrap_text
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import remove_stops
from xg.ir.graph import Apply, Graph, Value
from xg.ir.labels import value_names
from xg.ir.tensor import spell_shape
from xg.ir.walk import PREPARED

# Numbers of parameters alone as text: computed where parameters are prepared, fetched by steps.


def prepared_steps(plan: ModulePlan, graph: Graph) -> Mapping[Apply, OperatorFunction]:
    """The steps of a graph that a module with `prepared` runs there, with their functions.

    A function that takes more than arrays stays in the step: there its sizes are known.
    """
    if not plan.prepares:
        return {}
    found: dict[Apply, OperatorFunction] = {}
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.glyph == PREPARED:
            body = remove_stops(step.body(graph.types))
            args = step.op, body, step.attrs, graph.sizes, plan.spelling
            function = operator_function(*args)
            if not (function.sizes or function.own or function.dtype or function.device):
                found[step] = function
    return found


def prepared_values(plan: ModulePlan, graph: Graph) -> list[Value]:
    """The values that a step fetches among parameters."""
    return [step.outputs[0] for step in prepared_steps(plan, graph)]


@dataclass(frozen=True, slots=True)
class PreparedNumbers:
    """The functions of a module that list these numbers and compute them.

    `sizes` are the symbols that both need, which count rows of calls.
    """

    names: list[str]
    values: list[str]
    sizes: tuple[str, ...]

    @classmethod
    def of(cls, plan: ModulePlan) -> PreparedNumbers | None:
        """Return the prepared numbers of a module, or None if it has no such numbers."""
        if not any(prepared_steps(plan, graph) for graph in plan.program.graphs.values()):
            return None
        scope = Scope(plan.program.main.sizes)
        values = named_lines(plan.program, scope, partial(_values, plan), "Params")
        names = named_lines(plan.program, scope, partial(_names, plan), "dict[str, str]")
        sizes = tuple(scope.needed)
        kinds = [f"{spell_symbol(name)}: int" for name in sizes]
        more = ["*", *kinds] if kinds else []
        return cls(
            [
                *bracketed("def _number_names(", more, ") -> dict[str, str]:"),
                '    """Numbers that `prepared` adds, each with a parameter that it is of."""',
                *indent_lines(names),
            ],
            [
                *bracketed("def _numbers(", ["params: Params", *more], ") -> Params:"),
                '    """Numbers that depend on parameters alone, which each step reads."""',
                *indent_lines(values),
            ],
            sizes,
        )

    def given(self) -> list[str]:
        """The arguments of both."""
        return [f"{name}={name}" for name in map(spell_symbol, self.sizes)]


def _values(plan: ModulePlan, graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    """Each number with the call that computes it."""
    return [
        (str(step.outputs[0].name), partial(_call, plan, step, function))
        for step, function in prepared_steps(plan, graph).items()
    ]


def _call(plan: ModulePlan, step: Apply, function: OperatorFunction, key: Key) -> str:
    called = plan.operators.name(function_name(step.op.name), function)
    return call(called, *(f"params[{key(str(value.name))}]" for value in step.inputs)).text


def _names(plan: ModulePlan, graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    """Each number with the first of its parameters."""

    def first(step: Apply) -> Callable[[Key], str]:
        return lambda key: key(str(step.inputs[0].name))

    return [(str(step.outputs[0].name), first(step)) for step in prepared_steps(plan, graph)]


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward function of a block: its lines, the saved fields, the names of its variables."""

    lines: list[str]
    fields: Mapping[Value, str]
    names: Mapping[Value, str]


def forward_function(
    plan: ModulePlan, graph: Graph, saved: Sequence[Value], sizes: Sequence[str] = ()
) -> Forward:
    """The forward function of a graph; `saved` values and `sizes` are kept for the backward."""
    writer = _ForwardWriter.start(plan, graph, saved, sizes)
    lines = writer.write()
    names = {value: text.text for value, text in writer.statements.texts.items()}
    return Forward(lines, writer.fields, names)


@dataclass(slots=True)
class _ForwardWriter(PassWriter):
    saved: Sequence[Value] = ()
    saved_sizes: Sequence[str] = ()
    fields: dict[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def start(
        cls, plan: ModulePlan, graph: Graph, saved: Sequence[Value], sizes: Sequence[str]
    ) -> _ForwardWriter:
        names = Names(size_variables(graph) | plan.passed_sizes(graph))
        wanted = value_names(plan.program, graph.key)  # the figure calls them so, too
        names.promise(name for value, name in wanted.items() if value.name is None)
        scope = Scope(graph.sizes)
        values = [state.next for state in graph.states]
        labeled = {v for step in graph.steps for v in step.outputs if v.name and v.role == "edge"}
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=graph.types,
            wanted=wanted,
            fixed=frozenset({*labeled, *saved, *graph.outputs, *values}),
            uses=count_uses(graph.steps, (*graph.outputs, *saved, *values)),
            backward=False,
            place=place_text(plan, graph),
            reusable=frozenset(graph.reusable),
        )
        scope.needed.update(dict.fromkeys(sizes))
        return cls(plan, graph, names, scope, statements, saved, sizes)

    def write(self) -> list[str]:
        graph = self.graph
        labels = self.statements.wanted  # of a piece between two calls an input may be unnamed
        inputs = [self.names.fresh(v.name or labels.get(v, "value")) for v in graph.inputs]
        for value, name in zip(graph.inputs, inputs, strict=True):
            self.statements.texts[value] = Text(name)
        spell_gathers(self, graph.steps)
        made = prepared_steps(self.plan, graph)
        for step in made:
            self.statements.uses.subtract(step.inputs)
        fetched = (*graph.param_values(), *(step.outputs[0] for step in made))
        params = [value for value in fetched if self.statements.uses[value]]
        taken = [*self.take_params(params), *self._take_states()]
        needed = set(read_values(graph.steps)) | set(self.saved) | set(graph.outputs)
        needed |= {state.next for state in graph.states}
        again = self._caches_again()
        self.statements.unread |= again - needed
        needed |= again
        for step in graph.steps:
            if step in made:
                continue
            if isinstance(step, Apply):
                keep = [v for v in step.outputs if v in needed or v.role != "cache"]
                if not needed.isdisjoint(keep):  # the loss of a gradient may have no other reader
                    self.statements.apply(step, keep)
            else:
                run_call(self, step)
        results = [self.statements.materialize(value).text for value in graph.outputs]
        fields = self._saved_fields()
        code = [*self.statements.lines, *self._keep(), *self._return(results, fields)]
        sizes = self.size_lines(self._sources(params), code)
        before = [*self._docstring(), *taken, *sizes, *self._type_lines()]
        return self.function(self._head(inputs), before, code)

    def _caches_again(self) -> set[Value]:
        """Caches of the steps that the backward pass runs again: both call the same function."""
        backward = self.plan.program.backwards.get(self.graph.key)
        steps = backward.steps if backward else ()
        read = set(read_values(steps))
        again = [step for step in steps if isinstance(step, Apply) and step.again]
        return {v for step in again for v in step.outputs if v.role == "cache" and v in read}

    def _sources(self, params: Sequence[Value]) -> list[Source]:
        types = self.graph.types
        values = [*self.graph.inputs, *(state.past for state in self.graph.states), *params]
        sources = [(self.statements.texts[v].text, types[v].shape) for v in values]
        return [*sources, *self.untaken_params(params)]

    def _type_lines(self) -> list[str]:
        texts = self.statements.texts
        params = [texts[v].text for v in self.graph.param_values() if v in texts]
        inputs = [(texts[v].text, self.graph.types[v].is_float) for v in self.graph.inputs]
        floats = [text for text, is_float in inputs if is_float]
        return self.type_lines([*floats, *params], [*(text for text, _ in inputs), *params])

    def _head(self, inputs: Sequence[str]) -> list[str]:
        kinds = [f"{name}: Array" for name in inputs]
        self.plan.arguments[self.graph.key] = self.lost
        kinds += [f"{name}: {kind}" for name, kind in self.plan.passed(self.graph).items()]
        items = [f"params: {self.plan.params_kind}"]
        if self.graph.key in self.plan.stateful:
            items += ["cache: Params", "kept: Params"]
        items += [*(["at: str"] if self.path else []), *kinds]
        if self.graph.key in self.plan.random:
            items += ["*", f"seed: {self.plan.spelling.seed}"]
        results = ["Array"] * len(self.graph.outputs)
        results += [self.plan.classes[self.graph.key]] if self.plan.saves else []
        returned = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
        name = self.plan.functions[self.graph.key]
        return bracketed(f"def {name}(", items, f") -> {returned}:")

    def _docstring(self) -> list[str]:
        graph = self.graph
        arriving = ", ".join(self.spell_value(value) for value in graph.inputs)
        pairs = zip(graph.output_names, graph.output_types, strict=True)
        leaving = ", ".join(f"{name} {spell_shape(type_.shape)}" for name, type_ in pairs)
        title = safe(describe(graph))
        return [f'"""{title}.', "", *wrap_text(f"{arriving} -> {leaving}".strip()), '"""']

    def _saved_fields(self) -> list[str]:
        names = Names(size_variables(self.graph))  # sizes may be saved beside them
        names.reserve(["seed"] if self.graph.key in self.plan.redrawn else [])
        texts: list[str] = []
        for value in self.saved:
            text = self.statements.materialize(value).text
            field_name = text.removesuffix("_saved") if value.role == "saved" else text
            self.fields[value] = names.fresh(field_name)
            texts.append(text)
        seed = ["seed"] if self.graph.key in self.plan.redrawn else []
        return [*texts, *self._saved_sizes(), *seed]

    def _saved_sizes(self) -> list[str]:
        names = [spell_symbol(name) for name in self.saved_sizes]
        kind = self.plan.spelling.saved_size
        if names and kind:
            self.plan.operators.support[kind] = None
            return [f"{private(kind)}({name})" for name in names]
        return names

    # ---- states ---------------------------------------------------------------------------------

    def _take_states(self) -> list[str]:
        """Lines that fetch what the step before has left."""
        lines: list[str] = []
        for state in self.graph.states:
            name = self.names.fresh(str(state.past.name))
            self.statements.texts[state.past] = Text(name)
            lines.append(f"{name} = cache[{self.below(state.name)}]")
        return lines

    def _keep(self) -> list[str]:
        """Lines that leave something to the next step."""
        return [
            f"kept[{self.below(state.name)}] = {self.statements.materialize(state.next).text}"
            for state in self.graph.states
        ]

    # ---- results --------------------------------------------------------------------------------

    def _return(self, results: Sequence[str], fields: Sequence[str]) -> list[str]:
        if not self.plan.saves:
            return [f"return {', '.join(results)}"]
        saved = f"{self.plan.classes[self.graph.key]}("
        lines = bracketed(f"return {', '.join(results)}, {saved}", fields, ")", 4)
        if len(lines) == 1:
            return lines
        return [
            *bracketed(f"saved = {saved}", fields, ")", 4),
            f"return {', '.join([*results, 'saved'])}",
        ]
