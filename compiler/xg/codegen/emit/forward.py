"""The forward function of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.codegen.emit.bundles import spell_gathered
from xg.codegen.emit.forward_call import run_call
from xg.codegen.emit.line_breaks import bracketed, wrapped
from xg.codegen.emit.locate import Source
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import Names, safe, spell_symbol
from xg.codegen.emit.prepared import prepared_steps
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.statements import Statements, place_of
from xg.codegen.emit.support import private
from xg.codegen.emit.text import Text
from xg.codegen.emit.writer import (
    PassWriter,
    count_uses,
    place_text,
    read_values,
    size_variables,
)
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Graph, Value
from xg.ir.labels import names_by_label, saved_names
from xg.ir.tensor import spell_shape


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


def _shown_names(plan: ModulePlan, graph: Graph) -> dict[Value, str]:
    """The names that the figure gives to values without a label: the code calls them so, too."""
    names = saved_names(plan.program, graph.key)
    return {value: name for value, name in names.items() if value.name is None}


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
        shown = _shown_names(plan, graph)
        names.promise(shown.values())
        scope = Scope(graph.sizes)
        values = [state.next for state in graph.states]
        labelled = {v for step in graph.steps for v in step.outputs if v.name and v.role == "edge"}
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=graph.types,
            wanted={**names_by_label(graph), **shown},
            fixed=frozenset({*labelled, *saved, *graph.outputs, *values}),
            uses=count_uses(graph.steps, (*graph.outputs, *saved, *values)),
            backward=False,
            place=place_text(plan, graph),
            reusable=frozenset(graph.reusable),
        )
        scope.needed.update(dict.fromkeys(sizes))
        return cls(plan, graph, names, scope, statements, saved, sizes)

    def write(self) -> list[str]:
        graph = self.graph
        labels = names_by_label(graph)  # of a piece between two calls an input may be unnamed
        inputs = [self.names.fresh(v.name or labels.get(v, "value")) for v in graph.inputs]
        for value, name in zip(graph.inputs, inputs, strict=True):
            self.statements.texts[value] = Text(name)
        spell_gathered(self, graph.steps)
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
        arriving = ", ".join(self.spelled(value) for value in graph.inputs)
        pairs = zip(graph.output_names, graph.output_types, strict=True)
        leaving = ", ".join(f"{name} {spell_shape(type_.shape)}" for name, type_ in pairs)
        title = f"{safe(graph.title)} ({place_of([graph.span])})."
        return [f'"""{title}', "", *wrapped(f"{arriving} -> {leaving}".strip()), '"""']

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
