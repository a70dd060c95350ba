"""The forward function of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xg.codegen.emit.line_breaks import bracketed, commented, indented, wrapped
from xg.codegen.emit.locate import Source
from xg.codegen.emit.loops import LoopWriter
from xg.codegen.emit.names import Names, identifier, safe, spell_symbol
from xg.codegen.emit.plan import ModulePlan
from xg.codegen.emit.sizes import shape_text
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.statements import Statements, place_of
from xg.codegen.emit.support import private
from xg.codegen.emit.text import Text
from xg.codegen.emit.writer import (
    BlockWriter,
    count_uses,
    names_by_label,
    place_text,
    read_values,
    size_variables,
)
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import symbol
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.loop import Loop
from xg.ir.tensor import TensorType


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
class _ForwardWriter(BlockWriter):
    saved: Sequence[Value] = ()
    saved_sizes: Sequence[str] = ()
    fields: dict[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def start(
        cls, plan: ModulePlan, graph: Graph, saved: Sequence[Value], sizes: Sequence[str]
    ) -> _ForwardWriter:
        names = Names(size_variables(graph) | plan.passed_sizes(graph))
        scope = Scope(graph.sizes)
        kept = [state.next for state in graph.states]
        labelled = {v for step in graph.steps for v in step.outputs if v.name and v.role == "edge"}
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=graph.types,
            wanted=names_by_label(graph),
            fixed=frozenset({*labelled, *saved, *graph.outputs, *kept}),
            uses=count_uses(graph.steps, (*graph.outputs, *saved, *kept)),
            backward=False,
            place=place_text(plan, graph),
        )
        scope.needed.update(dict.fromkeys(sizes))
        return cls(plan, graph, names, scope, statements, saved, sizes)

    def write(self) -> list[str]:
        graph = self.graph
        wanted = names_by_label(graph)  # of a piece between two calls an input may be unnamed
        inputs = [self.names.fresh(v.name or wanted.get(v, "value")) for v in graph.inputs]
        for value, name in zip(graph.inputs, inputs, strict=True):
            self.statements.texts[value] = Text(name)
        params = [value for value in graph.param_values() if self.statements.uses[value]]
        taken = [*self.take_params(params), *self._take_states()]
        needed = set(read_values(graph.steps)) | set(self.saved) | set(graph.outputs)
        needed |= {state.next for state in graph.states}
        for step in graph.steps:
            if isinstance(step, Apply):
                keep = [v for v in step.outputs if v in needed or v.role != "cache"]
                self.statements.apply(step, keep)
            else:
                self._call(step)
        results = [self.statements.materialize(value).text for value in graph.outputs]
        fields = self._saved_fields()
        code = [*self.statements.lines, *self._keep(), *self._return(results, fields)]
        sizes = self.size_lines(self._sources(params), code)
        before = [*self._docstring(), *taken, *sizes, *self._type_lines()]
        return self.function(self._head(inputs), before, code)

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
        kinds += [f"{spell_symbol(name)}: int" for name in self.lost]
        self.plan.arguments[self.graph.key] = self.lost
        items = ["params: Params"]
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
        leaving = ", ".join(f"{name} {_written(type_)}" for name, type_ in pairs)
        title = f"{safe(graph.title)} ({place_of([graph.span])})."
        return [f'"""{title}', "", *wrapped(f"{arriving} -> {leaving}".strip()), '"""']

    def _saved_fields(self) -> list[str]:
        names = Names(size_variables(self.graph))  # sizes may be saved beside them
        texts: list[str] = []
        for value in self.saved:
            text = self.statements.materialize(value).text
            field_name = text.removesuffix("_saved") if value.role == "saved" else text
            self.fields[value] = names.fresh(field_name)
            texts.append(text)
        return [*texts, *self._saved_sizes()]

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

    def _call(self, call: Call) -> None:
        mentions = [self.statements.materialize(value).text for value in call.inputs]
        outputs = [self.statements.name(value) for value in call.outputs]
        called = identifier(call.path or "rounds")
        name = self.names.fresh(f"{called}_saved") if self.plan.saves else ""
        self.statements.texts[call.saved] = Text(name)
        function = self.plan.functions[call.callee]
        given = ["params", *(["cache", "kept"] if call.callee in self.plan.stateful else [])]
        rest = [
            self.scope.size(call.sizes.get(name, symbol(name))).text
            for name in self.plan.arguments[call.callee]
        ]
        shape = self.graph.types[call.outputs[0]].shape
        comment = f"{shape_text(shape, self.scope.sizes)}, {place_of([call.span])}"
        if call.loop:
            self._loop(call, call.loop, comment, mentions, outputs, name, rest)
            return
        rest += ["seed=seed"] if call.callee in self.plan.random else []
        if call.count is None:
            targets = ", ".join([*outputs, *([name] if name else [])])
            args = [*given, self.below(call.path), *mentions, *rest]
            code = f"{targets} = {function}({', '.join(args)})"
            self.statements.add(commented(code, comment), (call,))
            return
        count = self.scope.size(call.count).text
        path = self.below(f"{call.path}.{{i}}") if self.path else f'f"{call.path}.{{i}}"'
        args = [*given, path, outputs[0], *mentions[1:], *rest]
        one = self.names.fresh(f"{function}_saved") if name else ""
        targets = f"{outputs[0]}, {one}" if name else outputs[0]
        code = f"{targets} = {function}({', '.join(args)})"
        lines = [
            f"{outputs[0]} = {mentions[0]}",
            *([f"{name}: list[{self.plan.classes[call.callee]}] = []"] if name else []),
            f"for i in range({count}):",
            *indented(commented(code, comment, 8)),
            *([f"    {name}.append({one})"] if name else []),
        ]
        self.statements.add(lines, (call,))

    def _loop(
        self,
        call: Call,
        loop: Loop,
        comment: str,
        operands: Sequence[str],
        outputs: Sequence[str],
        name: str,
        rest: Sequence[str],
    ) -> None:
        """Rounds over an axis, each with a seed of its own."""
        function = self.plan.functions[call.callee]
        seeded = call.callee in self.plan.random
        seed = self.scope.use("round_seed") if seeded else ""
        self.plan.operators.support.update(dict.fromkeys(["round_seed"] if seeded else []))

        def one_round(index: str, mentions: Sequence[str]) -> str:
            args = ["params", self.below(call.path), *mentions, *rest]
            args += [f"seed={seed}(seed, {index})"] if seeded else []
            return f"{function}({', '.join(args)})"

        writer = LoopWriter(
            call, loop, self.names, self.graph.types, self.plan.spelling.stack, comment
        )
        kept = (name, self.plan.classes[call.callee], f"{function}_saved") if name else None
        count = self.scope.size(loop.length).text
        lines = writer.forward(operands, outputs, kept, count, one_round)
        self.statements.add(lines, (call,))


def _written(type_: TensorType) -> str:
    """``[B, S, D]``, as the file says it."""
    return "[" + ", ".join(map(str, type_.shape)) + "]"
