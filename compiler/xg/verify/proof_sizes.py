"""Choose sizes and a mesh to verify a program on: small, different, allowed by the file.

An error between two axes shows only where their lengths differ, so every symbol gets a prime of its
own. Sizes that must divide do: where ``D/N_H`` is a size, D is its prime times N_H. Repetitions
happen twice, also the rest of them: N_L - N_0 where N_0 come first. One that the file makes none of
happens not at all: its rounds would be another program. Primes are dealt so that the proof is as
little work as possible.

A file's own sizes need not fit a mesh that shows errors, and equal lengths hide an exchange of
axes. So sizes are primes times the ranks, and the mesh has 2 and 3 ranks in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, cycle
from math import prod
from typing import Final

from xg.cost.cost import cost
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import Program
from xg.frontend.plan_in_choices import find_plan
from xg.frontend.project import Project
from xg.frontend.typed import Settings, dims_of, shape_project
from xg.ir.dim import (
    ONE,
    Coefficient,
    Dim,
    DimError,
    Monomial,
    Scalar,
    ScalarError,
    number,
    product,
    size,
    symbol,
)
from xg.ir.graph import Apply, Graph, IRProgram
from xg.ir.placement import zigzag_axes
from xg.ir.prim import Expr
from xg.ir.size_checks import axes_of, facts_of, value_of
from xg.ir.walk import instances
from xg.passes.pipelines import RANK, SINGLE, run
from xg.sharding.apply_plan import (
    check_placements,
    cut_row,
    is_about_calls,
    placed_values,
    with_mesh,
)
from xg.sharding.divisibility import PaddedCut, check_shares, padded_cuts, padded_numbers
from xg.sharding.local import cut_sizes
from xg_runtime.errors import InputError

# Constraints on the sizes of a program: everything that numbers for them must respect.


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """Facts in the symbols of the entry block, each once.

    `dims` are lengths of axes, `shapes` the different lengths of each tensor, `counts` how often
    calls repeat, `bounds` pairs of which the first is at most the second, `means` the axes that a
    mean is taken over, `rounds` those that a loop with states goes over. `numbers` are what
    operators and calls take besides tensors. `scalars` are to be checked, `operations` what one
    forward pass takes.
    """

    dims: tuple[Dim, ...]
    shapes: tuple[tuple[Dim, ...], ...]
    counts: tuple[Dim, ...]
    bounds: tuple[tuple[Dim, Dim], ...]
    means: tuple[Dim, ...]
    rounds: tuple[Dim, ...]
    numbers: tuple[Scalar, ...]
    scalars: Dim
    operations: Dim

    @property
    def wholes(self) -> tuple[Dim, ...]:
        """The sizes that must be whole: also a number that is half a size."""
        return (*self.dims, *self.counts, *(dim for each in self.numbers for dim in each.dims()))

    def written(self, sizes: Mapping[str, int]) -> SizeFacts:
        """These with the file's `sizes` for symbols that are no part of an axis or repetition."""
        lengths = {name for dim in (*self.dims, *self.counts) for name in dim.symbols()}
        kept = {name: number(size) for name, size in sizes.items() if name not in lengths}
        return replace(self, numbers=tuple(each.substitute(kept) for each in self.numbers))


def size_facts(program: IRProgram) -> SizeFacts:
    """Everything that a differentiated program says of its sizes."""
    total = cost(program).total
    main = program.main
    floats = [main.types[value].shape for value in main.inputs if main.types[value].is_float]
    return SizeFacts(
        dims=tuple(dict.fromkeys(_dims(program))),
        shapes=tuple(dict.fromkeys(_shapes(program))),
        counts=tuple(dict.fromkeys(_counts(program))),
        bounds=tuple(dict.fromkeys(bounds(program))),
        means=tuple(dict.fromkeys(_means(program))),
        rounds=tuple(dict.fromkeys(_repeat_counts(program))),
        numbers=tuple(dict.fromkeys(_numbers(program))),
        scalars=sum(map(product, floats), total.parameters),
        operations=total.forward,
    )


def _dims(program: IRProgram) -> Iterator[Dim]:
    for graph, symbols in instances(program):
        yield from (dim.substitute(symbols) for dim in axes_of(graph))
    if program.is_parallel:
        yield from shard_sizes(program)


