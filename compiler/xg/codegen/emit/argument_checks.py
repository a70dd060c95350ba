"""Write the lines that refuse arguments: sizes, integers out of range, wrong names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from xg.codegen.emit.array_ops import mesh_lines
from xg.codegen.emit.block_functions import Forward
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import safe
from xg.codegen.emit.spelling import Scope, Source, denominator_of, private, read_in_part
from xg.codegen.emit.text import WIDTH, Precedence, bracketed, dictionary, infix
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim
from xg.ir.graph import Apply, Graph, IRProgram, Value
from xg.ir.size_checks import (
    SizeSources,
    axes_of,
    axes_with_positions,
    carried_symbols,
    closure,
    difference_limits,
    reaches_of,
    size_constraints,
    sizes_of_params,
)
from xg.ir.tensor import Sizes
from xg.ir.use import AtMost
from xg.ir.walk import ignored, instances

# Lines that refuse sizes which do not divide or are less than 1.
#
# Arrays or a caller have given them numbers by then.


@dataclass(frozen=True, slots=True)
class WholeSizes:
    """Sizes with a division that the file's numbers do not settle, in symbols of the entry.

    `differences` are limits of sizes from which something is taken, `carried` the symbols that
    arrays give numbers.
    """

    sizes: Sizes
    fractions: tuple[Dim, ...]
    differences: tuple[AtMost, ...]
    carried: frozenset[str]

    @classmethod
    def of(cls, program: IRProgram, sources: SizeSources) -> WholeSizes:
        """Find the sizes of a program to check, except sizes that follow from another one."""
        main = program.main
        axes = dict.fromkeys(
            graph.sizes.expand(dim).substitute(symbols)
            for graph, symbols in instances(program)
            for dim in axes_of(graph)
        )
        carried = carried_symbols(main) | sources.implied_symbols(main)
        known = main.sizes.defaults.keys() - carried
        open_ = [dim for dim in axes if not known >= {*dim.symbols()}]
        found = dict.fromkeys(fraction for dim in open_ for fraction in _fractions(dim))
        fractions = [each for each in found if not known >= {*each.symbols()}]
        implied = sources.implied_symbols(main)
        limits = difference_limits(program, implied)
        taken = [each for each in limits if not known >= {*each.larger.symbols()}]
        return cls(main.sizes, tuple(_drop_implied_sizes(fractions)), tuple(_least(taken)), carried)

    def lines_of_init(self, chosen: Collection[str], scope: Scope) -> Iterator[str]:
        """Lines for the sizes that follow from those that a caller of ``init`` chooses."""
        fixed = self.sizes.defaults.keys() - self.carried

        def is_chosen(dim: Dim) -> bool:
            symbols = {*dim.symbols()}
            return symbols <= {*chosen, *fixed} and not symbols <= fixed

        for each in filter(is_chosen, self.fractions):
            yield from self._lines(each, scope)
        for each in self.differences:
            if is_chosen(each.larger):
                yield from self._too_short(each, scope)

    def lines(
        self,
        sources: Sequence[Source],
        scope: Scope,
        concerns: Callable[[Dim], bool] = lambda dim: True,
        *,
        of_step: bool = False,
    ) -> Iterator[str]:
        """Lines for the sizes that follow from the shapes of arrays.

        A step may have no new position but the one that it takes: nothing of it is S - 1 long.
        """
        parts = [self.sizes.expand(dim) for dim in read_in_part(sources, self.sizes)]
        readable = self.carried | self.sizes.defaults.keys()
        for each in _drop_implied_sizes(self.fractions, parts):
            if readable >= {*each.symbols()} and concerns(each):
                yield from self._lines(each, scope)
        for each in () if of_step else self.differences:
            if readable >= {*each.larger.symbols()} and concerns(each.larger):
                yield from self._too_short(each, scope)

    def _too_short(self, limit: AtMost, scope: Scope) -> Iterator[str]:
        length, said = scope.size(limit.larger).text, self.sizes.fold(limit.larger)
        yield f"if {length} < {limit.smaller}:"
        yield from _error_lines(f"{said} = {{{length}}}", "short", f": {limit.why}")

    def _lines(self, fraction: Dim, scope: Scope) -> Iterator[str]:
        below = denominator_of(fraction)
        whole, parts = scope.size(fraction * below), scope.size(below)
        yield f"if {infix(whole, '%', parts, Precedence.PRODUCT).text}:"
        folded = self.sizes.fold(fraction)
        said = f"{folded} = {fraction}" if folded.name else str(folded)
        said += f" = {_placeholder(whole.text)}/{_placeholder(parts.text)}"
        yield from _error_lines(said, "division", " is not a whole number")


def _error_lines(said: str, variable: str, rest: str) -> Iterator[str]:
    """Lines that refuse a size; what is said of it is a variable where the line would be long."""
    line = f'    raise ValueError(f"{said}{rest}")'
    if len(line) + 8 <= WIDTH:
        yield line
    else:
        yield f'    {variable} = f"{said}"'
        yield f'    raise ValueError(f"{{{variable}}}{rest}")'


def _placeholder(size: str) -> str:
    return size if size.isdigit() else f"{{{size}}}"


def _least(limits: Sequence[AtMost]) -> Iterator[AtMost]:
    """Yield the limits that follow from no stricter one: S - 2 is at least 0 if S - 4 is."""
    room = [each.larger - each.smaller for each in limits]
    for limit, own in zip(limits, room, strict=True):
        rests = ((own - other).constant for other in room)
        if not any(rest is not None and rest > 0 for rest in rests):
            yield limit


def _fractions(dim: Dim) -> Iterator[Dim]:
    """The terms of a size that divide; all in one, if they are whole together only."""
    terms = [each for each in (Dim((term,)) for term in dim.terms) if denominator_of(each) != ONE]
    if len(terms) > 1:
        yield sum(terms, ZERO)
    else:
        yield from terms


def _drop_implied_sizes(fractions: Sequence[Dim], known: Sequence[Dim] = ()) -> list[Dim]:
    """Drop fractions that others or `known` imply; of two equivalent ones, keep the simpler."""
    needed: list[Dim] = []
    for each in sorted(fractions, key=_factors):
        if not _all_follow(each, [*known, *needed]):
            needed.append(each)
    for each in [*needed]:
        others = [other for other in needed if other != each]
        if _all_follow(each, [*known, *others]):
            needed = others
    return needed


def _all_follow(dim: Dim, whole: Sequence[Dim]) -> bool:
    return all(_follows(Dim((term,)), whole) for term in dim.terms)


def _follows(term: Dim, whole: Sequence[Dim]) -> bool:
    """Whether a term is a product of sizes that are whole."""
    if denominator_of(term) == ONE:
        return True
    below = _factors(term)[0]
    rests = [term / each for each in whole if len(each.terms) == 1]
    return any(_factors(rest)[0] < below and _follows(rest, whole) for rest in rests)


def _factors(dim: Dim) -> tuple[int, int]:
    """Count the factors in the denominator of a size, and in its numerator."""
    below = denominator_of(dim)
    return _count(below), _count(dim * below)


def _count(dim: Dim) -> int:
    return max(
        sum(power for _, power in monomial) + (coefficient != 1)
        for monomial, coefficient in dim.terms
    )


# Lines that refuse sizes which an operator cannot take, once arrays have given them numbers.


def open_limits(program: IRProgram) -> Iterator[AtMost]:
    """The limits that the numbers of a file do not settle; of ranks none, whose sizes are parts."""
    if program.mesh:
        return
    sizes = program.main.sizes
    settled = sizes.defaults.keys() - carried_symbols(program.main)
    filled = {*sizes_of_params(program)}  # which were refused before
    for limit in (*size_constraints(program), *axes_with_positions(program)):
        room = sizes.expand(limit.larger - limit.smaller)
        if limit.smaller == ONE and _is_product_of(sizes.expand(limit.larger), filled):
            continue
        if room.constant is None and not {*room.symbols()} <= settled:
            yield limit


def _is_product_of(dim: Dim, names: Collection[str]) -> bool:
    """Whether a size is 1 or more if all of these are: D/N_H, which is whole."""
    return len(dim.terms) == 1 and all(
        name in names for name, power in dim.terms[0][0] if power > 0
    )


def limit_lines(
    program: IRProgram,
    scope: Scope,
    concerns: Callable[[AtMost], bool] = lambda limit: True,
    *,
    indent: int = 4,
) -> Iterator[str]:
    """A test and an error in the file's own sizes for each limit that is open."""
    seen: set[tuple[Dim, Dim]] = set()
    for limit in open_limits(program):
        pair = (limit.smaller, limit.larger)
        if pair in seen or not concerns(limit):
            continue
        seen.add(pair)
        smaller, larger = (scope.size(dim).text for dim in pair)
        if limit.smaller == ONE:
            yield f"if {larger} < 1:"
            yield from _refusal(f"{_size_text(larger)}: {limit.why}", indent)
            continue
        yield f"if {smaller} > {larger}:"
        yield f'    excess = f"{_size_text(smaller)} is more than {_size_text(larger)}"'
        yield f'    raise ValueError(f"{{excess}}: {limit.why}")'


