"""The public functions of a step's module: `empty_cache` and `step`, with kernels `prepared`.

`prepared` lays large matrices out by columns, because most of a step is products of one row, and
torch reads those at 14 to 20 GB/s that way instead of 7 to 17. It also checks parameters once:
checking 68 of them took up to 0.1 ms of a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.codegen.emit.argument_checks import (
    cache_lines,
    first_checks,
    given_range_lines,
    limit_lines,
    typed_lines,
)
from xg.codegen.emit.forward import PreparedNumbers
from xg.codegen.emit.names import Names, mentioned_names, spell_symbol
from xg.codegen.emit.parameters import state_lines
from xg.codegen.emit.public import PublicWriter, given_inner
from xg.codegen.emit.sizes import Source, locate
from xg.codegen.emit.spelling import Scope, private
from xg.codegen.emit.text import bracketed, indent_lines
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim
from xg.ir.graph import Apply
from xg.ir.size_checks import closure, symbols_of

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