def shard_sizes(program: IRProgram) -> Iterator[Dim]:
    """The size of a rank's share of each axis that shapes or the plan shard, or of its chunks."""
    cut = [
        (placed.symbols, whole, axes)
        for placed in placed_values(program)
        for whole, axes in placed.planned.cuts
    ]
    for graph, symbols in instances(program):
        for value, cuts in graph.layouts.items():
            shares = cut_sizes(graph.types[value].shape, cuts)
            cut += [(symbols, whole, axes) for whole, axes in shares]
    for symbols, whole, axes in cut:
        ranks = prod(program.mesh[axis] for axis in axes if axis in program.mesh)
        chunks = 2 if zigzag_axes(program.plan) & {*axes} else 1
        yield whole.substitute(symbols) / number(ranks * chunks)


def _shapes(program: IRProgram) -> Iterator[tuple[Dim, ...]]:
    """The different sizes of each tensor's axes."""
    for graph, symbols in instances(program):
        for type_ in graph.types.values():
            dims = dict.fromkeys(dim.substitute(symbols) for dim in type_.shape)
            yield tuple(dim for dim in dims if dim.constant is None)


def _counts(program: IRProgram) -> Iterator[Dim]:
    for graph, symbols in instances(program):
        yield from (
            call.count.substitute(symbols) for call in graph.calls if call.count is not None
        )


def _repeat_counts(program: IRProgram) -> Iterator[Dim]:
    """The axes of loops that hand something from round to round."""
    for graph, symbols in instances(program):
        loops = (call.loop for call in graph.calls if call.loop)
        yield from (loop.length.substitute(symbols) for loop in loops if loop.states)


def _numbers(program: IRProgram) -> Iterator[Scalar]:
    """The numbers in the attributes of operators, and the sizes that calls give."""
    for graph, symbols in instances(program):
        for step in graph.steps:
            given = step.attrs if isinstance(step, Apply) else step.sizes
            for each in given.values():
                if isinstance(each, Dim | Scalar):
                    scalar = size(each) if isinstance(each, Dim) else each
                    known = {name: graph.sizes.expand(symbol(name)) for name in scalar.symbols()}
                    yield scalar.substitute(known).substitute(symbols)


def bounds(program: IRProgram) -> Iterator[tuple[Dim, Dim]]:
    """Yield pairs of sizes whose first must not exceed the second, for example S and S_max."""
    for graph, symbols in instances(program):
        for _, fact in facts_of(graph):
            yield fact.smaller.substitute(symbols), fact.larger.substitute(symbols)


def divisor_of(name: str, wholes: Iterable[Dim], candidates: Iterable[int]) -> int | None:
    """The first candidate that divides what a symbol alone divides, as N_H in 6/N_H; else None."""
    parts = [
        (coefficient.numerator, -monomial[0][1])
        for dim in wholes
        for monomial, coefficient in dim.terms
        if [each for each, _ in monomial] == [name] and monomial[0][1] < 0
    ]
    fitting = (n for n in candidates if all(whole % n**power == 0 for whole, power in parts))
    return next(fitting, None) if parts else None


def _means(program: IRProgram) -> Iterator[Dim]:
    """The axes that a mean is taken over."""
    for graph, symbols in instances(program):
        for step in graph.steps:
            if isinstance(step, Apply):
                body = step.body(graph.types)
                means = (expr for expr in body.order() if expr.prim == "mean")
                yield from (_reduction_size(expr).substitute(symbols) for expr in means)


def _reduction_size(expr: Expr) -> Dim:
    shape = expr.args[0].shape
    return product(shape[axis] for axis in expr.axes())


PRIMES: Final = tuple(n for n in range(2, 80) if all(n % divisor for divisor in range(2, n)))
ROUNDS: Final = 2  # of every repetition
LEAST_MEAN: Final = 3  # of two numbers, what LN makes is ±1 whatever they are
LEAST_ROUNDS: Final = 3  # what is done to a state between rounds may first show in the third
SCALARS_AT_MOST: Final = 6_000  # so many are tried one by one
EFFORT_AT_MOST: Final = 10**10  # operations, before primes repeat

Numbers = dict[str, int]
Term = tuple[Monomial, Coefficient]


