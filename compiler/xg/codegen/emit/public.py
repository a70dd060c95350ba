"""Write the public functions of a module: those of both passes, or of a decoding step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from xg.codegen.emit.argument_checks import (
    backward_checks,
    cache_lines,
    check_lines,
    first_checks,
    float_lines,
    given_range_lines,
    limit_lines,
    typed_lines,
    width_lines,
)
from xg.codegen.emit.block_functions import Forward, PreparedNumbers
from xg.codegen.emit.dialect import Dialect
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
from xg.codegen.emit.parameters import gather_functions, gathered_params, no_gradients, state_lines
from xg.codegen.emit.public_params import (
    ParamsWriter,
    frozen_patterns,
    learns_function,
    moved_function,
)
from xg.codegen.emit.spelling import Scope, SizeLines, Source, locate, private
from xg.codegen.emit.text import bracketed, broken, dictionary, indent_lines, tuple_of
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph, IRProgram, Value
from xg.ir.size_checks import carried_symbols, closure, symbols_of
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


# The public functions of a step's module: `empty_cache` and `step`, with kernels `prepared`.
#
# `prepared` lays large matrices out by columns, because most of a step is products of one row, and
# torch reads those at 14 to 20 GB/s that way instead of 7 to 17. It also checks parameters once:
# checking 68 of them took up to 0.1 ms of a step.


IS_PREPARED: Final = "isinstance(params, Prepared)"


@dataclass(slots=True)
class StepWriter(PublicWriter):
    """Writes them, around the functions of the entry block."""

    table: list[str] = field(default_factory=list[str], init=False)
    held: tuple[str, ...] = field(default=(), init=False)  # what the table of states needs
    numbers: PreparedNumbers | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Write the table of states first: the functions fill it."""
        self.numbers = PreparedNumbers.of(self.plan)
        scope = Scope(self.graph.sizes)
        lines = state_lines(self.plan.program, scope)
        self.held = tuple(scope.needed)
        arguments = [f"{spell_symbol(name)}: int" for name in self.held]
        past = f" of {self._past} past positions" if self._past in self.held else ""
        doc = f'"""Shape and kind of every array of a cache{past}."""'
        arguments = ["*", *arguments] if arguments else []
        head = bracketed("def _cache_table(", arguments, ") -> CacheTable:")
        self.table = [*head, *indent_lines([doc, *lines])]

    def functions(self) -> list[list[str]]:
        """All of them, in reading order."""
        return [*self._prepared(), self._empty(), self._step()]

    def support(self) -> list[list[str]]:
        """The private functions that they call."""
        numbers = [self.numbers.names, self.numbers.values] if self.numbers else []
        return [self.params.table, self.table, *numbers]

    def _table_of(self, past: str) -> list[str]:
        """The arguments of the table of states, with a number of past positions."""
        texts = {n: past if n == self._past else spell_symbol(n) for n in self.held}
        return [f"{spell_symbol(name)}={text}" for name, text in texts.items()]

    def _prepared(self) -> Iterator[list[str]]:
        """The function that lays parameters out, where kernels have a layout of their own."""
        ready = self.dialect.ready
        if not self._prepares:
            return
        self.plan.operators.support[ready] = None
        tables = ", ".join(f'"{name}"' for name in sorted(self._left_as_they_are()))
        lines = [f"ready[name] = {private(ready)}(array)"]
        if tables:
            lines = [f'if name.split(".")[-1] not in [{tables}]:', *indent_lines(lines)]
        if self._checks_once:
            yield [
                "class Prepared(dict[str, Array]):",
                '    """Parameters that `prepared` has checked, so that no step does it again."""',
            ]
        yield [
            "def prepared(params: Params) -> Params:",
            '    """The parameters as `step` reads them fastest: large matrices are copied."""',
            *indent_lines(self._checked_once()),
            f"    ready = {'Prepared' if self._checks_once else 'dict'}(params)",
            "    for name, array in params.items():",
            *indent_lines(lines, 8),
            *indent_lines(self._number_lines()),
            "    return ready",
        ]

    def _checked_once(self) -> list[str]:
        """Lines of `prepared` that find sizes, and check names and shapes if no step does."""
        sizes, counted = self.graph.sizes, self.numbers.sizes if self.numbers else ()
        checked = self.params.sizes if self._checks_once else ()
        symbols = dict.fromkeys((*checked, *counted))
        given = self._given_params()
        defaults, span = sizes.defaults, self.graph.span
        inner = given_inner(self.plan, self.graph)
        located = locate(symbols, given, sizes, defaults, span, inner=inner, by_definition=True)
        self.plan.constants.update(located.constants)
        if "_array" in mentioned_names(located.lines):
            self.plan.helpers["array"] = None
        if not self._checks_once:
            return located.lines
        shapes = [*self.params.shapes(), '_check("params", params, shapes, {}, *params)']
        return [*_dict_lines("params"), *located.lines, *shapes, *self._names()]

    def _names(self) -> list[str]:
        """Lines that check the names of parameters, numbers of parameters among them."""
        partial = self.plan.program.partial
        if self.numbers is None:
            return [] if partial else ['_check("params", params, {}, {}, *table)']
        return [
            *bracketed("numbers = _number_names(", self.numbers.given(), ")", 8),
            *([] if partial else ['_check("params", params, {}, {}, *table, *numbers)']),
        ]

    def _number_lines(self) -> list[str]:
        """Lines of `prepared` that add the numbers which depend on parameters alone."""
        if self.numbers is None:
            return []
        return bracketed("ready |= _numbers(", ["params", *self.numbers.given()], ")", 4)

    def _complete_params(self) -> list[str]:
        """Lines of `step` that check the names of parameters, and add those numbers if need be."""
        lines = self._names()
        if self.numbers is not None:
            given = ["params", *self.numbers.given()]
            call = bracketed("params = {**params, **_numbers(", given, ")}", 12)
            missing = "if [name for name in numbers if name not in params]:"
            lines += [missing, *indent_lines(call)]
        if not self._checks_once or not lines:
            return lines
        return [f"if not {IS_PREPARED}:", *indent_lines(lines)]

    def _param_shapes(self) -> list[str]:
        shapes = self.params.shapes(IS_PREPARED if self._checks_once else "")
        return [*shapes, '_check("params", params, shapes, inputs, *params)']

    @property
    def _prepares(self) -> bool:
        """Whether the module has `prepared`."""
        return self.plan.kernels is not None and bool(self.dialect.ready)

    @property
    def _checks_once(self) -> bool:
        """Whether prepared parameters need no second look: no input has a size of theirs."""
        given = [*self.graph.inputs, *(state.past for state in self.graph.states)]
        dims = (dim for value in given for dim in self.graph.types[value].shape)
        carried = {name for dim in dims for name in dim.symbols()}
        return self._prepares and carried.isdisjoint(self.params.sizes)

    def _left_as_they_are(self) -> set[str]:
        """Return the names of the embedding tables that keep their layout."""
        steps = [s for graph in self.plan.program.graphs.values() for s in graph.steps]
        looks = [s for s in steps if isinstance(s, Apply) and s.op.name == "embedding"]
        tables = {look.inputs[1] for look in looks}
        if self.dialect.readies_tied:
            tables -= {v for step in steps if step not in looks for v in step.inputs}
        return {str(table.name) for table in tables}

    def _empty(self) -> list[str]:
        """The function that makes an empty cache; sizes that no parameter has are arguments."""
        free, lines = self._free_sizes()
        arguments = [f"{spell_symbol(name)}: int = 1" for name in free]
        head = bracketed(
            "def empty_cache(",
            ["params: Params", *(["*", *arguments] if arguments else [])],
            ") -> Params:",
        )
        table, names = "_cache_table(", self._table_of("0")
        if len(table) + len(", ".join(names)) > 40:
            lines += bracketed(f"table = {table}", names, ")", 4)
            table = "table"
        else:
            table = f"{table}{', '.join(names)})"
        states = "\n".join(indent_lines(lines)).strip()
        batch = f", for {' × '.join(free)} texts" if free else ""
        text = self.dialect.empty.format(states=states, table=table, batch=batch)
        body = [line for line in text.strip("\n").splitlines() if line.strip()]
        return [*head, *body]

    def _free_sizes(self) -> tuple[list[str], list[str]]:
        """The sizes that a caller chooses, and lines that find the others."""
        sizes = self.graph.sizes
        sources = self._param_sources()
        carried = symbols_of((shape for _, shape in sources), sizes)
        past = self._past
        names, defined = closure(self.held, carried, sizes)
        batch_sizes = set(self._batch())
        free = [
            name
            for name in names
            if name not in carried
            and name not in defined
            and (name in batch_sizes or name not in sizes.defaults)
            and name != past
        ]
        located = [name for name in names if name not in free and name != past]
        texts = {name: spell_symbol(name) for name in free}
        lines = locate(located, sources, sizes, sizes.defaults, self.graph.span, texts)
        self.plan.constants.update(lines.constants)
        own = {f"{text} = {text}" for text in texts.values()}
        return free, [line for line in lines.lines if line not in own]

    def _batch(self) -> Iterator[str | None]:
        """Yield the symbols of the axes before the position axis."""
        lengths = self._lengths
        for value in self.graph.inputs:
            shape = self.graph.types[value].shape
            if lengths is None:  # of a recurrence: what is in front, if it is a size of a state
                yield from (self.graph.sizes.fold(d).name for d in shape[:1])
            elif (new := lengths[1]) in shape:
                yield from (self.graph.sizes.fold(d).name for d in shape[: shape.index(new)])

    # ---- the step -------------------------------------------------------------------------------

    def _step(self) -> list[str]:
        graph, limits = self.graph, Scope(self.graph.sizes)
        given = self._given_arrays()
        refusals = [*given_range_lines(self.plan, limits), *self._limits(limits)]
        refusals += self.params.whole.lines(given, limits, of_step=True)
        counted = self.numbers.sizes if self.numbers else ()
        lines = self._check_shapes(given, (*self.held, *limits.needed, *counted))
        fresh = Names(mentioned_names(lines))
        names = [fresh.fresh(name) for name in graph.output_names]
        results = [f'"{n}": {r}' for n, r in zip(graph.output_names, names, strict=True)]
        arguments = ["params"]
        if graph.key in self.plan.stateful:  # a step may keep nothing, as a loop without states
            arguments += ["cache", "kept"]
        arguments += [f'inputs["{value.name}"]' for value in graph.inputs]
        call = f"{', '.join(names)} = {self.plan.functions[graph.key]}("
        table = self._table_of(spell_symbol(str(self._past)))
        body = [
            '"""Outputs at the new positions by name, and the cache with these positions."""',
            *first_checks(self.plan, lines),
            *_dict_lines("cache"),
            *lines,
            *bracketed("cached = _cache_table(", table, ")", 4),
            "shapes = {name: shape for name, (shape, _) in cached.items()}",
            '_check("cache", cache, shapes, {})',
            *self._complete_params(),
            *refusals,
            *typed_lines(self.plan, self.dialect.state),
            *cache_lines(self.plan),
            "kept: Params = {}",
            *bracketed(call, arguments, ")", 4),
            f"return {{{', '.join(results)}}}, kept",
        ]
        parameters = ["params: Params", "cache: Params", "inputs: Mapping[str, Array]"]
        head = bracketed("def step(", parameters, ") -> tuple[dict[str, Array], Params]:")
        return self._decorate([*head, *indent_lines(body)])

    def _given_arrays(self) -> list[Source]:
        """Inputs, cached arrays and parameters as they come from outside."""
        graph = self.graph
        cached: list[Source] = []
        for state in graph.states:
            shape = graph.types[state.past].shape
            cached.append((f'_array(cache, "{state.name}", {len(shape)})', shape))
        sources, params = self._array_sources("inputs", graph.inputs), self._given_params()
        return [*sources, *cached, *params]

    @property
    def _past(self) -> str | None:
        """The symbol of the past positions; a recurrence does not count them."""
        return self._lengths[0].name if self._lengths else None

    @property
    def _lengths(self) -> tuple[Dim, Dim] | None:
        """The lengths of past and new positions, which C concatenates."""
        pasts = {state.past for state in self.graph.states}
        for step in self.graph.steps:
            if isinstance(step, Apply) and not pasts.isdisjoint(step.inputs):
                past, new = step.attrs["lengths"]
                return past, new
        return None

    def _limits(self, scope: Scope) -> Iterator[str]:
        """Lines that refuse more positions than a table has rows."""
        yield from limit_lines(
            self.plan.program, scope, lambda limit: self._past in limit.smaller.symbols()
        )


def _dict_lines(name: str) -> list[str]:
    """Lines that refuse an argument which has no arrays by names."""
    return [f'_check("{name}", {name}, {{}}, {{}}, *({name} or ()))']