def _refusal(text: str, indent: int) -> Iterator[str]:
    """The error, in three lines if one is too short where it is indented so far."""
    line = f'    raise ValueError(f"{text}")'
    if len(line) + indent <= WIDTH:
        yield line
    else:
        yield from ("    raise ValueError(", f'        f"{text}"', "    )")


def _size_text(size: str) -> str:
    return size if size.isdigit() else f"{size} = {{{size}}}"


# Lines that widen the integers of a caller, and refuse those outside `ids [B, S] in V`.


WIDEN = "integers"
CHECK = "check_width"
FLOATS = "check_floats"


def ranges(plan: ModulePlan, graph: Graph) -> Iterator[tuple[Value, Dim | None]]:
    """The integer inputs of a block, with their range if arrays give it a number."""
    carried = carried_symbols(graph) | plan.sources.implied_symbols(graph)
    for value in graph.inputs:
        below = graph.types[value].range
        if below is None:
            continue
        names, defined = closure(graph.sizes.fold_exactly(below).symbols(), carried, graph.sizes)
        known = {*carried, *defined, *graph.sizes.defaults}
        yield value, below if known.issuperset(names) else None


def range_lines(plan: ModulePlan, scope: Scope, texts: Sequence[str], indent: int) -> list[str]:
    """Return lines that widen each integer input and check its range; `texts` name all inputs."""
    graph = plan.program.main
    by_value = dict(zip(graph.inputs, texts, strict=True))
    lines: list[str] = []
    for value, below in ranges(plan, graph):
        plan.operators.support[WIDEN] = None
        limit = "None"
        if below is not None:
            length = plan.program.lengths.get(below.name or "")
            limit = scope.size(below).text if length is None else str(length)
        items = [by_value[value], f'"{value.name}"', limit]
        left_out = None if below is None else ignored(plan.program, value)
        items += [] if left_out is None else [str(left_out)]
        lines += bracketed(f"{by_value[value]} = {private(WIDEN)}(", items, ")", indent)
    return lines