def sizes_of_proof(compiled: Program, given: Mapping[str, int]) -> Numbers:
    """A number for every symbol of a compiled program that is not `given` one.

    Steps that no output needs are not there any more, but the file is refused for numbers that
    these cannot have.
    """
    whole = compiled.single_device or compiled.graphs
    assert compiled.history is not None
    _, typed = compiled.history.stages[0]
    return verification_sizes(
        whole, given, bounded=(*bounds(typed), *lengths_left_out(typed, whole))
    )


def lengths_left_out(typed: IRProgram, whole: IRProgram) -> tuple[tuple[Dim, Dim], ...]:
    """Bound by 1 the axes of steps and parameters that no output needs; `whole` has them not."""
    left_out = {
        graph.sizes.expand(dim).substitute(symbols)
        for graph, symbols in instances(typed)
        for dim in axes_of(graph)
    }.difference(size_facts(whole).dims)
    return tuple((ONE, dim) for dim in sorted(left_out, key=str))


def verification_sizes(
    program: IRProgram,
    given: Mapping[str, int],
    shared: Sequence[Dim] = (),
    bounded: Sequence[tuple[Dim, Dim]] = (),
) -> Numbers:
    """A number for every symbol of a differentiated program that is not `given` one.

    `shared` are lengths of the axes of one rank, which must be whole as well; `bounded` are pairs
    of sizes besides the program's own, of which the first must not be larger.
    """
    facts = size_facts(program)
    held = [dim for pair in bounded for dim in pair if dim.constant is None]
    dims = tuple(dict.fromkeys((*facts.dims, *shared, *held)))
    taken = [(ONE, dim) for dim in dims if any(count < 0 for _, count in dim.terms)]
    bounds = tuple(dict.fromkeys((*facts.bounds, *bounded, *taken)))  # S - 4 is at least 1
    written = program.main.sizes.defaults
    none = tuple(count for count in facts.counts if value_of(count, {**written, **given}) == 0)
    search = _Search(replace(facts, dims=dims, bounds=bounds).written(written), dict(given), none)
    while (stuck := search.stuck()) is not None:
        for name in stuck:  # no multiple helps: keep the file's own numbers there
            divisor = divisor_of(name, search.known_wholes(), (*PRIMES, 1))
            if name in written:
                search.fixed[name] = written[name]
            elif divisor is not None:
                search.fixed[name] = divisor
        if not stuck or not set(stuck) <= search.fixed.keys():
            break
        search.factors.clear()
    if shared:
        search.shrink()
        search.strict = True
    return search.assignment()


