"""The public functions of a module: `init`, `forward` and `backward`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xg.codegen.emit.argument_checks import (
    backward_checks,
    check_lines,
    first_checks,
    float_lines,
    given_range_lines,
    limit_lines,
    width_lines,
)
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.forward import Forward
from xg.codegen.emit.lifetimes import (
    BACKWARD,
    EARLIER,
    IN_PARTS,
    KIND,
    Releasing,
    is_in_parts,
    weights_function,
    whole_backward,
)
from xg.codegen.emit.module_plan import ModulePlan, may_be_absent
from xg.codegen.emit.names import Names, mentioned_names, spell_symbol
from xg.codegen.emit.parameters import gather_functions, gathered_params, no_gradients
from xg.codegen.emit.public_params import (
    ParamsWriter,
    frozen_patterns,
    learns_function,
    moved_function,
)
from xg.codegen.emit.sizes import SizeLines, Source, locate
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.text import bracketed, broken, dictionary, indent_lines, tuple_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Graph, IRProgram, Value
from xg.ir.size_checks import carried_symbols
from xg.ir.walk import having, reachable_keys


@dataclass(slots=True)
class PublicWriter:
    """Writes them, around the functions of the entry block.

    `entry` is its forward function; `lost` are the sizes that it saves as numbers.
    """

    dialect: Dialect
    plan: ModulePlan
    params: ParamsWriter
    entry: Forward
    lost: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        """The entry block."""
        return self.plan.program.main

    @property
    def saved_class(self) -> str:
        """The class of the entry block's saved values."""
        return self.plan.classes[self.graph.key]

    def functions(self) -> list[list[str]]:
        """All of them, in reading order."""
        init, *of_ranks = self.params.functions()
        return [init, self._forward(), *self._backward(), *self._statistics_function(), *of_ranks]

    def _statistics_function(self) -> list[list[str]]:
        if not self.plan.moved:
            return []
        return [self._decorate(moved_function(self.plan, self.saved_class))]

    def support(self) -> list[list[str]]:
        """The private functions that they call."""
        program = self.plan.program
        learns = [learns_function(program)] if self._may_lack() and frozen_patterns(program) else []
        return [self.params.table, *learns, *gather_functions(self.plan)]

    # ---- passes ---------------------------------------------------------------------------------

    def _forward(self) -> list[str]:
        graph, scope = self.graph, Scope(self.graph.sizes)
        given = self._given_arrays()
        limits = [*limit_lines(self.plan.program, scope), *self.params.whole.lines(given, scope)]
        inside = [*float_lines(self.plan), *given_range_lines(self.plan, scope), *limits]
        inside += width_lines(self.plan, scope) if self.dialect.checks_width else []
        lines = [*self._check_shapes(given, tuple(scope.needed)), *inside]
        fresh = Names(mentioned_names(lines))
        names = [fresh.fresh(name) for name in graph.output_names]
        results = [f'"{n}": {r}' for n, r in zip(graph.output_names, names, strict=True)]
        random = graph.key in self.plan.random
        seeded = "Without a seed dropout is off." if random else "The seed is not used."
        doc = ['"""Outputs by name, and the values that `backward` needs.', "", seeded, '"""']
        body = [*doc, *first_checks(self.plan, lines), *lines, *self._entry_call(names)]
        body += dictionary("return ", results, ", saved", 4)
        seed = f"seed: {self.dialect.spelling.seed} = None"
        parameters = ["params: Params", "inputs: Mapping[str, Array]", "*", seed]
        head = bracketed(
            "def forward(", parameters, f") -> tuple[dict[str, Array], {self.saved_class}]:"
        )
        return self._decorate([*head, *indent_lines(body)])

    def _given_arrays(self) -> list[Source]:
        """Inputs and parameters as they come from outside."""
        return [*self._array_sources("inputs", self.graph.inputs), *self._given_params()]

    def _check_shapes(self, sources: Sequence[Source], needed: Sequence[str] = ()) -> list[str]:
        """Lines that find the sizes, also those `needed`, and check all shapes."""
        graph, scope = self.graph, Scope(self.graph.sizes)
        shapes = [f'"{value.name}": {self._shape(value, scope)}' for value in graph.inputs]
        symbols = dict.fromkeys((*self.params.sizes, *needed, *scope.needed))
        sizes, span, inner = graph.sizes, graph.span, given_inner(self.plan, graph)
        numbers = sizes.defaults
        located = locate(symbols, sources, sizes, numbers, span, inner=inner, by_definition=True)
        self.plan.constants.update(located.constants)
        lines = [
            *located.lines,
            *self._param_shapes(),
            *(check_lines("inputs", shapes, "{}", "shapes") if shapes else []),
        ]
        if "_array" in mentioned_names(lines):
            self.plan.helpers["array"] = None
        return lines

    def _param_shapes(self) -> list[str]:
        """Lines that check all parameters; of a part of a program there may be more."""
        names = ", *params" if self.plan.program.partial else ""
        return [
            *self.params.shapes(named=False),
            f'_check("params", params, shapes, inputs{names})',
        ]

    def _entry_call(self, results: list[str]) -> list[str]:
        params = gathered_params(self.plan, reverse=False)
        arguments = [params, *(f'inputs["{value.name}"]' for value in self.graph.inputs)]
        if self.graph.key in self.plan.random:
            arguments.append("seed=seed")
        function = self.plan.functions[self.graph.key]
        return bracketed(f"{', '.join([*results, 'saved'])} = {function}(", arguments, ")", 4)

    def _backward(self) -> list[list[str]]:
        graph, scope = self.graph, Scope(self.graph.sizes)
        backward = self.plan.program.backwards[graph.key]
        symbols = (*graph.sizes.defaults, *graph.sizes.definitions)
        names = Names(map(spell_symbol, symbols))
        seeds, checked, lines = self._seeds(scope, names)
        constant = self._constant(scope)
        size_lines = self._locate_sizes(scope)
        self.plan.constants.update(size_lines.constants)
        inputs = [value for value in graph.inputs if value in backward.gradients]
        results = [names.fresh(f"d{value.name}") for value in inputs]
        call = f"d_{self.plan.functions[graph.key]}("
        head = f"{', '.join(results)} = {call}" if results else call
        in_parts = is_in_parts(self.plan.program)
        given = [gathered_params(self.plan, reverse=True), "saved", *seeds, "grads"]
        checks = backward_checks(self.entry)
        body = [
            *size_lines.lines,
            *lines[:checked],
            *_like(self.dialect, mentioned_names([*lines, *constant])),
            *lines[checked:],
            no_gradients(self.plan),
            *bracketed(head, [*given, *(["later"] if in_parts else [])], ")", 4),
            *(
                _gradient_line(self.plan, str(v.name), n)
                for v, n in zip(inputs, results, strict=True)
            ),
            *constant,
            *self._finish(),
            "return grads",
        ]
        if self.plan.frees_saved_values:
            self.plan.helpers["copy"] = None
            releasing = Releasing(self.saved_class, checks, self.dialect.decorator)
            return releasing.functions(body, in_parts=in_parts)
        arguments = ["params: Params", f"saved: {self.saved_class}"]
        arguments += ["d_outputs: Mapping[str, Array]"]
        arguments += [KIND, f"{EARLIER} = None"] if in_parts else []
        name = "backward_in_parts" if in_parts else "backward"
        head = bracketed(f"def {name}(", arguments, ") -> Params:")
        doc = IN_PARTS if in_parts else [f'"""{BACKWARD}"""']
        whole = [whole_backward(self.saved_class)] if in_parts else []
        lines = [*head, *indent_lines([*doc, *checks, *body])]
        if in_parts and self.dialect.wide:  # later parts add to the gradients that it returns
            return [lines, *map(self._decorate, whole)]
        return [self._decorate(lines), *whole]

    def _may_lack(self) -> bool:
        """Whether a gradient may be missing: nothing depends on it, or its sum is put off."""
        return self.plan.defers_sums or not _is_complete(self.plan.program)

    def _finish(self) -> list[str]:
        """Lines for what is there last: sums that were put off, and zeros."""
        lines = ["grads.finish()"] if self.plan.defers_sums else []
        lines += self._zero_gradients() if self._may_lack() else []
        if not lines or not is_in_parts(self.plan.program):
            return lines
        self.plan.helpers["later"] = None
        return weights_function(lines)

    def _zero_gradients(self) -> list[str]:
        """Lines for the parameters on which no output depends."""
        zeros = f"{self.dialect.library}.zeros_like(params[name])"
        learning = " and _learns(name)" if frozen_patterns(self.plan.program) else ""
        return [
            f"for name in [name for name in params if name not in grads{learning}]:",
            f"    grads[name] = {zeros}",
        ]

    def _decorate(self, lines: list[str]) -> list[str]:
        if self.dialect.wide:
            self.plan.operators.support[self.dialect.wide] = None
        return [self.dialect.decorator, *lines] if self.dialect.decorator else lines

    def _zeros(self, value: Value, scope: Scope) -> str:
        return self.dialect.spelling.zeros(self._shape(value, scope), scope)

    def _nothing(self, value: Value, scope: Scope) -> str:
        """The cotangent of an output that nothing depends on."""
        spelling = self.dialect.spelling
        spell = spelling.no_room if self.plan.kernels else spelling.zeros
        return spell(self._shape(value, scope), scope)

    def sizes_to_save(self) -> tuple[str, ...]:
        """Symbols of shapes that nothing carries but inputs: to be saved as numbers too."""
        scope = Scope(self.graph.sizes)
        self._seeds(scope, Names())
        self._constant(scope)
        return self._locate_sizes(scope).lost

    def _constant(self, scope: Scope) -> list[str]:
        """Lines for the float inputs on which no output depends."""
        gradients = self.plan.program.backwards[self.graph.key].gradients
        inputs = [value for value in self.graph.inputs if self.graph.types[value].is_float]
        return [
            f'grads["{value.name}"] = {self._zeros(value, scope)}'
            for value in inputs
            if value not in gradients and not value.frozen
        ]

    def _locate_sizes(self, scope: Scope) -> SizeLines:
        """Where `backward` finds the sizes of missing cotangents."""
        sources = [*self._saved_sources(), *self._param_sources()]
        return _backward_sizes(self.plan, self.graph, scope.needed, sources, self.lost)

    def _seeds(self, scope: Scope, fresh: Names) -> tuple[list[str], int, list[str]]:
        """A name for the cotangent of every float output, and lines that check and fetch them.

        The number is that of the lines that check. One value may be an output under two names: then
        its cotangent is the sum of theirs.
        """
        names: dict[Value, str] = {}
        lines: list[str] = []
        shapes: list[str] = []
        for name, value in zip(self.graph.output_names, self.graph.outputs, strict=True):
            if not self.graph.types[value].is_float:
                continue
            shapes.append(f'"{name}": {self._shape(value, scope)}')
            if value in names:
                seed = names[value]
                lines += [
                    f'if "{name}" in d_outputs:',
                    f'    {seed} = {seed} + d_outputs["{name}"]',
                ]
                continue
            names[value] = seed = fresh.fresh(f"d{name}")
            lines += [
                f'{seed} = d_outputs.get("{name}")',
                f"if {seed} is None:",
                *indent_lines(broken(f"{seed} = {self._nothing(value, scope)}", 8)),
            ]
        checks = check_lines("d_outputs", shapes, "params", fresh.fresh("shapes"))
        return list(names.values()), len(checks), [*checks, *lines]

    # ---- sizes ----------------------------------------------------------------------------------

    def _shape(self, value: Value, scope: Scope) -> str:
        return tuple_of(scope.shape(self.graph.types[value].shape))

    def _given_params(self) -> list[Source]:
        return self._array_sources("params", [param.value for param in self.graph.params])

    def _array_sources(self, arrays: str, values: Sequence[Value]) -> list[Source]:
        """Arrays as they come from outside, where one may be missing."""
        shapes = [(v, self.graph.types[v].shape) for v in values]
        if arrays == "inputs":  # checked already
            return [(f'inputs["{v.name}"]', shape) for v, shape in shapes]
        return [(f'_array({arrays}, "{v.name}", {len(shape)})', shape) for v, shape in shapes]

    def _param_sources(self) -> list[Source]:
        types, params = self.graph.types, self.graph.params
        return [(f'params["{p.value.name}"]', types[p.value].shape) for p in params]

    def _saved_sources(self) -> list[Source]:
        saved = self.plan.program.backwards[self.graph.key].saved
        return [
            (f"saved.{self.entry.fields[value]}", self.graph.types[value].shape)
            for value in saved
            if value.role != "saved" and not may_be_absent(value)
        ]