def cache_lines(plan: ModulePlan) -> list[str]:
    """Lines that widen the integers of a cache, which may have been stored in a narrow type."""
    graphs = plan.program.graphs.values()
    if all(each.types[state.past].is_float for each in graphs for state in each.states):
        return []
    plan.operators.support[WIDEN] = None
    widened = f'{private(WIDEN)}(cache[name], name, None) if kind == "int" else cache[name]'
    rounds = "for name, (_, kind) in cached.items()"
    return ["cache = {", f"    name: {widened}", f"    {rounds}", "}"]


def typed_lines(plan: ModulePlan, cast: str) -> list[str]:
    """The lines that refuse parameters, states and inputs of two types of floats.

    Without parameters `empty_cache` cannot know the type: there `cast` gives states that of an
    input.
    """
    graph = plan.program.main
    floats = '{name: cache[name] for name, (_, kind) in cached.items() if kind != "int"}'
    names = [value.name for value in graph.inputs if graph.types[value].is_float]
    if plan.has_params or not names:
        lines = float_lines(plan, "{**params, **floats}")
        return [f"floats = {floats}", *lines] if lines else []
    return [
        *float_lines(plan),
        f'floats = inputs["{names[0]}"]',
        "cache = {",
        f'    name: cache[name] if kind == "int" else {cast}',
        "    for name, (_, kind) in cached.items()",
        "}",
    ]