@dataclass(slots=True)
class _Search:
    """The sizes of a program, which symbols are settled, and what each other is a multiple of.

    `none` are the counts of repetitions that are 0 in the file. `strict` is where different primes
    are not enough, as the multiples of ranks may meet.
    """

    facts: SizeFacts
    fixed: Numbers
    none: tuple[Dim, ...] = ()
    factors: dict[str, Dim] = field(default_factory=dict[str, Dim])
    formulas: dict[str, Dim] = field(default_factory=dict[str, Dim], init=False)
    work: list[Callable[[Numbers], int]] = field(
        default_factory=list[Callable[[Numbers], int]], init=False
    )
    strict: bool = False

    @property
    def free(self) -> list[str]:
        """The symbols that need a number, in alphabetical order."""
        names = {name for dim in self.facts.wholes for name in dim.symbols()}
        return sorted(names - self.fixed.keys())

    def stuck(self) -> tuple[str, ...] | None:
        """Make every size whole by multiples; the symbols of one where that fails, or None."""
        for _ in range(len(self.facts.wholes) * len(self.free) + 1):
            terms = [term for dim in self.known_wholes() for term in dim.terms]
            terms.sort(key=lambda term: len(term[0]))  # H/P before H*W/P^2, which it settles too
            missing = next((term for term in terms if self._needs(term) != ONE), None)
            if missing is None:
                return None
            if not self._multiply(missing):
                return tuple(name for name, _ in missing[0]) or self._stuck_symbols(missing)
        return ()

    def _stuck_symbols(self, number: Term) -> tuple[str, ...]:
        """The symbols of a size that no multiple makes whole: k of H/4 + k/2 - 1/2."""
        dim = next((dim for dim in self.known_wholes() if number in dim.terms), Dim(()))
        parts = number[1].denominator
        halved = (name for term, each in dim.terms if each.denominator == parts for name, _ in term)
        return tuple(dict.fromkeys(halved)) or dim.symbols()

    def shrink(self) -> None:
        """Remove redundant factors from the multiples: D = 6*N_H where N_H is a multiple of 6."""
        for name, divisor in itertools.product(self.free, (2, 3, 5, 7)):
            while name in self.factors:
                before = self.factors[name]
                self.factors[name] = before / number(divisor)
                if not self._has_integer_sizes(name):
                    self.factors[name] = before
                    break

    def _has_integer_sizes(self, name: str) -> bool:
        """Whether a multiple is one, and every size whole for all primes."""
        terms = [term for dim in self.known_wholes() for term in dim.terms]
        whole = all(coefficient.denominator == 1 for _, coefficient in self.factors[name].terms)
        return whole and all(self._needs(term) == ONE for term in terms)

    def known_wholes(self) -> list[Dim]:
        """The sizes that must be whole, with the numbers that are settled."""
        settled = {name: number(value) for name, value in self.fixed.items()}
        return [dim.substitute(settled) for dim in self.facts.wholes]

    def _needs(self, term: Term) -> Dim:
        """The factor by which a term must be multiplied to be whole for all primes."""
        ((monomial, coefficient),) = self._in_primes(Dim((term,))).terms
        needed = number(coefficient.denominator)
        for name, power in monomial:
            if power < 0:
                needed = needed * symbol(name) ** -power
        return needed

    def _in_primes(self, dim: Dim) -> Dim:
        """A size with every symbol replaced by its prime times its factors, all the way down."""
        while any(self.factors.get(name.rstrip("'"), ONE) != ONE for name in _bare(dim)):
            dim = dim.substitute(
                {name: symbol(f"{name}'") * self.factors.get(name, ONE) for name in _bare(dim)}
            )
        return dim.substitute({name: symbol(f"{name}'") for name in _bare(dim)})

    def _multiply(self, term: Term) -> bool:
        """Make some symbol of the numerator a multiple of the missing factor."""
        needed = self._needs(term).substitute({f"{name}'": symbol(name) for name in self.free})
        for name, power in term[0]:
            if power > 0 and name not in self._below(needed):
                self.factors[name] = self.factors.get(name, ONE) * needed
                return True
        return False

    def _below(self, dim: Dim) -> set[str]:
        """The symbols that a size is made of."""
        return {name.rstrip("'") for name in self._in_primes(dim).symbols()}

    # ---- numbers --------------------------------------------------------------------------------

    def assignment(self) -> Numbers:
        """A prime for each free symbol, and the numbers that follow from them."""
        axes = {name for dim in self.facts.dims for name in dim.symbols()}
        rounds = self._rounds([name for name in self.free if name not in axes])
        names = [name for name in self.free if name in axes]
        primes = {**rounds, **self._first(names, rounds)}
        self._improve(primes, lambda: _exchanges(primes, names), apart=self.strict)
        if self._scalars(primes) > SCALARS_AT_MOST or self._effort(primes) > EFFORT_AT_MOST:
            # Primes that repeat do as long as the axes of every tensor differ in length.
            self._improve(primes, lambda: self._changes(primes, names), apart=True)
        if self._scalars(primes) > SCALARS_AT_MOST:
            self._improve(
                primes, lambda: (*self._changes(primes, names), *_swaps(primes, names)), apart=True
            )
        return self._values(primes)

    def _rounds(self, names: Sequence[str]) -> Numbers:
        """Set repeat counts to two, and totals so that two are left after subtractions.

        Of those that are none in the file, none.
        """
        rounds = {name: 0 if symbol(name) in self.none else ROUNDS for name in names}
        for count in self.facts.counts:
            numbers, lone = {**self.fixed, **rounds}, dict(_lone(count))
            if set(count.symbols()) <= numbers.keys() and any(n < 0 for n in lone.values()):
                found = count.evaluate(numbers)
                lacking = -found if count in self.none else max(ROUNDS - found, 0)
                whole = [name for name, n in lone.items() if n > 0 and name in rounds]
                parts = [name for name, n in lone.items() if n < 0 and name in rounds]
                if whole:
                    rounds[whole[0]] += lacking
                elif parts and lacking:
                    rounds[parts[0]] = max(2 * ROUNDS - lacking, 0) // 2
        return rounds

    def _first(self, names: list[str], rounds: Numbers) -> Numbers:
        """Some dealing of primes that is allowed, to begin with."""
        primes: Numbers = dict(zip(names, PRIMES, strict=False))
        for one, other in combinations(names, 2):
            if not self._is_valid({**rounds, **primes}):
                primes[one], primes[other] = primes[other], primes[one]
        self._grow(primes, rounds)
        if self.strict:
            self._separate(primes, rounds)
        return primes

    def _separate(self, primes: Numbers, rounds: Numbers) -> None:
        """Larger primes where axes of one tensor are equally long, for what sets them apart."""
        for prime in PRIMES:
            met = self._met({**rounds, **primes})
            names = {name for dim in met for name in dim.symbols() if name in primes}
            for name in sorted(names):
                numbers = self._values({**rounds, **primes, name: prime})
                lengths = {dim.evaluate(numbers) for dim in met}
                if prime not in primes.values() and len(lengths) == len(met):
                    primes[name] = prime
                    self._grow(primes, rounds)
                    break

    def _met(self, primes: Numbers) -> tuple[Dim, ...]:
        """The axes of some tensor that differ as sizes and not in length."""
        numbers = self._values(primes)
        for shape in self.facts.shapes:
            for one, other in combinations(shape, 2):
                if one.evaluate(numbers) == other.evaluate(numbers):
                    return (other, one)
        return ()

    def _grow(self, primes: Numbers, rounds: Numbers) -> None:
        """Larger primes for sizes that must exceed a multiple (S_max, where ranks share S)."""
        for low, high in self.facts.bounds:
            numbers = self._values({**rounds, **primes})
            above = {name for term, count in high.terms if count > 0 for name, _ in term}
            name = next((name for name in high.symbols() if name in above & primes.keys()), None)
            for prime in PRIMES:
                if name is None or low.evaluate(numbers) <= high.evaluate(numbers):
                    break
                if prime not in primes.values():
                    primes[name] = prime
                    numbers = self._values({**rounds, **primes})
        self._evade(primes, rounds)

    def _evade(self, primes: Numbers, rounds: Numbers) -> None:
        """Other primes where a number has no value, as 1/(D - 3) has none for 3."""
        for scalar in self.facts.numbers:
            for name, prime in itertools.product(scalar.symbols(), PRIMES):
                if _exists(scalar, self._values({**rounds, **primes})):
                    break
                if name in primes and prime not in primes.values():
                    primes[name] = prime

    def _improve(
        self, primes: Numbers, moves: Callable[[], Iterable[Numbers]], *, apart: bool = False
    ) -> None:
        """Make the move that saves most work, as long as one saves any."""
        best: Numbers | None = {}
        while best is not None:
            effort, best = self._effort(primes), None
            for move in moves():
                moved = {**primes, **move}
                less = self._effort(moved)
                if less < effort and self._is_valid(moved, apart=apart):
                    effort, best = less, move
            primes.update(best or {})

    def _values(self, primes: Mapping[str, int]) -> Numbers:
        spelled = self._prime_symbols(primes)
        values = {name: dim.evaluate(spelled) for name, dim in self._formulas().items()}
        return {**self.fixed, **values}

    def _prime_symbols(self, primes: Mapping[str, int]) -> Numbers:
        return {f"{name}'": prime for name, prime in (*primes.items(), *self.fixed.items())}

    def _formulas(self) -> dict[str, Dim]:
        if not self.formulas:
            self.formulas.update((name, self._in_primes(symbol(name))) for name in self.free)
        return self.formulas

    def _work(self) -> list[Callable[[Numbers], int]]:
        """The scalars and the operations of primes: every move asks for them."""
        if not self.work:
            dims = (self.facts.scalars, self.facts.operations)
            self.work.extend(_value_of(self._in_primes(dim)) for dim in dims)
        return self.work

    def _changes(self, primes: Numbers, names: Sequence[str]) -> Iterator[Numbers]:
        """A smaller prime for one symbol, or none for one that is a multiple anyway."""
        for name in names:
            multiple = self.factors.get(name, ONE) != ONE
            smaller = (prime for prime in PRIMES if prime < primes[name])
            yield from ({name: prime} for prime in ((1,) if multiple else ()))
            yield from ({name: prime} for prime in smaller)
        yield from _exchanges(primes, names)

    def _is_valid(self, primes: Numbers, *, apart: bool = False) -> bool:
        """Whether bounds hold (S and S_max), means and loops are over enough, and axes differ.

        A settled length cannot change, so it must not keep other lengths from being small.
        """
        numbers = self._values(primes)
        bounded = all(
            low.evaluate(numbers) <= high.evaluate(numbers) for low, high in self.facts.bounds
        )
        means, rounds = (
            [dim.evaluate(numbers) for dim in dims if not self._is_settled(dim)]
            for dims in (self.facts.means, self.facts.rounds)
        )
        enough = all(n >= LEAST_MEAN for n in means) and all(n >= LEAST_ROUNDS for n in rounds)
        enough &= all(_exists(scalar, numbers) for scalar in self.facts.numbers)
        return bounded and enough and (not apart or self._apart(numbers))

    def _apart(self, numbers: Numbers) -> bool:
        """Whether axes of one tensor that differ as sizes differ in length, and none is trivial."""
        for shape in self.facts.shapes:
            lengths = [dim.evaluate(numbers) for dim in shape if not self._is_settled(dim)]
            settled = {dim.evaluate(numbers) for dim in shape if self._is_settled(dim)}
            if len(set(lengths) - settled) < len(lengths):
                return False
        free = (dim for dim in self.facts.dims if not self._is_settled(dim))
        return all(dim.evaluate(numbers) > 1 for dim in free)

    def _is_settled(self, dim: Dim) -> bool:
        """Whether no prime changes a size."""
        return self.fixed.keys() >= {*dim.symbols()}

    def _effort(self, primes: Numbers) -> int:
        """About how much is computed: one pass for every scalar that is moved."""
        spelled, (scalars, operations) = self._prime_symbols(primes), self._work()
        return scalars(spelled) * operations(spelled)

    def _scalars(self, primes: Numbers) -> int:
        return self._work()[0](self._prime_symbols(primes))


