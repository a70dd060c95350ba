"""Find sizes by the shapes of arrays, and check what operators demand of them.

Shapes are valid for all sizes; only when sizes have numbers can ``D/N_H`` fail to be whole or ``S``
exceed ``S_max``. Sizes without numbers are not checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import DimSize
from xg.ir.body import Body
from xg.ir.content import Recent
from xg.ir.dim import ONE, ZERO, Dim, DimError, Scalar, ScalarError, number, product, symbol
from xg.ir.errors import BeyondLimits, NotWhole, NoValue, TooLong, TooShort, WrongWindows
from xg.ir.graph import Apply, Graph, IRProgram
from xg.ir.prim import Expr, Windows
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.ir.use import AtMost, Misuse, Number, WindowCount
from xg.ir.walk import inside, instances, join, param_specs

# Find the sizes that shapes of arrays tell, and the arrays that tell a function its sizes.
#
# An axis of 2*T says how large T is, and one of N + k - 1 how large N is where k is known.
#
# Sizes are solved for only where they occur once and to no power: a root may be no integer, and a
# divisor may be 0. A file may leave a size to `--set`, so an unknown one is a warning.


@dataclass(frozen=True, slots=True)
class ImpliedSize:
    """A size by the length of an axis: (length * parts - rest) / factor.

    `index` counts the shapes, `axis` the axes of that shape; of a rank's axis there are `parts`.
    """

    index: int
    axis: int
    parts: Dim
    rest: Dim
    factor: Dim

    def of(self, length: int, numbers: Mapping[str, int]) -> int | None:
        """Compute the size for this length of the axis; None if it is no size or not known."""
        if not numbers.keys() >= {*self.symbols()}:
            return None
        try:
            return ((number(length) * self.parts - self.rest) / self.factor).evaluate(numbers)
        except DimError:
            return None

    def symbols(self) -> tuple[str, ...]:
        """The sizes that must be known before."""
        dims = (self.parts, self.rest, self.factor)
        return tuple(dict.fromkeys(name for dim in dims for name in dim.symbols()))


def implied_sizes(
    shapes: Sequence[Shape], sizes: Sizes, known: Collection[str]
) -> dict[str, ImpliedSize]:
    """Find the sizes beyond the `known` ones that shapes imply, each after the sizes it needs.

    An axis of D_h says how large that is, also where nothing says so of D and N_H in D/N_H.
    """
    axes = [
        (index, axis, *sizes.size_and_parts(sizes.expand(dim)))
        for index, shape in enumerate(shapes)
        for axis, dim in enumerate(shape)
    ]
    found: dict[str, ImpliedSize] = {}
    growing = True
    while growing:
        growing = False
        for index, axis, whole, parts in axes:
            open_ = [n for n in whole.symbols() if n not in known and n not in found]
            if len(open_) == 1 and (factor := _factor(whole, open_[0])) is not None:
                rest = whole - symbol(open_[0]) * factor
                found[open_[0]] = ImpliedSize(index, axis, parts, rest, factor)
                growing = True
    for index, axis, whole, parts in axes:
        name = sizes.fold(whole).name
        if name is None or name in known or name in found or name not in sizes.definitions:
            continue
        if not {*known, *found}.issuperset(whole.symbols()):
            found[name] = ImpliedSize(index, axis, parts, ZERO, ONE)
    return found


def _factor(dim: Dim, name: str) -> Dim | None:
    """The other factor of the only term that has a symbol, if that is no power of it."""
    terms = [term for term in dim.terms if any(each == name for each, _ in term[0])]
    if len(terms) != 1:
        return None
    factor = Dim((terms[0],)) / symbol(name)
    return None if name in factor.symbols() else factor


def axis_symbols(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """Return the symbols that are an axis, or whose part on one rank is an axis."""
    names = (sizes.symbol_and_divisors(dim)[0] for shape in shapes for dim in shape)
    return frozenset(name for name in names if name)


def symbols_of(shapes: Iterable[Shape], sizes: Sizes) -> frozenset[str]:
    """Return the symbols of axes, and the symbols without a number that they imply."""
    shapes = tuple(shapes)
    names = axis_symbols(shapes, sizes)
    return names.union(implied_sizes(shapes, sizes, {*names, *sizes.defaults}))


def closure(
    needed: Iterable[str],
    places: Collection[str],
    sizes: Sizes,
    implied: Mapping[str, ImpliedSize] | None = None,
) -> tuple[list[str], list[str]]:
    """Return all symbols needed, also by definitions, and the computed ones in order.

    A symbol with a place needs no definition. One that is `implied` is computed as a defined one.
    """
    implied = implied or {}
    names: dict[str, None] = {}
    defined: dict[str, None] = {}
    stack = [(name, False) for name in reversed(list(needed))]
    while stack:
        name, ready = stack.pop()
        if ready:
            defined[name] = None
        elif name not in names:
            names[name] = None
            parts = None
            if name not in places and name in implied:
                parts = implied[name].symbols()
            elif name not in places and name in sizes.definitions:
                parts = sizes.definition(name).symbols()
            if parts is not None:
                stack.append((name, True))
                stack.extend((part, False) for part in reversed(parts))
    return list(names), list(defined)


# Which arrays tell a function its sizes: its own, and the parameters of blocks that it calls.


def carried_symbols(graph: Graph) -> frozenset[str]:
    """The symbols that are an axis of an input, a state or a parameter of a graph."""
    return axis_symbols(own_shapes(graph), graph.sizes)


def own_shapes(graph: Graph) -> list[Shape]:
    """The shapes of the inputs, states and parameters of a graph."""
    values = [*graph.inputs, *(state.past for state in graph.states)]
    values += [param.value for param in graph.params]
    return [graph.types[value].shape for value in values]


@dataclass(slots=True)
class SizeSources:
    """The arrays of a program that say how large sizes without a number are.

    Most programs have a number for every size: then nothing is looked for. `_inner` are for each
    graph parameters of the blocks that it calls, `_implied` the symbols that follow, `_idle` the
    shapes of parameters in rows of calls that may be empty.
    """

    is_open: bool
    _inner: dict[str, Mapping[str, Shape]]
    _implied: dict[str, frozenset[str]]
    _idle: dict[str, list[Shape]]

    @classmethod
    def of(cls, program: IRProgram) -> SizeSources:
        """Find the size sources of a program."""
        sources = cls(any(map(_is_open, program.graphs.values())), {}, {}, {})
        if sources.is_open:
            sources._read(program)
        return sources

    def inner(self, graph: Graph) -> Mapping[str, Shape]:
        """Parameters of the blocks that a graph calls, by their paths, in its sizes.

        As few as tell what all of them tell; of a row of calls, those of the first one.
        """
        return self._inner.get(graph.key, {})

    def implied_symbols(self, graph: Graph) -> frozenset[str]:
        """Return the implied symbols without a number that are no axis of the graph's arrays."""
        return self._implied.get(graph.key, frozenset())

    def idle(self, graph: Graph) -> Sequence[Shape]:
        """Return the shapes of parameters that may not exist: a repeat may have no rounds."""
        return self._idle.get(graph.key, ())

    def _read(self, program: IRProgram) -> None:
        calls = [call for graph in program.graphs.values() for call in graph.calls]
        bound = frozenset(name for call in calls for name in call.sizes)
        below: dict[str, dict[str, Shape]] = {}  # of each graph, parameters of its own among them
        for key, graph in program.graphs.items():  # callees come first
            own = {str(p.value.name): graph.types[p.value].shape for p in graph.params}
            called = list(_callee_params(program, graph, below, bound))
            inner = {path: shape for path, shape, runs in called if runs}
            self._idle[key] = [shape for _, shape, runs in called if not runs]
            below[key] = _telling({**own, **inner}, graph.sizes)
            self._inner[key] = {path: shape for path, shape in inner.items() if path in below[key]}
            told = symbols_of([*own_shapes(graph), *self._inner[key].values()], graph.sizes)
            given = {*graph.sizes.defaults, *graph.sizes.definitions}
            self._implied[key] = told - carried_symbols(graph) - given


