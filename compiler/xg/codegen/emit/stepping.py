"""The public functions of a step's module: `table`, `states`, `empty_cache` and `step`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xg.codegen.emit.line_breaks import bracketed, indented
from xg.codegen.emit.locate import Source, closure, locate
from xg.codegen.emit.names import Names, mentioned, spell_symbol
from xg.codegen.emit.param_table import state_lines
from xg.codegen.emit.public import PublicWriter
from xg.codegen.emit.spelling import Scope
from xg.ir.dim import Dim
from xg.ir.graph import Apply
from xg.ir.size_constraints import size_constraints


@dataclass(slots=True)
class StepWriter(PublicWriter):
    """Writes them, around the functions of the entry block."""

    held: tuple[str, ...] = field(default=(), init=False)  # what the table of states needs

    def functions(self) -> list[list[str]]:
        """All of them, in reading order."""
        return [self._table(), self._states(), self._empty(), self._step()]

    def _states(self) -> list[str]:
        scope = Scope(self.graph.sizes)
        lines = state_lines(self.plan.program, scope)
        self.held = tuple(scope.needed)
        arguments = [f"{spell_symbol(name)}: int" for name in self.held]
        head = bracketed(
            "def states(", ["*", *arguments], ") -> dict[str, tuple[tuple[int, ...], str]]:"
        )
        body = [
            '"""Name, shape and kind of what a step keeps: T past positions of everything."""',
            "found: dict[str, tuple[tuple[int, ...], str]] = {}",
            *lines,
            "return found",
        ]
        return [*head, *indented(body)]

    def _found(self, past: str) -> list[str]:
        """The line that makes the table of states, with a number of past positions."""
        symbol = str(self._past.name)
        texts = {name: past if name == symbol else spell_symbol(name) for name in self.held}
        given = [f"{spell_symbol(name)}={text}" for name, text in texts.items()]
        return bracketed("found = states(", given, ")", 4)

    def _empty(self) -> list[str]:
        """The sizes in front of the positions that no parameter has must be given: the batch."""
        sizes = self.graph.sizes
        sources = self._param_sources()
        carried = {sizes.symbol_and_divisors(dim)[0] for _, shape in sources for dim in shape}
        past = str(self._past.name)
        wanted, defined = closure(self.held, [name for name in carried if name], sizes)
        given = set(self._batch())
        free = [
            name
            for name in wanted
            if name not in carried
            and name not in defined
            and (name in given or name not in sizes.defaults)
            and name != past
        ]
        located = [name for name in wanted if name not in free and name != past]
        texts = {name: spell_symbol(name) for name in free}
        found = locate(located, sources, sizes, sizes.defaults, self.graph.span, texts)
        self.plan.constants.update(found.constants)
        lines = [line for line in found.lines if line not in {f"{t} = {t}" for t in texts.values()}]
        arguments = [f"{spell_symbol(name)}: int = 1" for name in free]
        head = bracketed(
            "def empty_cache(",
            ["params: Params", *(["*", *arguments] if arguments else [])],
            ") -> Params:",
        )
        states = "\n".join(indented([*lines, *self._found("0")])).strip()
        return [*head, *self.dialect.empty.format(states=states).strip("\n").splitlines()]

    def _batch(self) -> Iterator[str | None]:
        """The symbols of the axes before that of the positions."""
        _, new = self._lengths
        for value in self.graph.inputs:
            shape = self.graph.types[value].shape
            if new in shape:
                yield from (self.graph.sizes.fold(d).name for d in shape[: shape.index(new)])

    # ---- the step -------------------------------------------------------------------------------

    def _step(self) -> list[str]:
        graph, scope = self.graph, Scope(self.graph.sizes)
        shapes = [f'shapes["{value.name}"] = {self._shape(value, scope)}' for value in graph.inputs]
        limits = list(self._limits(scope))
        needed = dict.fromkeys((*self.sizes, *self.held, *scope.needed))
        past = [state.past for state in graph.states]
        kept = [
            (f'array(cache, "{state.name}", {len(graph.types[state.past].shape)})', state.past)
            for state in graph.states
        ]
        held: list[Source] = [(text, graph.types[value].shape) for text, value in kept]
        assert past, "the entry of a step has a state"
        found = locate(
            needed,
            [
                *self._given("inputs", graph.inputs),
                *held,
                *self._given("params", self._params()),
            ],
            graph.sizes,
            graph.sizes.defaults,
            graph.span,
        )
        self.plan.constants.update(found.constants)
        self.plan.helpers["array"] = None
        starts = self._starts()
        words = mentioned([*found.lines, *starts, *shapes])
        fresh = Names(words)
        names = [fresh.fresh(name) for name in graph.output_names]
        results = [f'"{n}": {r}' for n, r in zip(graph.output_names, names, strict=True)]
        arguments = ["params", "cache", "kept"]
        arguments += [f'inputs["{value.name}"]' for value in graph.inputs]
        call = f"{', '.join(names)} = {self.plan.functions[graph.key]}("
        body = [
            '"""Outputs at the new positions by name, and the cache with these positions."""',
            *found.lines,
            *starts,
            "shapes = {name: shape for name, (shape, _) in starts.items()}",
            *shapes,
            "check({**inputs, **params}, shapes)",
            *self._found(spell_symbol(str(self._past.name))),
            "check(cache, {name: shape for name, (shape, _) in found.items()})",
            *limits,
            "kept: Params = {}",
            *bracketed(call, arguments, ")", 4),
            f"return {{{', '.join(results)}}}, kept",
        ]
        given = ["params: Params", "cache: Params", "inputs: Mapping[str, Array]"]
        head = bracketed("def step(", given, ") -> tuple[dict[str, Array], Params]:")
        return self._decorated([*head, *indented(body)])

    @property
    def _past(self) -> Dim:
        """The symbol of the past positions."""
        return self._lengths[0]

    @property
    def _lengths(self) -> tuple[Dim, Dim]:
        """The lengths of past and new positions, which C concatenates."""
        state = self.graph.states[0]
        step = next(s for s in self.graph.steps if isinstance(s, Apply) and state.past in s.inputs)
        past, new = step.attrs["lengths"]
        return past, new

    def _limits(self, scope: Scope) -> Iterator[str]:
        """Lines that refuse more positions than a table has rows."""
        seen: set[tuple[Dim, Dim]] = set()
        for limit in size_constraints(self.plan.program):
            pair = (limit.smaller, limit.larger)
            if pair not in seen and str(self._past.name) in limit.smaller.symbols():
                seen.add(pair)
                smaller, larger = scope.size(limit.smaller).text, scope.size(limit.larger).text
                told = f"{smaller} = {{{smaller}}} is more than {larger} = {{{larger}}}"
                yield f"if {smaller} > {larger}:"
                yield f'    told = f"{told}"'
                yield f'    raise ValueError(f"{{told}}: {limit.why}")'