def _value_of(dim: Dim) -> Callable[[Numbers], int]:
    """The value of a size, quickly where it divides by nothing."""
    if any(n.denominator != 1 or any(power < 0 for _, power in m) for m, n in dim.terms):
        return dim.evaluate
    terms = [(int(n), [name for name, power in m for _ in range(power)]) for m, n in dim.terms]

    def value(numbers: Numbers) -> int:
        total = 0
        for amount, names in terms:
            for name in names:
                amount *= numbers[name]
            total += amount
        return total

    return value


def _exists(scalar: Scalar, numbers: Numbers) -> bool:
    """Whether a number has a value; a size alone has one where it is whole."""
    if scalar.op == "size":
        return True
    try:
        scalar.evaluate(numbers)
    except (DimError, ScalarError):
        return False
    return True


def _exchanges(primes: Numbers, names: Sequence[str]) -> Iterator[Numbers]:
    for one, other in combinations(names, 2):
        yield {one: primes[other], other: primes[one]}


def _swaps(primes: Numbers, names: Sequence[str]) -> Iterator[Numbers]:
    """Two primes in each other's place, for all symbols that have them."""
    for one, other in combinations(sorted({primes[name] for name in names}), 2):
        turned = {one: other, other: one}
        yield {name: turned[primes[name]] for name in names if primes[name] in turned}