def _callee_params(
    program: IRProgram,
    graph: Graph,
    below: Mapping[str, Mapping[str, Shape]],
    bound: frozenset[str],
) -> Iterator[tuple[str, Shape, bool]]:
    """Yield the parameters that the blocks called by a graph have, or call, in its sizes.

    Each with whether it is certainly there: a row of calls may be empty.
    """
    for call in graph.named_calls():
        runs = call.count is None or _runs(call.count, graph.sizes, bound)
        callee = program.graphs[call.callee]
        symbols = inside(call, graph, callee, {})
        path = call.path if call.count is None else f"{call.path}.{call.first}"
        for name, shape in below[call.callee].items():
            expanded = (callee.sizes.expand(dim).substitute(symbols) for dim in shape)
            yield join(path, name), tuple(expanded), runs


def _runs(count: Dim, sizes: Sizes, bound: frozenset[str]) -> bool:
    """Whether a row of calls is certainly not empty; sizes that a call has `bound` may be any."""
    numbers = sizes.bind({})
    return (
        bound.isdisjoint(count.symbols())
        and numbers.keys() >= {*count.symbols()}
        and count.evaluate(numbers) > 0
    )


def _telling(shapes: Mapping[str, Shape], sizes: Sizes) -> dict[str, Shape]:
    """Keep each shape that has a symbol which the shapes before it leave open."""
    found: dict[str, Shape] = {}
    open_ = {name for shape in shapes.values() for dim in shape for name in dim.symbols()}
    open_ -= sizes.defaults.keys()
    for path, shape in shapes.items():
        if shape not in found.values() and any(
            not open_.isdisjoint(sizes.expand(dim).symbols()) for dim in shape
        ):
            found[path] = shape
            open_ -= symbols_of(found.values(), sizes)
    return found


