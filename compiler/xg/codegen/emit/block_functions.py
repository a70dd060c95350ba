"""Write the forward and the backward function of a block, line by line as in its figures.

The forward pass may also need numbers that parameters alone decide: it has them written apart.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial

from xg.codegen.emit.array_ops import DeferredSum, Overlap, deferred_sums, overlap, sum_of
from xg.codegen.emit.call_text import LoopWriter, d_recurrence, run_call
from xg.codegen.emit.function import OperatorFunction, operator_function
from xg.codegen.emit.lifetimes import (
    KIND,
    TwoParts,
    free_variables,
    freeing,
    is_in_parts,
    weights_function,
)
from xg.codegen.emit.module_plan import (
    ModulePlan,
    PassWriter,
    count_uses,
    may_be_absent,
    place_text,
    read_values,
    size_variables,
)
from xg.codegen.emit.names import Names, gradient_names, plain, safe, spell_symbol, sums_with_seeds
from xg.codegen.emit.parameters import Key, Row, Symbols, named_lines, spell_gathers
from xg.codegen.emit.spelling import Scope, Source, private, shape_text
from xg.codegen.emit.statements import Statements, describe, function_name
from xg.codegen.emit.text import (
    Text,
    add_comment,
    bracketed,
    call,
    indent_lines,
    tuple_of,
    wrap_text,
)
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import remove_stops
from xg.ir.collectives import PRIMITIVES
from xg.ir.graph import Apply, Backward, Call, Graph, Loop, Step, Value
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


# ---- the backward function ----------------------------------------------------------------------


def backward_function(
    plan: ModulePlan, backward: Backward, forward: Forward
) -> tuple[list[str], tuple[str, ...]]:
    """The backward function to a forward function.

    Also the symbols of sizes that it needs and no saved tensor carries: they must be saved too.
    """
    writer = _BackwardWriter.start(plan, backward, forward)
    lines = writer.write()
    lost = writer.lost
    if lost:
        writer = _BackwardWriter.start(plan, backward, forward)
        writer.known = {name: f"saved.{spell_symbol(name)}" for name in lost}
        lines = writer.write()
    return lines, lost


@dataclass(slots=True)
class _BackwardWriter(PassWriter):
    backward: Backward | None = None
    fields: Mapping[Value, str] = field(default_factory=dict[Value, str])
    sums: Mapping[Value, DeferredSum] = field(default_factory=dict[Value, DeferredSum])

    @classmethod
    def start(cls, plan: ModulePlan, backward: Backward, forward: Forward) -> _BackwardWriter:
        graph = backward.forward
        names = Names(size_variables(graph))
        scope = Scope(graph.sizes)
        statements = Statements(
            spelling=plan.spelling,
            functions=plan.operators,
            scope=scope,
            names=names,
            types=backward.types,
            wanted={
                **gradient_names(
                    backward,
                    forward.names,
                    plan.program,
                    _is_function(plan, backward),
                ),
                **value_names(plan.program, graph.key),
                **dict(_names_again(backward, forward)),
            },
            fixed=frozenset(_fixed_values(backward)),
            uses=count_uses(backward.steps, (*backward.gradients.values(), *_rows(backward))),
            backward=True,
            place=place_text(plan, graph),
            reusable=frozenset(backward.reusable),
            again=sums_with_seeds(backward),
        )
        return cls(plan, graph, names, scope, statements, backward, forward.fields)

    def write(self) -> list[str]:
        assert self.backward is not None
        backward, graph, texts = self.backward, self.graph, self.statements.texts
        for value in backward.saved:
            texts[value] = Text(f"saved.{self.fields[value]}")
        seeds = [self.statements.name(value) for value in backward.inputs]
        redrawn = graph.key in self.plan.redrawn
        drawn = ["seed = saved.seed"] if redrawn else []
        spell_gathers(self, backward.steps)
        params = [value for value in graph.param_values() if self.statements.uses[value]]
        taken = self.take_params(params)
        read = {*read_values(backward.steps), *backward.gradients.values(), *_rows(backward)}
        order = self._order(backward)
        parts = TwoParts.of(order.steps, backward) if self._in_parts else TwoParts(order.steps, ())
        self._steps(parts.first, order, read)
        results = [
            self.statements.materialize(backward.gradients[value]).text
            for value in graph.inputs
            if value in backward.gradients
        ]
        results += [self.statements.materialize(value).text for value in _rows(backward)]
        first, marks = len(self.statements.lines), len(self.statements.marks)
        self._steps(parts.rest, order, read)
        code = self._code(first, marks)
        code += [f"return {', '.join(results)}"] if results else []
        sizes = self.size_lines(self._sources(params), code)
        types = self.type_lines(seeds, seeds)
        head = self._head(seeds, len(results))
        before = [*drawn, *taken, *sizes, *types]
        if self.plan.frees_saved_values:  # fused code has no lines for single steps
            lines = freeing([*before, *free_variables(code, self._variables())], self._tensors())
            return [*head, *indent_lines([*self._docstring(), *lines])]
        return self.function(head, [*self._docstring(), *before], code)

    @property
    def _in_parts(self) -> bool:
        return is_in_parts(self.plan.program)

    @property
    def _last(self) -> list[str]:
        """The last arguments of every backward function."""
        return ["grads", "later"] if self._in_parts else ["grads"]

    def _steps(self, steps: Sequence[Step], order: Overlap, read: Container[Value]) -> None:
        """Write steps."""
        for step in steps:
            if isinstance(step, Apply) and step in order.begun:
                self.statements.begin(step)
            elif isinstance(step, Call) and step.again:
                run_call(self, step, [v for v in step.outputs if v not in read])
            elif isinstance(step, Apply):
                self.statements.apply(step, self._live_outputs(step, read))
            else:
                self._call(step)

    def _code(self, first: int, marks: int) -> list[str]:
        """The statements: the `first` lines, and what may be left for later."""
        grads = _gradient_lines(self)
        lines = [*self.statements.lines, *grads]
        if not self._in_parts:
            return lines
        kept = self.statements.marks
        self.statements.marks = [*kept[:marks], *(mark.moved(1) for mark in kept[marks:])]
        late = weights_function(lines[first:])
        if late:
            self.plan.helpers["later"] = None
        return [*lines[:first], *late]

    def _live_outputs(self, step: Apply, read: Container[Value]) -> list[Value]:
        """The outputs that a step gives; of one that runs again those that it gave before."""
        if not step.again:
            return [value for value in step.outputs if value in read]
        before = {v for v in step.outputs if v.role != "cache" or v in self.fields}
        self.statements.unread |= {value for value in before if value not in read}
        return [value for value in step.outputs if value in read or value in before]

    def _order(self, backward: Backward) -> Overlap:
        """The steps as they are written: late sums are left to the end, others begun early."""
        if not self.plan.defers_sums:
            return Overlap(backward.steps, frozenset())
        self.sums = deferred_sums(backward, self.plan.shared)
        sums = [
            step
            for step in backward.steps
            if isinstance(step, Apply)
            and (total := sum_of(step, backward))
            and (not PRIMITIVES[total.prim].axes or step.outputs[0] in self.sums)
        ]
        late = {step for step in sums if step.outputs[0] in self.sums}
        steps = [step for step in backward.steps if step not in late]
        return overlap(steps, [step for step in sums if step not in late])

    def _tensors(self) -> list[str]:
        """The fields of saved tensors, without those that calls have saved."""
        return [name for value, name in self.fields.items() if value.role != "saved"]

    def _variables(self) -> Iterator[str]:
        """The variables of what steps give."""
        assert self.backward is not None
        texts = self.statements.texts
        values = (value for step in self.backward.steps for value in step.outputs)
        yield from (text for v in values if v in texts and (text := texts[v].text).isidentifier())

    def _sources(self, params: Sequence[Value]) -> list[Source]:
        assert self.backward is not None
        values = [v for v in self.backward.saved if v.role != "saved" and not may_be_absent(v)]
        values += [*params, *self.backward.inputs]
        types = self.statements.types
        sources = [(self.statements.texts[v].text, types[v].shape) for v in values]
        return [*sources, *self.untaken_params(params)]

    def _head(self, seeds: Sequence[str], results: int) -> list[str]:
        items = [f"params: {self.plan.params_kind}", *(["at: str"] if self.path else [])]
        items += [f"saved: {self.plan.classes[self.graph.key]}"]
        items += [f"{seed}: Array" for seed in seeds]
        items += ["grads: Sums[Array]" if self.plan.defers_sums else "grads: Params"]
        items += [KIND] if self._in_parts else []
        returned = {0: "None", 1: "Array"}.get(results, f"tuple[{', '.join(['Array'] * results)}]")
        name = self.plan.functions[self.graph.key]
        return bracketed(f"def d_{name}(", items, f") -> {returned}:")

    def _docstring(self) -> list[str]:
        assert self.backward is not None
        graph, backward = self.graph, self.backward
        results = [(f"d{v.name or 'value'}", v) for v in graph.inputs if v in backward.gradients]
        leaving = [f"{name} {shape_text(graph.types[v].shape, graph.sizes)}" for name, v in results]
        arriving = [
            f"{self.statements.texts[seed].text} "
            f"{shape_text(self.statements.types[seed].shape, graph.sizes)}"
            for seed in backward.inputs
        ]
        leaving += [
            f"{self.statements.texts[value].text.removeprefix('saved.')}"
            f" {shape_text(self.statements.types[value].shape, graph.sizes)}"
            for value in _rows(backward)
        ]
        if any(value in backward.gradients for value in graph.param_values()):
            leaving.append("gradients of parameters in `grads`")
        return [
            f'"""Backward pass of `{self.plan.functions[graph.key]}`.',
            "",
            *wrap_text(f"{', '.join(arriving)} -> {', '.join(leaving)}".strip()),
            '"""',
        ]

    def _call(self, call: Call) -> None:
        cotangents = [self.statements.materialize(v).text for v in call.inputs]
        results = [(v, self.statements.name(v)) for v in call.outputs]
        saved = self.statements.texts[call.saved].text
        function = f"d_{self.plan.functions[call.callee]}"
        callee = self.plan.program.graphs[call.callee].block
        shapes = [self.statements.types[value].shape for value in call.outputs[:1]]
        shape = "".join(f"{shape_text(each, self.graph.sizes)}, " for each in shapes)
        note = f"grad of {callee}"
        comment = f"{shape}{note}"
        names = [name for _, name in results]
        if call.loop:
            if call.callee in self.plan.recurrences:
                lines = d_recurrence(self.plan, call.loop, cotangents, names, saved, comment)
            else:
                lines = self._loop(call, call.loop, cotangents, names, note)
            self.statements.add(lines, (call,))
            return
        if call.count is None:
            args = ["params", self.below(call.path), saved, *cotangents, *self._last]
            targets = f"{', '.join(names)} = " if names else ""
            code = f"{targets}{function}({', '.join(args)})"
            self.statements.add(add_comment(code, comment), (call,))
            return
        below = self.below(f"{call.path}.{{i}}") if self.path else f'f"{call.path}.{{i}}"'
        rounds = f"range({call.first}, {call.first} + len({saved}))"
        if not call.first:
            rounds = f"range(len({saved}))"
        carried = {place: names[number] for place, number in call.carried}
        shared = [(value, name) for value, name in results if name not in carried.values()]
        parts = {name: self.names.fresh(f"{name}_part") for _, name in shared}
        arriving = [carried.get(place, text) for place, text in enumerate(cotangents)]
        behind = f" - {call.first}" if call.first else ""
        args = ["params", below, f"{saved}[i{behind}]", *arriving, *self._last]
        targets = ", ".join(parts.get(name, name) for name in names)
        code = f"{targets} = {function}({', '.join(args)})"
        lines = [
            *(f"{name} = {cotangents[place]}" for place, name in carried.items()),
            *(f"{name} = {self._zeros(value)}" for value, name in shared),
            f"for i in reversed({rounds}):",
            *indent_lines(add_comment(code, comment, 8)),
            *(f"    {total} = {total} + {part}" for total, part in parts.items()),
        ]
        self.statements.add(lines, (call,))

    def _loop(
        self, call: Call, loop: Loop, cotangents: list[str], names: list[str], note: str
    ) -> list[str]:
        """The rounds of a loop, the last one first."""
        function = f"d_{self.plan.functions[call.callee]}"
        saved = self.statements.texts[call.saved].text
        reverse = self.plan.program.backwards[call.callee]
        types, spelling = self.statements.types, self.plan.spelling
        frees = self.plan.kernels is not None
        writer = LoopWriter(call, loop, self.names, types, spelling, self.scope, note, frees=frees)
        zeros = [
            f"{names[n]} = {self._zeros(call.outputs[n])}" for n in writer.accumulators(reverse)
        ]

        def one_round(_: str, operands: Sequence[str]) -> str:
            args = ["params", self.below(call.path), *operands, *self._last]
            return f"{function}({', '.join(args)})"

        return [*zeros, *writer.backward(reverse, cotangents, names, saved, one_round)]

    def _zeros(self, value: Value) -> str:
        """Zeros to which the rounds of a row add."""
        texts = self.scope.shape(self.statements.types[value].shape)
        return self.plan.spelling.zeros(tuple_of(texts), self.scope)