def _lone(dim: Dim) -> Iterator[tuple[str, Coefficient]]:
    """The symbols that are a term of their own, and how often it is counted."""
    for monomial, count in dim.terms:
        if len(monomial) == 1 and monomial[0][1] == 1:
            yield monomial[0][0], count


def _bare(dim: Dim) -> Iterator[str]:
    return (name for name in dim.symbols() if not name.endswith("'"))


# A mesh to verify a parallel program on, and sizes that its ranks can share.
#
# Neighboring axes of the mesh differ in size, so that a sum over the wrong one shows; what ranks
# cut is a prime times their number, also where that follows only from what they compute, as heads
# do.


RANKS: Final = (2, 3)  # along the axes of a mesh, in turn
ROUNDS_OF_STAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A block under a plan (None for one that is parallel by hand), with all that is set."""

    block: str | None
    plan: str | None
    settings: Settings
    sizes: Mapping[str, int]


def case(project: Project, block: str | None, plan: str | None, settings: Settings) -> Case:
    """A block with a number for every size and mesh axis that is not set.

    Raises DiagnosticError where the plan does not fit, or numbers that are set cannot be shared.
    """
    mesh = mesh_sizes(project)
    if plan is not None:  # neighbors of the axes that it has differ
        axes = find_plan(project, plan, {**mesh, **settings}).mesh
        mesh |= dict(zip(axes, cycle(RANKS), strict=False))
    chosen: dict[str, str | int] = {**mesh, **settings}
    typed = _type_on_mesh(project, block, plan, chosen)
    set_numbers = {name: value for name, value in settings.items() if isinstance(value, int)}
    whole = run(SINGLE, typed).result
    own = {name: size for name, size in set_numbers.items() if name not in mesh}
    own |= _rounds(typed, own)
    free = _free(typed, own)
    reached = tuple(placed_values(free))
    padded = padded_numbers(free, reached)
    check_shares(replace(free, numbers={**free.numbers, **padded}), reached)  # of what is set
    try:
        # What a choice of options leaves unused is cut and bounded as well.
        unused = tuple(dim for dim in shard_sizes(free) if dim.constant is None)
        even, shared = {**own, **padded}, (*_shared(free), *unused)
        bounded = (*bounds(free), *lengths_left_out(free, whole))  # the file is refused without
        sizes = verification_sizes(whole, even, shared, bounded)
    except DimError as error:
        raise InputError(f"xg found no sizes that the ranks can share equally: {error}") from error
    declared = dims_of(project, block)
    true = {name: own[name] for name in padded}
    uneven = _uneven(padded_cuts(free, reached), sizes, own) | true
    numbers = {name: n for name, n in {**sizes, **uneven}.items() if name in declared}
    return Case(block, plan, {**chosen, **numbers}, {**sizes, **uneven})


def _uneven(
    cuts: Iterable[PaddedCut], sizes: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that are padded, one less than what ranks can share: the last has one pad."""
    return {
        cut.name: max(sizes[cut.name], 2 * cut.parts) - 1
        for cut in cuts
        if cut.name in sizes and cut.name not in given and cut.parts > 1
    }


