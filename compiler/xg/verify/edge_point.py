"""A program's arrays at one edge, what the interpreter makes of them, and whether a form agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import Scalar
from xg.ir.functions import FUNCTIONS, STEPS
from xg.ir.graph import Apply, IRProgram
from xg.ir.prim import Expr
from xg.ir.walk import frozen_paths
from xg.verify.domains import ranges_of
from xg.verify.reference.evaluate import MEANING, Context, Meaning, NumberSystem, Stopped
from xg.verify.reference.interpret import Interpreter, Record
from xg_runtime.module import Array, Arrays

CLOSE: Final = 1e-9  # of float64, of an element and of the largest in its array
LEFT: Final = 1e-12  # of float64, of the largest in all arrays: what cancels leaves rounding
LEVELS: Final = (-1.0, 0.0, 1.0)  # that meet each other, and most kinks
LARGEST_KINK: Final = 100.0  # beyond it is a guard against overflow
KINKS: Final = frozenset({"maximum", "minimum", "gt", "ge", "eq"})
HALVES: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}  # half the last bit
ROUNDINGS: Final = 64.0  # so many of them may add up in a program
CANCELED: Final = 8.0  # so many of the largest element's are left where terms cancel to nearly 0
SPREADS: Final = 16.0  # so many times as far as rounded arguments move a result
LARGEST_FLOAT: Final = {
    "float16": 65504.0,
    "bfloat16": 2.0**128,
    "float32": 2.0**128,
    "float64": float(np.finfo(np.float64).max),
}
TOO_LARGE: Final = "the type has no number that large"
BY_CHANCE: Final = "the last bits of a value decide it"
SHAKE: Final = 1e-14  # of float64, of a result whose last bits depend on the order of steps
SHAKES: Final = 16  # a tie breaks to either side, so few runs may break it to one
SHARES: Final = (1.0, 1.0, 0.5, 0.5, 0.2, 0.2)  # of the floats that are moved, in six runs
SNAPPED: Final = (1.0, 0.7)  # of the floats that are rounded, in the runs with near ties as ties
SEARCHED: Final = 64  # runs in search of one that has all results of a form
RARE: Final = 16  # one run of so many may be the only one of its kind
MANY: Final = 4  # so many results of one element are not all that there are
BESIDE: Final = 0.1  # of their range, so far outside it such an element may be
PREFIXES: Final = ("", "d")  # of outputs and gradients in messages
CHANCE: Final = 1e-11  # an element that moves by more of the largest one hangs on last bits
# The primitives that round, and that other code may compute in another order. Sums and products of
# short numbers are the same in any order, and so is a function of a short number that is short.
SUMS: Final = frozenset({"contract", "sum", "cumsum"})
SMOOTH: Final = frozenset({*FUNCTIONS} - STEPS)
ROUNDING: Final = SUMS | SMOOTH | {"mean", "div", "pow"}
# In a type of few bits these round as well.
NARROWING: Final = {"const", "as_float", "add", "sub", "mul", "overlap", "scatter_add"}
NARROW_SHAKE: Final = 4.0  # half bits of such a type: a sum of numbers rounds more than once
SHORT: Final = 2.0**20  # a short number is a multiple of 1/SHORT and smaller than SHORT


class Passes(Protocol):
    """A program on arrays: its forward and its backward pass."""

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Any]:
        """Return outputs and what `backward` needs."""
        ...

    def backward(self, params: Arrays, saved: Any, d_outputs: Arrays) -> Arrays:  # noqa: ANN401
        """Return the gradients of parameters and float inputs."""
        ...


class Mismatch(NamedTuple):
    """A tensor in which a form is wrong: an element and both numbers, or `what` is wrong."""

    tensor: str
    what: str = ""
    place: tuple[int, ...] = ()
    found: float = 0.0
    expected: float = 0.0

    def __str__(self) -> str:
        if self.what:
            return f"{self.tensor} {self.what}" if self.tensor else self.what
        at = f"[{', '.join(map(str, self.place))}]" if self.place else ""
        return f"{self.tensor}{at} = {self.found:.17g}, the interpreter has {self.expected:.17g}"


class Expectation(NamedTuple):
    """The outputs and gradients of the interpreter, and how far each may be off."""

    outputs: Arrays
    gradients: Arrays
    spread: Mapping[str, float]


@dataclass(frozen=True)
class Point:
    """Arrays of a program at one edge; all its sizes have numbers.

    `seed` draws dropout, `draw` the cotangents; `lacking` leaves the first of several out, which
    then is zero. `dtype` is the type that floats are computed in: float64 if it is None.
    `chances` collects the tensors that were not wholly compared, with the reasons.
    """

    edge: str
    program: IRProgram
    params: Arrays
    inputs: Arrays
    seed: int | None = None
    draw: int = 0
    lacking: bool = False
    dtype: str | None = None
    chances: dict[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)

    def tied(self, number: int = 0) -> Point:
        """The same with numbers of a few levels, so that many are equal and many are zero.

        The constants that the program compares with are among them.
        """
        random = np.random.default_rng((self.draw + 1, number))
        levels = sorted({*LEVELS, *_compared_with(self.program)})

        def level(x: Array) -> Array:
            return random.choice(levels, x.shape)

        return self._map_floats("ties", level)

    def zeros(self) -> Point:
        """The same with nothing but zeros."""
        return replace(self._map_floats("zeros", np.zeros_like), lacking=True)

    def rounded(self, dtype: str) -> Point:
        """The same in a type with fewer bits, which holds all of its numbers exactly."""

        def rounded(x: Array) -> Array:
            return round_to(x, dtype)

        return replace(self._map_floats(dtype, rounded), dtype=dtype)

    def with_largest_integers(self) -> Point:
        """The same with integers at both ends of their ranges, most of them next to the upper."""
        random = np.random.default_rng(self.draw + 5)
        inputs = dict(self.inputs)
        for name, below in ranges_of(self.program).items():
            ends = [n for n in (0, below - 2, below - 1, below - 1) if n >= 0]
            inputs[name] = random.choice(ends, inputs[name].shape)
        return replace(self, inputs=inputs)

    def with_integers(self, dtype: str, edge: str = "") -> Point:
        """The same with integers of a type; what is expected stays."""
        inputs = {n: x if x.dtype.kind == "f" else x.astype(dtype) for n, x in self.inputs.items()}
        point = replace(self, edge=edge or dtype, inputs=inputs)
        vars(point).update(expected=self.expected, cotangents=self.cotangents)
        return point

    def _map_floats(self, edge: str, move: Callable[[Array], Array]) -> Point:
        """The same with all floats moved; a variance among the parameters stays positive."""
        statistics = frozen_paths(self.program)

        def moved(name: str, x: Array) -> Array:
            if x.dtype.kind != "f":
                return x
            return abs(move(x)) if name in statistics else move(x)

        params = {name: moved(name, x) for name, x in self.params.items()}
        inputs = {name: moved(name, x) for name, x in self.inputs.items()}
        return replace(self, edge=edge, params=params, inputs=inputs)

    # ---- the interpreter ------------------------------------------------------------------------

    @property
    def exact(self) -> Arrays:
        """The inputs with integers of 64 bits, as the interpreter takes them."""
        return {
            name: x if x.dtype.kind == "f" else x.astype(np.int64)
            for name, x in self.inputs.items()
        }

    def interpret(
        self, stopped: Stopped | None = None, moved: Arrays | None = None
    ) -> tuple[Arrays, Record, Interpreter]:
        """Run the interpreter forward; `moved` are arrays in the place of some."""
        arrays = {**self.params, **self.exact, **(moved or {})}
        params = {name: arrays[name] for name in self.params}
        interpreter = Interpreter(self.program, params, self.seed, stopped=stopped)
        outputs, record = interpreter.forward({name: arrays[name] for name in self.inputs})
        return outputs, record, interpreter

    @cached_property
    def _run(self) -> tuple[Arrays, Record, Interpreter]:
        return self.interpret()

    @cached_property
    def cotangents(self) -> Arrays:
        """A random cotangent of each float output."""
        random = np.random.default_rng(self.draw + 2)
        outputs = self._run[0]
        names = [name for name, x in outputs.items() if x.dtype.kind == "f"]
        names = names[1:] if self.lacking and len(names) > 1 else names
        drawn = {name: random.standard_normal(outputs[name].shape) for name in names}
        return drawn if self.dtype is None else _round_arrays(drawn, self.dtype)

    @cached_property
    def expected(self) -> Expectation:
        """Outputs and gradients of the interpreter, and how far rounding moves them."""
        outputs, record, interpreter = self._run
        gradients = interpreter.backward(record, self.cotangents)
        return Expectation(outputs, gradients, self._spread(outputs, gradients))

    def _spread(self, outputs: Arrays, gradients: Arrays) -> Mapping[str, float]:
        """How far a result moves if each float moves within its last bit."""
        if self.dtype is None:
            return {}
        random, bit = np.random.default_rng(self.draw + 4), HALVES[self.dtype]

        def moved(x: Array) -> Array:
            if x.dtype.kind != "f":
                return x
            return x * (1 + bit * random.choice((-1.0, 1.0), x.shape))

        arrays = {n: moved(x) for n, x in {**self.params, **self.inputs}.items()}
        others, record, interpreter = self.interpret(moved=arrays)
        slopes = interpreter.backward(record, self.cotangents)
        pairs = {n: (x, others[n]) for n, x in outputs.items()}
        pairs |= {f"d{n}": (x, slopes[n]) for n, x in gradients.items()}
        return {name: largest(x - y) for name, (x, y) in pairs.items() if x.dtype.kind == "f"}

    @property
    def undefined_output(self) -> str | None:
        """The first output that has no number here; an infinity is one."""
        outputs = self._run[0].items()
        return next((n for n, x in outputs if x.dtype.kind == "f" and np.isnan(x).any()), None)

    @property
    def undefined_gradients(self) -> list[str]:
        """The gradients that have an element that is no finite number here."""
        gradients = self.expected.gradients.items()
        return [name for name, x in gradients if not np.isfinite(x).all()]

    @cached_property
    def _overflowed(self) -> tuple[Arrays, Arrays]:
        """Outputs and gradients with an infinity for each number too large for the type of floats.

        A sum may overflow on the way to a small result, so the sizes of its terms count.
        """
        limit = LARGEST_FLOAT[self.dtype or "float64"] / 2

        def cut(x: Array, size: Array) -> Array:
            return np.where(size > limit, np.copysign(np.inf, x), x)

        def limited(meaning: Meaning) -> Meaning:
            def found(expr: Expr, context: Context, *args: Array) -> Array:
                x = meaning(expr, context, *args)
                if x.dtype.kind != "f":
                    return x
                sums = expr.prim in SUMS and all(each.dtype.kind == "f" for each in args)
                return cut(x, abs(meaning(expr, context, *map(abs, args)) if sums else x))

            return found

        def add(x: Array, y: Array) -> Array:
            total = np.add(x, y)
            return cut(total, abs(total)) if total.dtype.kind == "f" else total

        meanings = {name: limited(f) for name, f in MEANING.items()}
        return self._run_again(NumberSystem(meanings, add))

    @cached_property
    def undecided(self) -> dict[str, Array]:
        """How far apart last bits may make each element of a tensor; 0 where they decide nothing.

        Only tensors with such elements are there.
        """
        found: dict[str, Array] = {}
        shaken = zip(*self._shaken, strict=True)
        for prefix, wanted, runs in zip(PREFIXES, self.expected[:2], shaken, strict=True):
            scale = max((largest(x) for x in wanted.values()), default=0.0)
            for name, x in wanted.items():
                every = np.stack([x.astype(np.float64), *(each[name] for each in runs)])
                with np.errstate(invalid="ignore"):
                    apart = every.max(axis=0) - every.min(axis=0)
                apart[~(apart > CHANCE * (1 + scale))] = 0.0  # nor where a run has no number
                if apart.any():
                    found[f"{prefix}{name}"] = apart * (1 + BESIDE)
        return found

    # ---- a form ---------------------------------------------------------------------------------

    def check(self, module: Passes) -> Mismatch | None:
        """How a form differs from the interpreter, or writes into what it is given."""
        params, inputs, cotangents = (
            {name: x.copy() for name, x in arrays.items()}
            for arrays in (self.params, self.inputs, self.cotangents)
        )
        outputs, saved = module.forward(dict(params), dict(inputs), seed=self.seed)
        kept = {name: np.array(x) for name, x in outputs.items()}
        gradients = module.backward(dict(params), saved, dict(cotangents))
        for prefix, given, before in (
            ("", {**params, **inputs}, {**self.params, **self.inputs}),
            ("d", cotangents, self.cotangents),
        ):
            for name, x in given.items():
                if not np.array_equal(x, before[name], equal_nan=x.dtype.kind == "f"):
                    what = "is changed: the form writes into what it is given"
                    return Mismatch(f"{prefix}{name}", what)
        return self.compare(kept, gradients)

    def compare(self, outputs: Arrays, gradients: Arrays) -> Mismatch | None:
        """The first tensor that is not the interpreter's.

        Last bits may decide between two results. They excuse only those that the interpreter gives
        if what rounds is shaken. If it gives few, the whole has to be one of them.
        """
        differences: list[Mismatch] = []
        results = (outputs, gradients)
        for prefix, found, wanted in zip(PREFIXES, results, self.expected[:2], strict=True):
            for name in dict.fromkeys([*wanted, *found]):
                if name not in found or name not in wanted:
                    what = "is missing" if name in wanted else "is not expected"
                    return Mismatch(f"{prefix}{name}", what)
                is_chance, differs = self._differs(prefix, name, np.asarray(found[name]))
                if differs and not is_chance:
                    return differs
                differences += [differs] if differs else []
        if differences and not self._is_possible(results):
            return differences[0]
        self.chances.update((each.tensor, BY_CHANCE) for each in differences)
        return None

    def _differs(self, prefix: str, name: str, found: Array) -> tuple[bool, Mismatch | None]:
        """The first element that is wrong, and whether last bits may decide all that are."""
        wanted, title = self._wanted(prefix)[name], f"{prefix}{name}"
        if found.shape != wanted.shape:
            what = f"has shape {list(found.shape)}, not {list(wanted.shape)}"
            return False, Mismatch(title, what)
        if self.dtype is not None:
            held = "float32" if self.dtype == "bfloat16" else self.dtype  # NumPy has no bfloat16
            # torch's kernel of cross-entropy keeps a loss in float32, as autocast does.
            kept = (held,) if wanted.ndim or prefix else (held, "float32")
            if wanted.dtype.kind == "f" and found.dtype.name not in kept:
                return False, Mismatch(title, f"is {found.dtype.name}, not {held}")
        right = self._is_right(prefix, name, found, wanted)
        if not right.all():
            right |= self._is_too_large(prefix, name, found)
        if right.all():
            return True, None
        chance = right | self._is_chance(prefix, name, found)
        place = tuple(int(n) for n in np.argwhere(~(right if chance.all() else chance))[0])
        mismatch = Mismatch(title, "", place, float(found[place]), float(wanted[place]))
        return bool(chance.all()), mismatch

    def _wanted(self, prefix: str) -> Arrays:
        return self.expected.gradients if prefix else self.expected.outputs

    def _is_right(self, prefix: str, name: str, found: Array, wanted: Array) -> Array:
        """Whether each element of a tensor is the wanted one, but for rounding."""
        right = (found == wanted) | ~np.isfinite(wanted)
        with np.errstate(all="ignore"):
            right |= np.abs(found.astype(np.float64) - wanted) <= self._bound(prefix, name)
        if not prefix:  # infinities are values here
            right &= (found == wanted) | np.isfinite(wanted) | np.isnan(wanted)
        elif self.dtype is None:  # a slope may be inf in one order of steps, and NaN in another
            right &= ~(np.isinf(wanted) & np.isfinite(found))
        return right

    def _bound(self, prefix: str, name: str) -> Array:
        """How far rounding may move each element of a tensor."""
        every = self._wanted(prefix)
        wanted, scale = every[name], max(map(largest, every.values()))
        if self.dtype is None:
            return CLOSE * (np.abs(wanted) + largest(wanted)) + LEFT * (1 + scale)
        part = HALVES[self.dtype] * (ROUNDINGS * largest(wanted) + CANCELED * scale)
        spread = self.expected.spread.get(f"{prefix}{name}", 0.0)
        return np.full(wanted.shape, part + SPREADS * spread)

    def _is_too_large(self, prefix: str, name: str, found: Array) -> Array:
        """Whether a narrow type has no number for each element, or for one on the way to it."""
        beyond = ~np.isfinite(found)
        if self.dtype is None or not beyond.any():
            return np.zeros(found.shape, bool)
        beyond &= ~np.isfinite(self._overflowed[bool(prefix)][name])
        if beyond.any():
            self.chances[f"{prefix}{name}"] = TOO_LARGE
        return beyond

    def _is_chance(self, prefix: str, name: str, found: Array) -> Array:
        """Whether the last bits of a value decide each element of a tensor.

        A layer norm of ties may be 0 or 1e-17: a ReLU after it then has either slope, and topk
        may find either place. A layer norm of two numbers is 0.99999, which is 1 in float16, so a
        floor of it is either integer. No form is wrong. The interpreter finds the other result
        itself if what rounds is shaken. If several such places add up, it finds only some of the
        sums, so any number between them may be right.
        """
        shaken = (run[bool(prefix)][name] for run in self._shaken)
        runs = np.stack([self._wanted(prefix)[name], *shaken])
        bound, ways = self._bound(prefix, name), np.ones(found.shape, int)
        chance = np.any([self._is_like(prefix, name, found, run) for run in runs], axis=0)
        with np.errstate(all="ignore"):
            for number in range(1, len(runs)):
                ways += (np.abs(runs[:number] - runs[number]) > bound).all(axis=0)
            low, high = runs.min(axis=0), runs.max(axis=0)
            slack = bound + BESIDE * (high - low)
            between = (found >= low - slack) & (found <= high + slack)
        chance |= between & (ways >= MANY)
        return chance

    def _is_possible(self, results: tuple[Arrays, Arrays]) -> bool:
        """Whether a shaken run has these results, or there are too many ways to see each of them.

        The share of runs that give a way of their own is about that of the ways that were not seen.
        """
        seen: list[tuple[Arrays, Arrays]] = []
        counts: list[int] = []
        for number in range(SEARCHED):
            run = self._shaken[number] if number < SHAKES else self.shake(number)
            if self._is_run(results, run):
                return True
            way = next((n for n, each in enumerate(seen) if self._is_run(run, each)), None)
            if way is None:
                seen.append(run)
                counts.append(0)
            counts[-1 if way is None else way] += 1
            if number + 1 >= SHAKES and 2 * counts.count(1) > number + 1:
                return True
        return RARE * counts.count(1) > SEARCHED

    def _is_run(self, results: tuple[Arrays, Arrays], run: tuple[Arrays, Arrays]) -> bool:
        """Whether results are those of a run, but for rounding."""
        for prefix, each, others in zip(PREFIXES, results, run, strict=True):
            for name, other in others.items():
                found, wanted = np.asarray(each[name]), self._wanted(prefix)[name]
                like = self._is_like(prefix, name, found, other)
                like |= ~np.isfinite(wanted) & self._is_right(prefix, name, found, wanted)
                if not (like | self._is_too_large(prefix, name, found)).all():
                    return False
        return True

    def _is_like(self, prefix: str, name: str, found: Array, run: Array) -> Array:
        """Whether each element is that of a run, but for rounding."""
        bound = self._bound(prefix, name)
        with np.errstate(all="ignore"):
            near = np.abs(found.astype(np.float64) - run) <= np.where(np.isfinite(bound), bound, 0)
        return (found == run) | near | (~np.isfinite(found) & ~np.isfinite(run))

    @cached_property
    def _shaken(self) -> list[tuple[Arrays, Arrays]]:
        """Outputs and gradients of runs in which what rounds is moved in its last bits."""
        return [self.shake(number) for number in range(SHAKES)]

    def shake(self, number: int) -> tuple[Arrays, Arrays]:
        """Outputs and gradients of one such run."""
        if self.dtype is None:
            return self._run_again(shaking(self.draw + 6, number))
        random = np.random.default_rng((self.draw + 6, number))
        return self._run_again(narrow_shaking(random, self.dtype))

    def _run_again(self, arithmetic: NumberSystem) -> tuple[Arrays, Arrays]:
        interpreter = Interpreter(self.program, self.params, self.seed, arithmetic=arithmetic)
        with np.errstate(all="ignore"):
            outputs, record = interpreter.forward(self.exact)
            return outputs, interpreter.backward(record, self.cotangents)


def shaking(draw: int, number: int) -> NumberSystem:
    """Floats whose last bits are moved after each primitive that rounds; 0 stays 0.

    Of six runs the first moves all of them, and the second moves each the other way, so that a tie
    breaks to both sides. The others move some, because some ties may break while others stay. In
    every fourth run near ties become ties instead.
    """
    kind = number % len(SHARES)
    random = np.random.default_rng((draw, number - (kind == 1)))
    share, shake = SHARES[kind], -SHAKE if kind == 1 else SHAKE

    def shaken(meaning: Meaning) -> Meaning:
        def moved(expr: Expr, context: Context, *args: Array) -> Array:
            x = meaning(expr, context, *args)
            if x.dtype.kind != "f" or (expr.prim in SUMS and all(_short(a).all() for a in args)):
                return x
            if number % 4 == 3:
                return np.where(random.random(x.shape) < SNAPPED[number // 4 % 2], _snap(x), x)
            rounds = ~_short(x) if expr.prim in SMOOTH else True
            rounds = rounds & (random.random(x.shape) < share)
            return np.where(rounds, x * (1 + shake * random.uniform(-1.0, 1.0, x.shape)), x)

        return moved

    meanings = {name: shaken(f) if name in ROUNDING else f for name, f in MEANING.items()}
    return NumberSystem(meanings, np.add)


def _snap(x: Array) -> Array:
    """Numbers rounded to 42 bits, so that near ties become ties."""
    with np.errstate(all="ignore"):
        part, power = np.frexp(x)
        near = np.ldexp(np.round(part * 2.0**42) / 2.0**42, power)
    return np.where(np.isfinite(x), near, x)


def narrow_shaking(random: np.random.Generator, dtype: str) -> NumberSystem:
    """Floats that are moved in the last bits of a type after each primitive that rounds there.

    A result stays if the type has this number and every number that it was computed from.
    """

    def shaken(meaning: Meaning) -> Meaning:
        def moved(expr: Expr, context: Context, *args: Array) -> Array:
            x = meaning(expr, context, *args)
            if x.dtype.kind != "f":
                return x
            exact = _holds(dtype, x) & all(_holds(dtype, each).all() for each in args)
            return np.where(exact, x, shake_bits(random, dtype, x))

        return moved

    rounding = ROUNDING | NARROWING
    meanings = {name: shaken(f) if name in rounding else f for name, f in MEANING.items()}
    return NumberSystem(meanings, np.add)


def shake_bits(random: np.random.Generator, dtype: str, x: Array) -> Array:
    """Move each number in the last bits that it has in a type; 0 stays 0."""
    return x * (1 + NARROW_SHAKE * HALVES[dtype] * random.uniform(-1.0, 1.0, x.shape))


def _holds(dtype: str, x: Array) -> Array:
    """Whether a type has each number."""
    with np.errstate(all="ignore"):
        return round_to(x, dtype) == x


def _short(x: Array) -> Array:
    """Whether each number has few bits, so that sums and products of such numbers are exact."""
    return (np.abs(x) < SHORT) & (x * SHORT == np.round(x * SHORT))


def _compared_with(program: IRProgram) -> Iterator[float]:
    """The constants that operators compare with: the places of kinks."""
    for graph in program.graphs.values():
        for step in graph.steps:
            bodies = step.body(graph.types).order() if isinstance(step, Apply) else ()
            for arg in (arg for expr in bodies if expr.prim in KINKS for arg in expr.args):
                value = arg.attr("value") if arg.prim == "const" else None
                number = value.constant if isinstance(value, Scalar) else None
                if number is not None and abs(number) < LARGEST_KINK:
                    yield float(number)


def largest(x: Array) -> float:
    """The largest finite element of an array; 0 if it has none."""
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0))


def round_to(x: Array, dtype: str) -> Array:
    """Convert an array to numbers that a type can represent, and return them as float64."""
    if dtype != "bfloat16":
        return x.astype(dtype).astype(np.float64)
    bits = np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def _round_arrays(arrays: Arrays, dtype: str) -> Arrays:
    return {name: round_to(x, dtype) for name, x in arrays.items()}