def width_lines(plan: ModulePlan, scope: Scope) -> Iterator[str]:
    """Lines that refuse integers which the narrowest type of the backend may not hold."""
    graph, seen = plan.program.main, set[Dim]()
    carried = carried_symbols(graph) | plan.sources.implied_symbols(graph)
    for each, symbols in instances(plan.program):
        for step in each.steps:
            bounds = reaches_of(each, step) if isinstance(step, Apply) else []
            for bound in bounds:
                reach = graph.sizes.expand(each.sizes.expand(bound).substitute(symbols))
                names, defined = closure(reach.symbols(), carried, graph.sizes)
                known = {*carried, *defined, *graph.sizes.defaults}
                narrow = reach.constant is not None and reach.constant < 2**31
                if narrow or reach in seen or not known.issuperset(names):
                    continue
                seen.add(reach)
                plan.operators.support[CHECK] = None
                assert isinstance(step, Apply)
                items = [scope.size(reach).text, f'"{safe(step.op.glyph)}"']
                yield from bracketed(f"{private(CHECK)}(", items, ")", 4)


def given_range_lines(plan: ModulePlan, scope: Scope) -> list[str]:
    """The same for inputs as they come from outside, in a dict."""
    texts = [f'inputs["{value.name}"]' for value in plan.program.main.inputs]
    lines = range_lines(plan, scope, texts, 4)
    return ["inputs = dict(inputs)", *lines] if lines else []


def float_lines(plan: ModulePlan, params: str = "params") -> list[str]:
    """The line that refuses what are no floats, or floats of two types, where floats should be."""
    graph = plan.program.main
    names = [f'"{value.name}"' for value in graph.inputs if graph.types[value].is_float]
    if not names and not plan.has_params:
        return []
    plan.operators.support[FLOATS] = None
    return bracketed(f"{private(FLOATS)}(", [params, "inputs", *names], ")", 4)


def first_checks(plan: ModulePlan, lines: Iterable[str]) -> list[str]:
    """Lines that refuse another mesh, what is no dict of arrays, and inputs of other names.

    Of inputs from which `lines` read sizes they also check the number of axes.
    """
    main, text = plan.program.main, "\n".join(lines)
    read = [value for value in main.inputs if f'inputs["{value.name}"].shape' in text]
    axes = [f'"{value.name}": {len(main.types[value].shape)}' for value in read]
    names = ", ".join(f'"{value.name}"' for value in main.inputs if value not in read)
    return [*mesh_lines(plan.program.mesh), *check_lines("inputs", axes, "params", "axes", names)]


def check_lines(
    what: str,
    shapes: Sequence[str],
    others: str,
    variable: str,
    names: str = "",
    indent: int = 4,
    arrays: str = "",
) -> list[str]:
    """A call of `_check` on the dict `what`, whose arrays may have further `names`.

    Its shapes are those of a `variable` if the line is long; `arrays` is the dict's own variable if
    that has another name.
    """
    rest = f", {others}{', ' * bool(names)}{names})"
    head = f'_check("{what}", {arrays or what}, '
    lines = dictionary(head, shapes, rest, indent)
    if len(lines) == 1:
        return lines
    call = f"{head}{variable}{rest}"
    return [*dictionary(f"{variable} = ", shapes, "", indent), call]


def backward_checks(entry: Forward) -> list[str]:
    """Lines that refuse what `forward` did not save."""
    fields = [*entry.fields.values()][:1]
    wrong = '"saved should be the second result of forward, not its first"'
    tests = [f'if not hasattr(saved, "{name}"):' for name in fields]
    return [line for test in tests for line in (test, f"    raise TypeError({wrong})")]