def mesh_sizes(project: Project) -> dict[str, int]:
    """A small size for every mesh axis that the files declare."""
    names = dict.fromkeys(mesh.name.name for each in project.modules for mesh in each.meshes)
    return dict(zip(names, cycle(RANKS), strict=False))


def reaches(project: Project, block: str | None, plan: str, settings: Settings) -> bool:
    """Whether a plan places anything in a block, or says what it computes again."""
    chosen: dict[str, str | int] = {**mesh_sizes(project), **settings}
    typed = shape_project(project, block, chosen)
    named = replace(typed, plan=find_plan(project, plan, chosen))
    return next(iter(placed_values(named)), None) is not None or is_about_calls(named)


def _type_on_mesh(
    project: Project, block: str | None, plan: str | None, settings: Settings
) -> IRProgram:
    """The typed program on its mesh, without the numbers that its sizes have in the file."""
    typed = shape_project(project, block, settings)
    if plan is not None:
        typed = replace(typed, plan=find_plan(project, plan, settings))
        check_placements(placed_values(typed))
    return with_mesh(typed)


def _rounds(program: IRProgram, given: Mapping[str, int]) -> dict[str, int]:
    """Two rounds for each stage of a pipeline, where the number of rounds is not set."""
    row = cut_row(_free(program, given))
    name = row.call.count.name if row and row.call.count else None
    if row is None or name is None or name in given:
        return {}
    return {name: ROUNDS_OF_STAGE * (row.ranks or 1) * row.turns}


def _free(program: IRProgram, given: Mapping[str, int]) -> IRProgram:
    """The program without the numbers of the file, which may be none that ranks can share."""

    def free(graph: Graph) -> Graph:
        sizes = graph.sizes
        defaults = {name: size for name, size in sizes.defaults.items() if name in given}
        return replace(graph, sizes=replace(sizes, defaults=defaults))

    graphs = {key: free(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, numbers=dict(given))


def _shared(program: IRProgram) -> tuple[Dim, ...]:
    """Every length of an axis in the program of one rank that ranks share, the mesh in numbers."""
    ranks = run(RANK, program).result
    mesh = {axis: number(size) for axis, size in program.mesh.items()}
    dims = (
        dim.substitute(symbols).substitute(mesh)
        for graph, symbols in instances(ranks)
        for dim in axes_of(graph)
        if not mesh.keys().isdisjoint(dim.symbols())
    )
    return tuple(dict.fromkeys(dim for dim in dims if dim.constant is None))
