"""Write the functions that make, cut, gather and update parameters: `init`, `shard` …"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.codegen.emit.argument_checks import WholeSizes
from xg.codegen.emit.array_ops import mesh_lines
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.parameters import cut_lines, param_starts, table_lines, table_type
from xg.codegen.emit.spelling import Scope, definition_lines, locate, private
from xg.codegen.emit.text import WIDTH, bracketed, indent_lines
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Call, Graph, IRProgram, Value
from xg.ir.size_checks import carried_symbols, closure, sizes_of_params
from xg.ir.walk import CallSite, callers_first, entry, join, moving

# Frozen parameters: which of a module's gradients are left out on purpose.


def frozen_patterns(program: IRProgram) -> list[str]:
    """The frozen parameters of a program, with ``*`` for the numbers of a row of blocks."""

    def below(site: CallSite) -> Iterator[CallSite]:
        for call in site.graph.named_calls():
            inner = site.enter(call, program.graphs)
            yield inner if call.count is None else replace(inner, path=f"{inner.path}.*")

    return [
        join(site.path, str(param.value.name))
        for site in callers_first(entry(program), below)
        for param in site.graph.params
        if param.value.frozen
    ]


def learns_function(program: IRProgram) -> list[str]:
    """The function that tells the parameters that have a gradient from the frozen ones."""
    patterns = [f'"{pattern}"' for pattern in frozen_patterns(program)]
    return [
        "def _learns(name: str) -> bool:",
        '    """Whether a gradient is taken of a parameter, whatever the number of its block."""',
        '    parts = ["*" if part.isdigit() else part for part in name.split(".")]',
        *indent_lines(bracketed('return ".".join(parts) not in [', patterns, "]", 4)),
    ]


SHARD: Final = [
    "def shard(params: Params, mesh: Mesh) -> Params:",
    '    """Cut whole parameters: returns the shards of the rank that calls it."""',
    "    with mesh:",
    "        return local_shards(params, cuts())",
]
GATHER: Final = [
    "def gather(params: Params, mesh: Mesh) -> Params:",
    '    """Put the shards of all ranks together: returns whole parameters."""',
    "    with mesh:",
    "        return gather_shards(params, cuts())",
]


@dataclass(slots=True)
class ParamsWriter:
    """Writes them; `table` is the private function that lists all parameters.

    `sizes` are the symbols that the table needs, `whole` what is to divide.
    """

    dialect: Dialect
    plan: ModulePlan
    table: list[str]
    sizes: tuple[str, ...]
    whole: WholeSizes

    @classmethod
    def start(cls, dialect: Dialect, plan: ModulePlan) -> ParamsWriter:
        """With the table of a program's parameters."""
        scope = Scope(plan.program.main.sizes)
        lines = table_lines(plan.program, scope)
        sizes = tuple(scope.needed)
        arguments = [f"{spell_symbol(name)}: int" for name in sizes]
        names = ["*", *arguments] if arguments else []
        kind = table_type(plan.program)
        bounds = ", bounds" if kind == "StartTable" else ""
        said = f"Shape and start of every parameter: ones, zeros{bounds} or a standard deviation."
        body = [f'"""{said}"""']
        widths = [f"{name}={name}" for name in map(spell_symbol, sizes_of_params(plan.program))]
        widths = [each for each in widths if f"{each.split('=')[0]}: int" in arguments]
        if widths:
            plan.helpers["refuse_empty"] = None
            body += bracketed("_refuse_empty(", widths, ")", 4)
        table = [*bracketed("def _param_table(", names, f") -> {kind}:"), *indent_lines(body)]
        return cls(
            dialect,
            plan,
            [*table, *indent_lines(lines)],
            sizes,
            WholeSizes.of(plan.program, plan.sources),
        )

    @property
    def graph(self) -> Graph:
        """The entry block."""
        return self.plan.program.main

    @property
    def is_cut(self) -> bool:
        """Whether the module is one for many ranks."""
        return bool(self.plan.program.mesh)

    def functions(self) -> list[list[str]]:
        """The public ones, in reading order."""
        return [self._init(), *([self._cuts(), SHARD, GATHER] if self.is_cut else [])]

    def shapes(self, unless: str = "", *, named: bool = True) -> list[str]:
        """Lines that find the shape of every parameter, from known sizes; of none `unless` …

        The table gets a name if it is `named`, or long.
        """
        names = ", ".join(self._size_keywords())
        line = f"shapes = {{name: shape for name, (shape, _) in _param_table({names}).items()}}"
        if not (unless or named) and len(line) + 4 <= WIDTH:
            return [line]
        lines = bracketed("table = _param_table(", self._size_keywords(), ")", 8 if unless else 4)
        if unless:
            kind = table_type(self.plan.program)
            lines = [f"table: {kind} = {{}}", f"if not {unless}:", *indent_lines(lines)]
        return [
            *lines,
            "shapes = {name: shape for name, (shape, _) in table.items()}",
        ]

    def chosen_sizes(self, needed: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the sizes that ``init`` takes as arguments, and lines for the defined ones."""
        sizes, carried = self.graph.sizes, carried_symbols(self.graph)
        names, defined = closure(needed, (), sizes)
        free = [name for name in names if name not in defined]
        numbers = {name: sizes.defaults[name] for name in free if name in sizes.defaults}
        self.plan.constants.update(numbers)
        open_ = (name for name in free if name in carried or name not in numbers)
        chosen = [name for name in open_ if name not in self.plan.program.lengths]
        return chosen, definition_lines(defined, sizes)

    def init_arguments(self, chosen: Sequence[str]) -> list[str]:
        """The arguments of ``init``, and of what calls it."""
        defaults = self.graph.sizes.defaults
        sizes = [
            f"{name}: int" + (f" = {name}" if symbol in defaults else "")
            for symbol, name in zip(chosen, map(spell_symbol, chosen), strict=True)
        ]
        return ["seed: int = 0", *self.dialect.types, *(["*", *sizes] if sizes else [])]

    # ---- init -----------------------------------------------------------------------------------

    def _size_keywords(self) -> list[str]:
        return [f"{name}={name}" for name in map(spell_symbol, self.sizes)]

    def _init(self) -> list[str]:
        """Sizes that arrays carry can be chosen; the others are the module's own."""
        chosen, _ = self.chosen_sizes(self.sizes)
        scope = Scope(self.graph.sizes)
        refusals = list(self.whole.lines_of_init(chosen, scope))
        _, lines = self.chosen_sizes([*self.sizes, *scope.needed])
        lines += refusals
        head = bracketed("def init(", self.init_arguments(chosen), ") -> Params:")
        starts = param_starts(self.plan.program)
        drawn = "drawn from the seed" if self._is_drawn(starts) else "none of them random"
        doc = f"Make the parameters, by their names in the diagram, {drawn}."
        body = [f'"""{doc}"""', *mesh_lines(self.plan.program.mesh), *lines]
        body += ["_check_float(dtype)"] if starts else []
        if not starts:
            return [*head, *indent_lines([*body, "return {}"])]
        body += [
            "params: Params = {}",
            *(["where = cuts()"] if self.is_cut and self._takes_shards(starts) else []),
            *self._loop(starts not in (["ones"], ["zeros"])),
            *indent_lines(self._start_lines(starts)),
            "return params",
        ]
        return [*head, *indent_lines(body)]

    def _is_drawn(self, starts: Sequence[str]) -> bool:
        """Whether some parameter is drawn; a number is between two equal bounds."""
        return "normal" in starts or "uniform" in starts

    def _takes_shards(self, starts: Sequence[str]) -> bool:
        """Whether some parameter is a shard of a whole one that is made first."""
        return self._is_drawn(starts) or self._has_pads("ones" if "ones" in starts else "")

    def _has_pads(self, word: str) -> bool:
        """Whether ranks fill a start of ones with zeros."""
        return word == "ones" and bool(self.plan.program.lengths)

    def _loop(self, branches: bool) -> list[str]:
        names = self._size_keywords()
        loop = f"for name, (shape, {'start' if branches else '_'}) in "
        one = f"{loop}_param_table({', '.join(names)}).items():"
        if len(one) + 4 <= WIDTH:
            return [one]
        return [*bracketed("table = _param_table(", names, ")", 4), f"{loop}table.items():"]

    def _start_lines(self, starts: Sequence[str]) -> list[str]:
        """How each kind of start is made."""
        makers = {"ones": self.dialect.ones, "zeros": self.dialect.zeros}
        lines: list[str] = []
        for word in starts:
            names = [f"params[name] = {makers[word]}"] if word in makers else self._drawn(word)
            if self._has_pads(word):
                whole = makers[word].replace("(shape,", "(global_shape(shape, cut),")
                names = ["cut = where.get(name, ())", f"whole = {whole}"]
                names.append("params[name] = local_shard(whole, cut)")
            if len(starts) == 1:
                return names
            test = "isinstance(start, tuple)" if word == "uniform" else f'start == "{word}"'
            last = word == starts[-1]
            head = "else:" if last else f"elif {test}:" if lines else f"if {test}:"
            lines += [head, *indent_lines(names)]
        return lines

    def _drawn(self, law: str) -> list[str]:
        """How a parameter is drawn: a rank takes its shard of the whole one."""
        function = private(law)
        numbers = "*start" if law == "uniform" else "float(start)"
        if not self.is_cut:
            drawn = f"{function}(seed, name, shape, {numbers})"
            return [f"params[name] = {drawn}{self.dialect.converted}"]
        return [
            "cut = where.get(name, ())",
            f"whole = {function}(seed, name, global_shape(shape, cut), {numbers})",
            f"params[name] = local_shard(whole, cut){self.dialect.converted}",
        ]

    def _cuts(self) -> list[str]:
        """The function that lists the placements of a module for many ranks."""
        scope = Scope(self.graph.sizes)
        lines = cut_lines(self.plan.program, scope)
        sizes = self.graph.sizes
        located = locate(scope.needed, [], sizes, sizes.defaults, self.graph.span)
        self.plan.constants.update(located.constants)
        body = [
            '"""Axes of parameters, inputs and outputs, each with the mesh axis that cuts it."""',
            *located.lines,
            *lines,
        ]
        return ["def cuts() -> dict[str, Cuts]:", *indent_lines(body)]


# The functions that move running statistics by what a forward pass has saved.


DOC: Final = (
    '"""Running statistics after a batch of training, of what `forward` saved under a seed.',
    "",
    "To be called before `backward`, and put in the place of those among the parameters.",
    '"""',
)


def move_function(plan: ModulePlan, graph: Graph, fields: Mapping[Value, str]) -> list[str]:
    """Return the function that moves the running statistics of a block and its calls."""
    name, path = plan.functions[graph.key], plan.has_path(graph)
    items = ["params: Params", *(["at: str"] if path else []), f"saved: {plan.classes[graph.key]}"]
    lines: list[str] = []
    for each in moving(graph):
        place = f'f"{{at}}.{each.param.name}"' if path else f'"{each.param.name}"'
        share = Scope(graph.sizes).number(each.share).text
        near = f"saved.{fields[each.target]}"
        args = [f"params[{place}]", near, share]
        lines += bracketed(f"params[{place}] = _toward(", args, ")", 4)
    for call in graph.calls:
        if call.callee in plan.moved:
            lines += _call_lines(plan, call, path, fields[call.saved])
    plan.operators.support["toward"] = None
    return [
        *bracketed(f"def move_{name}(", items, ") -> None:"),
        f'    """Move the running statistics of `{name}`, in place."""',
        *indent_lines(lines),
    ]


def _call_lines(plan: ModulePlan, call: Call, path: bool, field: str) -> list[str]:
    """Lines for the saved values of a call, or of each of its rounds."""
    function = f"move_{plan.functions[call.callee]}"
    rows = call.rounds is not None
    below = f"{call.path}.{{i}}" if call.count is not None else call.path
    is_text = path or call.count is not None
    at = f'f"{{at}}.{below}"' if path else f'f"{below}"' if is_text else f'"{below}"'
    saved = "one" if rows else f"saved.{field}"
    args = ["params", *([at] if plan.has_path(plan.program.graphs[call.callee]) else []), saved]
    if not rows:
        return bracketed(f"{function}(", args, ")", 4)
    inside = indent_lines(bracketed(f"{function}(", args, ")", 8))
    if call.count is None:
        return [f"for one in saved.{field}:", *inside]
    first = f", {call.first}" if call.first else ""
    return [f"for i, one in enumerate(saved.{field}{first}):", *inside]


def moved_function(plan: ModulePlan, saved_class: str) -> list[str]:
    """The public function."""
    head = bracketed("def moved(", ["params: Params", f"saved: {saved_class}"], ") -> Params:")
    entry = plan.functions[plan.program.entry]
    kept = "{name: array for name, array in changed.items() if array is not params[name]}"
    body = ["changed = dict(params)", f"move_{entry}(changed, saved)", f"return {kept}"]
    return [*head, *indent_lines([*DOC, *body])]