def _is_open(graph: Graph) -> bool:
    """Whether a size of a graph, a number of its operators or of its calls has no number."""
    numbered = graph.sizes.defaults
    return any(
        name not in numbered
        for dim in _graph_dims(graph)
        for monomial, _ in dim.terms
        for name, _ in monomial
    )


def _graph_dims(graph: Graph) -> Iterator[Dim]:
    for type_ in graph.types.values():
        yield from type_.shape
    for step in graph.steps:
        if isinstance(step, Apply):
            for scalar in step.attrs.values():
                if isinstance(scalar, Scalar):
                    yield from scalar.dims()
        elif step.count is not None:
            yield step.count


# Sizes read from arrays: the length of an axis is a number for its symbol.


def sizes_from_arrays(program: IRProgram, found: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The numbers that the shapes of inputs, then of parameters, give to symbols.

    The first array that has a symbol's axis counts; whether the others agree is not judged here.
    """
    return {name: number for name, (number, _) in carried_sizes(program, found).items()}


def carried_sizes(
    program: IRProgram, found: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, str]]:
    """These numbers, each with the name of the array that gives it.

    A size without a number that is no axis may follow from a formula, as T from [2*T].
    """
    main = program.main
    shapes = [(str(value.name), main.types[value].shape) for value in main.inputs]
    shapes += [
        (path, graph.sizes.expand_type(param.type).substitute(symbols).shape)
        for path, param, graph, symbols in param_specs(program)
    ]
    given = [
        (name, shape, found[name])
        for name, shape in shapes
        if name in found and len(found[name]) == len(shape)
    ]
    sizes: dict[str, tuple[int, str]] = {}
    for name, shape, lengths in given:
        for dim, length in zip(shape, lengths, strict=True):
            if dim.name is not None:
                sizes.setdefault(dim.name, (length, name))
    numbers = {**program.main.sizes.defaults, **{name: n for name, (n, _) in sizes.items()}}
    axes = [shape for _, shape, _ in given]
    for implied, size in implied_sizes(axes, main.sizes, numbers.keys()).items():
        name, _, lengths = given[size.index]
        value = size.of(lengths[size.axis], numbers)
        if value is not None:
            numbers[implied] = value
            sizes[implied] = (value, name)
    return sizes


# Every size that a typed graph mentions, on its edges and inside its operators.


def _padded_length(expr: Expr) -> tuple[Dim, ...]:
    """Return a windowed axis's length plus the zeros before it; empty for other primitives."""
    if expr.prim not in ("window", "overlap"):
        return ()
    cut = Windows.of(expr)
    return (cut.length + cut.before,)


def axes_of(graph: Graph, *, numbers: bool = False) -> dict[Dim, Span]:
    """Every length of an axis and every range once, with a place that has it.

    Those that are plain numbers only where they are asked for.
    """
    spans: dict[Dim, Span] = {}
    for value, type_ in graph.types.items():
        for dim in (*type_.shape, *([type_.range] if type_.range else [])):
            spans.setdefault(dim, value.span)
    for step in graph.steps:
        if isinstance(step, Apply):
            body = step.body(graph.types)
            for expr in body.order():
                for dim in (*expr.shape, *_padded_length(expr)):
                    spans.setdefault(dim, step.span)
    return {dim: span for dim, span in spans.items() if numbers or dim.constant is None}


# How large the integers of an operator can be: what decides the width that they need.
#
# Sizes and ranges bound every integer. A sum or a product of integers stays exact only in a type
# that holds it: int64, or int32 in JAX as it is by default.


WIDEST: Final = 2**63 - 1  # of int64
COMPUTED: Final = frozenset({"neg", "add", "sub", "mul", "sum"})


def reaches(body: Body, types: Sequence[TensorType]) -> list[Dim]:
    """Bounds of the magnitudes of all integers that a body computes from others."""
    ranges = {id(e): type_.range for e, type_ in zip(body.operands, types, strict=True)}
    bounds: dict[int, Dim] = {}
    for expr in body.order():
        if expr.kind == "int":
            bounds[id(expr)] = _reach(expr, bounds, ranges)
    computed = [e for e in body.order() if e.kind == "int" and e.prim in COMPUTED]
    return list(dict.fromkeys(bounds[id(expr)] for expr in computed))


def at_most(reach: Dim) -> int:
    """The largest value of a bound, with every size as large as one can be."""
    total = 0
    for monomial, coefficient in reach.terms:
        power = sum(max(each, 0) for _, each in monomial)
        total += -(-coefficient.numerator // coefficient.denominator) * DimSize.maximum**power
    return total


def _reach(expr: Expr, bounds: Mapping[int, Dim], ranges: Mapping[int, Dim | None]) -> Dim:
    known = [bounds[id(arg)] for arg in expr.args if id(arg) in bounds]
    match expr.prim:
        case "operand":
            return _magnitude(ranges.get(id(expr)) or ONE)
        case "const":
            return _magnitude(expr.typed_attr("value", Scalar).as_dim())
        case "iota":
            start, length = expr.typed_attr("start", Dim), expr.typed_attr("length", Dim)
            return _magnitude(start) + _magnitude(length)
        case "mul":
            return product(known)
        case "sum":
            whole = product(expr.args[0].shape[axis] for axis in expr.axes())
            return known[0] * whole
        case "top":
            return expr.args[0].shape[-1]
        case "earlier":
            return expr.shape[-1]
        case _ if known:
            return known[0] if len(known) == 1 else sum(known[1:], known[0])
        case _:
            return ZERO


def _magnitude(dim: Dim) -> Dim:
    """A dim that is no smaller, whatever its sizes: T + S for T - S."""
    return replace(dim, terms=tuple((monomial, abs(number)) for monomial, number in dim.terms))


# Constraints of operators on sizes, in the sizes of the entry block: ``S <= S_max``.


EXACT: Final = "integers are exact up to int64, so write float(i) if they may be larger"


def size_constraints(program: IRProgram) -> Iterator[AtMost]:
    """The conditions of every operator in every use of its block."""
    for graph, symbols in instances(program):
        for _, fact in facts_of(graph):
            smaller, larger = (
                graph.sizes.expand(dim).substitute(symbols) for dim in (fact.smaller, fact.larger)
            )
            yield AtMost(smaller, larger, fact.why)


def axes_with_positions(program: IRProgram) -> Iterator[AtMost]:
    """Every axis that may not be empty, and the operator that needs a position of it.

    Shapes hold for empty axes, too: a batch may have nothing. But there is no maximum of nothing,
    no window of an axis without positions, and no 1/sqrt(D).
    """
    for graph, symbols in instances(program):
        for step in graph.steps:
            if isinstance(step, Apply):
                order = step.body(graph.types).order()
                needed = [
                    (dim, "needs at least one position") for e in order for dim in _nonempty_axes(e)
                ]
                needed += [(dim, "divides by it") for e in order for dim in _divisors(e)]
                for dim, why in needed:
                    length = graph.sizes.expand(dim).substitute(symbols)
                    yield AtMost(ONE, length, f"{step.op.glyph} ({step.op.name}) {why}")


def difference_limits(program: IRProgram, implied: Collection[str] = ()) -> Iterator[AtMost]:
    """The lengths that only some numbers make large enough, as ``S - 1``, each with its least.

    Such an axis may be empty, as any other of an array, but not one of a parameter, one that a
    mean is taken over or one of windows. `implied` are the symbols that follow from a longer axis:
    from one of N + k - 1 follows an N that may be negative. A fused operator may cut S - 1
    positions inside, of which there may be none, and a rank may have nothing but pads.
    """
    parts = {*program.main.sizes.mesh, *program.lengths}
    least: dict[Dim, Dim] = {}
    sums: set[str] = set()
    for graph, symbols in instances(program):
        sizes = graph.sizes
        lengths = [sizes.expand(dim).substitute(symbols) for dim in axes_of(graph)]
        sums.update(name for dim in lengths if len(dim.terms) > 1 for name in dim.symbols())
        shown = [(dim, ZERO) for type_ in graph.types.values() for dim in type_.shape]
        filled = [(dim, ONE) for param in graph.params for dim in param.type.shape]
        for dim, needed in (*shown, *filled, *((dim, ONE) for dim in _filled_axes(graph))):
            expanded = sizes.expand(dim).substitute(symbols)
            if least.get(expanded) != ONE:
                least[expanded] = needed
    for dim, needed in least.items():
        if _takes(dim) and parts.isdisjoint(dim.symbols()):
            yield AtMost(needed, dim, f"it is at least {needed}")
    for name in sorted({*implied} & sums):
        needed = least.get(symbol(name), ZERO)
        yield AtMost(needed, symbol(name), f"it is at least {needed}")


def _filled_axes(graph: Graph) -> Iterator[Dim]:
    """The axes of a graph that a mean is taken over, and those of windows, one of which fits."""
    for step in graph.steps:
        if isinstance(step, Apply):
            for expr in step.body(graph.types).order():
                if expr.prim == "mean":
                    yield from (expr.args[0].shape[axis] for axis in expr.axes())
                elif expr.prim in ("window", "overlap"):
                    yield Windows.of(expr).count


def _takes(dim: Dim) -> bool:
    """Whether a size is a difference: large enough only for some numbers."""
    return any(coefficient < 0 for _, coefficient in dim.terms)


def sizes_of_params(program: IRProgram) -> list[str]:
    """The sizes of the entry that parameters have as axes: none of them may be 0.

    A parameter without elements has no start, as its spread is 1/sqrt(D).
    """
    lengths = (
        graph.sizes.expand(dim).substitute(symbols)
        for graph, symbols in instances(program)
        for param in graph.params
        for dim in param.type.shape
    )
    products = (dim.terms[0][0] for dim in lengths if len(dim.terms) == 1)
    return list(dict.fromkeys(name for term in products for name, power in term if power > 0))


def _nonempty_axes(expr: Expr) -> list[Dim]:
    """Return the axes of a primitive's operand that must not be empty."""
    match expr.prim:
        case "max":
            return [expr.args[0].shape[axis] for axis in expr.axes()]
        case "top":
            return [expr.args[0].shape[-1]]
        case "window":
            return [expr.typed_attr("length", Dim), expr.typed_attr("width", Dim)]
        case "overlap":
            return [expr.typed_attr("count", Dim), expr.typed_attr("width", Dim)]
        case "contract":
            return _matrix(expr)
        case "cut":  # what is one position long is picked from the axis
            axis = expr.typed_attr("axis", int)
            return [expr.args[0].shape[axis]] if expr.shape[axis] == ONE else []
        case _:
            return []


def _matrix(expr: Expr) -> list[Dim]:
    """The axes of a matrix that many rows are multiplied by: its gradient flattens the rows."""
    first, second = expr.typed_attr("spec", str).partition("->")[0].split(",")
    for letters, rows, operand in ((second, first, expr.args[1]), (first, second, expr.args[0])):
        if len(letters) == 2 < len(rows) and len({*letters} & {*rows}) == 1:
            return [*operand.shape]
    return []


def _divisors(expr: Expr) -> Iterator[Dim]:
    """The sizes that the number of a primitive is divided by."""
    if expr.prim == "const":
        yield from expr.typed_attr("value", Scalar).divisors()


def facts_of(graph: Graph) -> Iterator[tuple[Apply, AtMost]]:
    """The conditions of every operator of a graph, in the graph's symbols."""
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        types = [graph.types[value] for value in step.inputs]
        if step.op.facts is not None:
            yield from ((step, fact) for fact in step.op.facts(types, step.attrs))
        for reach in reaches_of(graph, step):
            if at_most(reach) > WIDEST:
                yield step, AtMost(reach, number(WIDEST), EXACT)


def reaches_of(graph: Graph, step: Apply) -> list[Dim]:
    """Bounds of the integers that an operator computes from other integers."""
    types = [graph.types[value] for value in step.inputs]
    return reaches(step.body(graph.types), types)


Numbers = Mapping[str, int]
Places = Mapping[str, Span]  # where the file declares each dim
NumberedKey = tuple[int, frozenset[tuple[str, int]]]  # a graph by its id, and numbers of its sizes

SUGGESTED_AT_MOST = 8
TRIED_AT_MOST = 4_097


def check_numbers(
    program: IRProgram,
    places: Places,
    fine: Recent[NumberedKey, Graph] | None = None,
    *,
    least: int = 1,
) -> None:
    """Raise DiagnosticError with every size of a program that cannot have its number.

    Graphs of `fine` were checked with these numbers before; those that are fine now are added. An
    axis has `least` positions or more: arrays may have none, but a file never says so.
    """
    problems: dict[tuple[str, str], Problem] = {}
    all_numbers = program.all_numbers
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, all_numbers)
        key = id(graph), frozenset(numbers.items())
        if fine is not None and fine.get(key):
            continue
        wrong = list(_problems(graph, numbers, places, least))
        wrong = [_suggest_divisors(each, program, graph, symbols, numbers) for each in wrong]
        if fine is not None and not wrong:
            fine.put(key, graph)
        for problem in wrong:
            problems.setdefault((problem.code, problem.diagnostic().message), problem)
    if problems:
        raise DiagnosticError.of(*problems.values())


def numbers_of(graph: Graph, symbols: Mapping[str, Dim], known: Numbers) -> Numbers:
    """The numbers of a graph's symbols, as far as there are any."""
    bound = {name: value_of(dim, known) for name, dim in symbols.items()}
    rest = {name: n for name, n in known.items() if name not in symbols}
    free = {name: n for name, n in bound.items() if n is not None} | rest
    return {name: n for name, n in free.items() if name not in graph.sizes.definitions}


def value_of(dim: Dim, numbers: Numbers) -> int | None:
    """The number of a size; None while a symbol has none, or if it is not whole."""
    if not all(name in numbers for name in dim.symbols()):
        return None
    try:
        return dim.evaluate(numbers)
    except DimError:
        return None


def _problems(graph: Graph, numbers: Numbers, places: Places, least: int) -> Iterator[Problem]:
    for dim, span in axes_of(graph, numbers=True).items():
        if not all(name in numbers for name in dim.symbols()):
            continue
        value = value_of(dim, numbers)
        if value is not None and least <= value <= DimSize.maximum:
            continue
        folded = graph.sizes.fold(dim)
        where = places.get(folded.name or "", span)
        if value is None:
            yield _fraction_problem(graph, dim, numbers, where)
        elif value < least:
            yield TooShort(where, str(folded), value, least)
        else:
            yield DimSize(where, value)
    yield from _not_so_often(graph, numbers, places)
    yield from _too_long(graph, numbers)
    yield from _no_value(graph, numbers)


def _fraction_problem(graph: Graph, dim: Dim, numbers: Numbers, span: Span) -> NotWhole:
    name = graph.sizes.fold(dim).name or ""
    try:
        message = f"{dim} = {dim.evaluate(numbers)}"
    except DimError as error:
        message = str(error)
    divisors = [name for monomial, _ in dim.terms for name, power in monomial if power < 0]
    return NotWhole(span, name, message, divisors[-1] if divisors else "")


def _suggest_divisors(
    problem: Problem, program: IRProgram, graph: Graph, symbols: Mapping[str, Dim], numbers: Numbers
) -> Problem:
    """Add to a problem of a division the numbers that the divisor could have.

    Of these every size of the block has to be whole, and of a program's divisor those of others.
    """
    if not isinstance(problem, NotWhole) or not problem.divisor:
        return problem
    name = problem.divisor
    divided = [(dim, numbers) for dim in _with_counts(graph) if name in dim.symbols()]
    if name not in symbols and name not in graph.sizes.local:
        divided += _sizes_with(program, name)
    tried = (n for n in range(1, TRIED_AT_MOST) if _has_whole_sizes(divided, name, n))
    fitting = tuple(n for n, _ in zip(tried, range(SUGGESTED_AT_MOST), strict=False))
    return replace(
        problem, help=(f"{name} may be {join_alternatives(fitting)}",) if fitting else ()
    )


def _sizes_with(program: IRProgram, name: str) -> Iterator[tuple[Dim, Numbers]]:
    """Yield the sizes of all blocks that contain a dim of the program, in the entry's sizes."""
    numbers = program.all_numbers
    for graph, symbols in instances(program):
        if name not in symbols and name not in graph.sizes.local:
            whole = (dim.substitute(symbols) for dim in _with_counts(graph))
            yield from ((dim, numbers) for dim in whole if name in dim.symbols())


def _with_counts(graph: Graph) -> list[Dim]:
    counts = (call.count for call in graph.calls)
    return [*axes_of(graph, numbers=True), *(count for count in counts if count is not None)]


def _has_whole_sizes(divided: Sequence[tuple[Dim, Numbers]], name: str, n: int) -> bool:
    numbered = ((dim, {**numbers, name: n}) for dim, numbers in divided)
    known = (each for each in numbered if each[1].keys() >= {*each[0].symbols()})
    return all((value_of(dim, numbers) or 0) > 0 for dim, numbers in known)


def join_alternatives(numbers: Sequence[object]) -> str:
    """Join numbers for a sentence: ``1, 2 or 4``."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last


def _not_so_often(graph: Graph, numbers: Numbers, places: Places) -> Iterator[Problem]:
    """Rows of calls that no whole number of calls makes, or fewer than none."""
    for call in graph.calls:
        if call.count is None or not all(name in numbers for name in call.count.symbols()):
            continue
        count, value = graph.sizes.fold(call.count), value_of(call.count, numbers)
        where = places.get(count.name or "", call.span)
        if value is None:
            yield _fraction_problem(graph, call.count, numbers, where)
        elif value < 0:
            yield TooShort(where, str(count), value, 0)


def _too_long(graph: Graph, numbers: Numbers) -> Iterator[Problem]:
    for step, fact in facts_of(graph):
        smaller, larger = (value_of(dim, numbers) for dim in (fact.smaller, fact.larger))
        if smaller is None or larger is None or smaller <= larger:
            continue
        if fact.windows:
            yield _wrong_windows(graph, step, fact.windows, numbers)
        else:
            less, more = map(graph.sizes.fold, (fact.smaller, fact.larger))
            yield TooLong(
                step.span, _spell_size(less, smaller), _spell_size(more, larger), fact.why
            )


def _wrong_windows(
    graph: Graph, step: Apply, windows: WindowCount, numbers: Numbers
) -> WrongWindows:
    given, axis = graph.sizes.fold(windows.given), graph.sizes.fold(windows.axis)
    room, stride = windows.room.evaluate(numbers), windows.stride.evaluate(numbers)
    has, length = room // stride + 1, windows.axis.evaluate(numbers)
    size = axis / stride + (has - length // stride) if length % stride == 0 else number(has)
    said = (_spell_size(given, windows.given.evaluate(numbers)), _spell_size(axis, length))
    fix = (f"write {size} for {given} in the label",)
    return WrongWindows(step.span, *said, has, fix if has > 0 else ())


def _no_value(graph: Graph, numbers: Numbers) -> Iterator[Problem]:
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        for scalar in step.attrs.values():
            if isinstance(scalar, Scalar) and all(name in numbers for name in scalar.symbols()):
                try:
                    scalar.evaluate(numbers)
                except (DimError, ScalarError) as error:
                    yield NoValue(step.span, str(scalar), str(error))
                    break
        else:
            if misuse := beyond_limits(step, numbers):
                made = tuple(_computed(graph, step, numbers))
                yield BeyondLimits(step.span, misuse.message, (*misuse.help, *made))


def beyond_limits(step: Apply, numbers: Numbers) -> Misuse | None:
    """Why an operator cannot have its own numbers, as far as all of them are known."""
    if step.op.limits is None:
        return None
    own = _own_numbers(step)
    if not all(name in numbers for scalar in own.values() for name in scalar.symbols()):
        return None
    return step.op.limits({name: scalar.evaluate(numbers) for name, scalar in own.items()})


def _own_numbers(step: Apply) -> dict[str, Scalar]:
    """The numbers of an operator that are given or have a default."""
    given = {own.name: step.attrs[own.name] for own in step.op.own if isinstance(own, Number)}
    return {name: number for name, number in given.items() if number is not None}


def _computed(graph: Graph, step: Apply, numbers: Numbers) -> Iterator[str]:
    """Explain each number of an operator that sizes make: ``p is 8*D with D = 2``."""
    for name, scalar in _own_numbers(step).items():
        if not scalar.symbols():
            continue
        if graph.sizes.local.intersection(scalar.symbols()):
            yield f"{name} is {scalar.evaluate(numbers):g}, as a call gives it"
        else:
            sizes = ", ".join(f"{size} = {numbers[size]}" for size in sorted(scalar.symbols()))
            yield f"{name} is {scalar} with {sizes}"


def _spell_size(dim: Dim, number: int) -> str:
    return str(number) if dim.constant is not None else f"{dim} = {number}"
