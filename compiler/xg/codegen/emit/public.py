"""The public functions of a module: `table`, `init`, `forward` and `backward`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.forward import Forward
from xg.codegen.emit.line_breaks import bracketed, indented
from xg.codegen.emit.locate import Located, Source, closure, definition_lines, locate
from xg.codegen.emit.names import Names, mentioned, spell_symbol
from xg.codegen.emit.param_table import cut_lines, table_lines
from xg.codegen.emit.plan import ModulePlan, carried_symbols
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.text import WIDTH, tuple_of
from xg.codegen.emit.writer import may_be_none
from xg.ir.graph import Graph, Value

WHOLE: Final = """
            whole = normal(seed, name, global_shape(shape, cut), float(start))"""


@dataclass(slots=True)
class PublicWriter:
    """Writes them, around the functions of the entry block.

    `entry` is its forward function; `lost` are the sizes that it saves as numbers.
    """

    dialect: Dialect
    plan: ModulePlan
    entry: Forward
    lost: tuple[str, ...]
    sizes: tuple[str, ...] = field(default=(), init=False)  # what the table of parameters needs

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
        ranks = [self._cuts(), *self._sharding()] if self.plan.program.mesh else []
        return [self._table(), *ranks, self._init(), self._forward(), self._backward()]

    # ---- parameters -----------------------------------------------------------------------------

    def _table(self) -> list[str]:
        scope = Scope(self.graph.sizes)
        lines = table_lines(self.plan.program, scope)
        self.sizes = tuple(scope.needed)
        arguments = [f"{spell_symbol(name)}: int" for name in self.sizes]
        head = bracketed(
            "def table(",
            ["*", *arguments] if arguments else [],
            ") -> dict[str, tuple[tuple[int, ...], float | str]]:",
        )
        body = [
            '"""Name, shape and start of every parameter: a word, or the deviation of a normal."""',
            "starts: dict[str, tuple[tuple[int, ...], float | str]] = {}",
            *lines,
            "return starts",
        ]
        return [*head, *indented(body)]

    def _cuts(self) -> list[str]:
        """The function that gives the placements of a module's tensors on a mesh."""
        scope = Scope(self.graph.sizes)
        lines = cut_lines(self.plan.program, scope)
        located = locate(
            scope.needed, [], self.graph.sizes, self.graph.sizes.defaults, self.graph.span
        )
        self.plan.constants.update(located.constants)
        body = [
            '"""Axes of parameters, inputs and outputs with the mesh axes that cut them."""',
            "found: dict[str, Cuts] = {}",
            *located.lines,
            *lines,
            "return found",
        ]
        return ["def cuts() -> dict[str, Cuts]:", *indented(body)]

    def _sharding(self) -> list[list[str]]:
        shard = [
            "def shard(params: Params, mesh: Mesh) -> Params:",
            '    """Of whole parameters, the parts of the rank that runs this."""',
            "    with mesh:",
            "        return local_shards(params, cuts())",
        ]
        gather = [
            "def gather(params: Params, mesh: Mesh) -> Params:",
            '    """The whole parameters of which every rank gives its parts."""',
            "    with mesh:",
            "        return gather_shards(params, cuts())",
        ]
        return [shard, gather]

    def _starts(self) -> list[str]:
        """The line that fills the table from known sizes."""
        given = [f"{name}={name}" for name in map(spell_symbol, self.sizes)]
        return bracketed("starts = table(", given, ")", 4)

    def _init(self) -> list[str]:
        """Sizes that arrays carry can be chosen; the others are the module's own."""
        chosen, lines = self.chosen_sizes(self.sizes)
        head = bracketed("def init(", self.init_arguments(chosen), ") -> Params:")
        lines += self._starts()
        lines += ["where = cuts()"] if self.plan.program.mesh else []
        starts = "\n".join(indented(lines)).strip()
        init = self.dialect.init.format(starts=starts, **self._drawn())
        return [*head, *init.strip("\n").splitlines()]

    def _drawn(self) -> dict[str, str]:
        """How a parameter is drawn: a rank takes its part of the whole one."""
        if not self.plan.program.mesh:
            return {"cuts": "", "whole": "", "drawn": "normal(seed, name, shape, float(start))"}
        return {
            "cuts": "\n        cut = where.get(name, ())",
            "whole": WHOLE,
            "drawn": "local_shard(whole, cut)",
        }

    def chosen_sizes(self, needed: Iterable[str]) -> tuple[list[str], list[str]]:
        """Of the needed symbols those that a caller of ``init`` chooses; lines for the defined."""
        sizes, carried = self.graph.sizes, carried_symbols(self.graph)
        wanted, defined = closure(needed, (), sizes)
        free = [name for name in wanted if name not in defined]
        numbers = {name: sizes.defaults[name] for name in free if name in sizes.defaults}
        self.plan.constants.update(numbers)
        chosen = [name for name in free if name in carried or name not in numbers]
        return chosen, definition_lines(defined, sizes)

    def init_arguments(self, chosen: Sequence[str]) -> list[str]:
        """The arguments of ``init``, and of its callers."""
        defaults = self.graph.sizes.defaults
        sizes = [
            f"{name}: int" + (f" = {name}" if symbol in defaults else "")
            for symbol, name in zip(chosen, map(spell_symbol, chosen), strict=True)
        ]
        return ["seed: int = 0", *self.dialect.types, *(["*", *sizes] if sizes else [])]

    # ---- passes ---------------------------------------------------------------------------------

    def _forward(self) -> list[str]:
        graph, scope = self.graph, Scope(self.graph.sizes)
        shapes = [f'shapes["{value.name}"] = {self._shape(value, scope)}' for value in graph.inputs]
        needed = dict.fromkeys((*self.sizes, *scope.needed))
        found = locate(
            needed,
            [*self._given("inputs", graph.inputs), *self._given("params", self._params())],
            graph.sizes,
            graph.sizes.defaults,
            graph.span,
        )
        self.plan.constants.update(found.constants)
        starts = self._starts()
        words = mentioned([*found.lines, *starts, *shapes])
        if "array" in words:
            self.plan.helpers["array"] = None
        fresh = Names(words)
        names = [fresh.fresh(name) for name in graph.output_names]
        results = [f'"{n}": {r}' for n, r in zip(graph.output_names, names, strict=True)]
        body = [
            '"""Outputs by name, and what `backward` needs; without a seed dropout is off."""',
            *found.lines,
            *starts,
            "shapes = {name: shape for name, (shape, _) in starts.items()}",
            *shapes,
            "check({**inputs, **params}, shapes)",
            *self._entry_call(names),
            *_returned(results),
        ]
        seed = f"seed: {self.dialect.spelling.seed} = None"
        given = ["params: Params", "inputs: Mapping[str, Array]", "*", seed]
        head = bracketed(
            "def forward(", given, f") -> tuple[dict[str, Array], {self.saved_class}]:"
        )
        return self._decorated([*head, *indented(body)])

    def _entry_call(self, results: list[str]) -> list[str]:
        arguments = ["params", *(f'inputs["{value.name}"]' for value in self.graph.inputs)]
        if self.graph.key in self.plan.random:
            arguments.append("seed=seed")
        function = self.plan.functions[self.graph.key]
        return bracketed(f"{', '.join([*results, 'saved'])} = {function}(", arguments, ")", 4)

    def _backward(self) -> list[str]:
        graph, scope = self.graph, Scope(self.graph.sizes)
        backward = self.plan.program.backwards[graph.key]
        symbols = (*graph.sizes.defaults, *graph.sizes.definitions)
        names = Names(map(spell_symbol, symbols))
        seeds, lines = self._seeds(scope, names)
        constant = self._constant(scope)
        found = self._located(scope)
        self.plan.constants.update(found.constants)
        inputs = [value for value in graph.inputs if value in backward.gradients]
        given = [names.fresh(f"d{value.name}") for value in inputs]
        call = f"d_{self.plan.functions[graph.key]}("
        head = f"{', '.join(given)} = {call}" if given else call
        body = [
            '"""Gradients of all parameters and float inputs by name; no cotangent means zero."""',
            *self.dialect.like,
            *found.lines,
            *lines,
            "grads: Sums[Array] = Sums()" if self.plan.defers_all_reduce else "grads: Params = {}",
            *bracketed(head, ["params", self._saved(), *seeds, "grads"], ")", 4),
            *(f'grads["{v.name}"] = {name}' for v, name in zip(inputs, given, strict=True)),
            *constant,
            *(["grads.finish()"] if self.plan.defers_all_reduce else []),
            "for name in [name for name in params if name not in grads]:",
            f"    grads[name] = {self.dialect.library}.zeros_like(params[name])",
            "return grads",
        ]
        arguments = ["params: Params", f"saved: {self.saved_class}"]
        arguments.append("d_outputs: Mapping[str, Array]")
        head = bracketed("def backward(", arguments, ") -> Params:")
        return self._decorated([*head, *indented(body)])

    def _saved(self) -> str:
        """The argument of the backward pass; a copy if that frees fields of it."""
        if not self.plan.frees_saved:
            return "saved"
        self.plan.helpers["anew"] = None
        return "anew(saved)"

    def _decorated(self, lines: list[str]) -> list[str]:
        return [self.dialect.decorator, *lines] if self.dialect.decorator else lines

    def _zeros(self, value: Value, scope: Scope) -> str:
        return self.dialect.spelling.zeros(self._shape(value, scope), scope)

    def _nothing(self, value: Value, scope: Scope) -> str:
        """The cotangent of an output that nothing depends on."""
        spelling = self.dialect.spelling
        spell = spelling.no_room if self.plan.kernels else spelling.zeros
        return spell(self._shape(value, scope), scope)

    def unsaved(self) -> tuple[str, ...]:
        """Symbols of shapes that nothing carries but inputs: to be saved as numbers too."""
        scope = Scope(self.graph.sizes)
        self._seeds(scope, Names())
        self._constant(scope)
        return self._located(scope).lost

    def _constant(self, scope: Scope) -> list[str]:
        """Lines for the float inputs on which no output depends."""
        gradients = self.plan.program.backwards[self.graph.key].gradients
        inputs = [value for value in self.graph.inputs if self.graph.types[value].is_float]
        return [
            f'grads["{value.name}"] = {self._zeros(value, scope)}'
            for value in inputs
            if value not in gradients
        ]

    def _located(self, scope: Scope) -> Located:
        """Where `backward` finds the sizes of missing cotangents."""
        sizes = self.graph.sizes
        return locate(
            scope.needed,
            [*self._saved_sources(), *self._param_sources()],
            sizes,
            sizes.defaults,
            self.graph.span,
            {name: f"saved.{spell_symbol(name)}" for name in self.lost},
            carried_symbols(self.graph) - set(self.lost),
        )

    def _seeds(self, scope: Scope, fresh: Names) -> tuple[list[str], list[str]]:
        """A name for the cotangent of every float output, and lines that fetch it.

        One value may be an output under two names: then its cotangent is the sum of theirs.
        """
        names: dict[Value, str] = {}
        lines: list[str] = []
        for name, value in zip(self.graph.output_names, self.graph.outputs, strict=True):
            if not self.graph.types[value].is_float:
                continue
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
                f"    {seed} = {self._nothing(value, scope)}",
            ]
        return list(names.values()), lines

    # ---- sizes ----------------------------------------------------------------------------------

    def _shape(self, value: Value, scope: Scope) -> str:
        texts = scope.shape(self.graph.types[value].shape)
        return tuple_of(texts) if texts else "()"

    def _params(self) -> list[Value]:
        return [param.value for param in self.graph.params]

    def _given(self, arrays: str, values: Sequence[Value]) -> list[Source]:
        """Arrays as they come from outside, where one may be missing."""
        shapes = [(v, self.graph.types[v].shape) for v in values]
        return [(f'array({arrays}, "{v.name}", {len(shape)})', shape) for v, shape in shapes]

    def _param_sources(self) -> list[Source]:
        return [(f'params["{v.name}"]', self.graph.types[v].shape) for v in self._params()]

    def _saved_sources(self) -> list[Source]:
        saved = self.plan.program.backwards[self.graph.key].saved
        return [
            (f"saved.{self.entry.fields[value]}", self.graph.types[value].shape)
            for value in saved
            if value.role != "saved" and not may_be_none(value)
        ]


def _returned(items: list[str]) -> list[str]:
    """The dictionary of outputs and what is saved; where that is long, one item per line."""
    line = f"return {{{', '.join(items)}}}, saved"
    if len(line) + 4 <= WIDTH:
        return [line]
    return ["return {", *(f"    {item}," for item in items), "}, saved"]