def _gradient_lines(writer: _BackwardWriter) -> list[str]:
    """Lines that hand parameter gradients over."""
    assert writer.backward is not None
    own: list[tuple[str, str]] = []
    terms: dict[str, list[tuple[str, str]]] = {}
    cut: dict[str, list[tuple[str, str]]] = {}
    lines: list[str] = []
    within = is_in_parts(writer.plan.program)  # there they are added to those of earlier passes
    for value in writer.graph.param_values():
        gradient = writer.backward.gradients.get(value)
        if gradient is None:
            continue
        name = str(value.name)
        late = writer.sums.get(gradient)
        if late:
            text = writer.statements.materialize(late.term).text
            slices = cut if late.axis is not None else terms
            text = text if late.axis is None else f"({text}, {late.axis})"
            slices.setdefault(late.over, []).append((writer.below(name), text))
            continue
        text = writer.statements.materialize(gradient).text
        if within or {(writer.graph.key, name), (writer.graph.key, "*")} & writer.plan.shared:
            writer.plan.helpers["add"] = None
            lines.append(f"_add(grads, {writer.below(name)}, {text})")
        else:
            own.append((writer.below(name), text))
    if len(own) == 1:
        lines += [f"grads[{key}] = {text}" for key, text in own]
    elif own:
        lines += ["grads |= {", *(f"    {key}: {text}," for key, text in own), "}"]
    for method, groups in (("add", terms), ("scatter", cut)):
        for over, pairs in groups.items():
            items = [f"        {key}: {text}," for key, text in pairs]
            lines += [f"grads.{method}(", f'    "{over}",', "    {", *items, "    },", ")"]
    return lines


def _is_function(plan: ModulePlan, backward: Backward) -> Callable[[str], bool]:
    """Return a test for the names of functions that the backward function calls."""
    steps = [step for step in backward.steps if isinstance(step, Apply)]
    operators = {plain(function_name(step.op.name)) for step in steps}
    return lambda name: name in operators or name in plan.gradients


def _names_again(backward: Backward, forward: Forward) -> Iterator[tuple[Value, str]]:
    """The forward function's names of values that are recomputed, here or by the caller."""
    yield from ((v, forward.names[v]) for v in backward.operands if v in forward.names)
    for step in backward.steps:
        if step.again:
            for value in step.outputs:
                if value in forward.names:
                    yield value, forward.names[value]


def _rows(backward: Backward) -> list[Value]:
    """The values that a round gives besides gradients."""
    return [value for value, _ in backward.rows]


def _fixed_values(backward: Backward) -> Iterator[Value]:
    yield from backward.gradients.values()
    yield from _rows(backward)
    for step in backward.steps:
        for value in step.outputs:
            if value.name is not None:
                yield value