def _backward_sizes(
    plan: ModulePlan,
    graph: Graph,
    needed: Iterable[str],
    sources: Sequence[Source],
    lost: Collection[str],
) -> SizeLines:
    """Locate sizes after the forward pass, which saved the `lost` ones as numbers."""
    return locate(
        needed,
        sources,
        graph.sizes,
        graph.sizes.defaults,
        graph.span,
        {name: f"saved.{spell_symbol(name)}" for name in lost},
        carried_symbols(graph).difference(lost),
        plan.sources.implied_symbols(graph).difference(lost),
        [(f'params["{path}"]', shape) for path, shape in plan.sources.inner(graph).items()],
    )


def given_inner(plan: ModulePlan, graph: Graph) -> list[Source]:
    """The parameters of the blocks that a graph calls as they come from outside."""
    inner = plan.sources.inner(graph).items()
    return [(f'_array(params, "{path}", {len(shape)})', shape) for path, shape in inner]


def _gradient_line(plan: ModulePlan, name: str, gradient: str) -> str:
    """The line that gives the gradient of an input; in a stage it is added to earlier ones."""
    if not is_in_parts(plan.program):
        return f'grads["{name}"] = {gradient}'
    plan.helpers["add"] = None
    return f'_add(grads, "{name}", {gradient})'


def _like(dialect: Dialect, words: Collection[str]) -> list[str]:
    """Lines that read type and device of zeros off any array."""
    like = {name: text for name, text in dialect.like.items() if name in words}
    array = "next(iter({**params, **d_outputs}.values()))"
    if len(like) == 1:
        return [f"{name} = {array}.{text}" for name, text in like.items()]
    texts = ", ".join(f"like.{text}" for text in like.values())
    return [f"like = {array}", f"{', '.join(like)} = {texts}"] if like else []


def _is_complete(program: IRProgram) -> bool:
    """Whether the backward functions give a gradient for every parameter that is not frozen."""
    learning = having(program, lambda graph: any(not p.value.frozen for p in graph.params))
    for key in reachable_keys(program.graphs, program.entry):
        graph, backward = program.graphs[key], program.backwards[key]
        calls = {call for call in graph.calls if call.callee in learning}
        reversed_ = {step.origin for step in backward.calls}
        values = (param.value for param in graph.params)
        own = all(value in backward.gradients or value.frozen for value in values)
        if not own or not calls <= reversed_:
            return False
        if any(call.loop and call.loop.length.constant is None for call in calls):
            return False  # over an axis of length 0 nothing is added
    return True
