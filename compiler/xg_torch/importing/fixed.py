"""The part of a model that depends on sizes alone: positions, masks and tables, as NumPy runs it.

Such a part has no weights and no inputs, so its numbers at given sizes are its whole meaning.
`recognize` finds out what it is by looking at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg_torch.importing.archive import DTYPES, Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, DType, Ref, clamp_size, reads
from xg_torch.importing.views import Factor, View

# NumPy's computation of the aten calls that a size-only part of a model may have.


Arguments = Mapping[str, Any]  # tensors as arrays, sizes as integers
WHOLE: Final = 2**31  # a slice that ends beyond has no end


def _dtype(args: Arguments, default: str) -> str:
    kind = args.get("dtype")
    return DTYPES[kind.number] if isinstance(kind, DType) else default


def _full(args: Arguments, value: complex, default: str = "f8") -> Array:
    return np.full(args["size"], value).astype(_dtype(args, default))


def _like(args: Arguments, value: complex) -> Array:
    x: Array = args["self"]
    return np.full(x.shape, value).astype(_dtype(args, x.dtype.str))


def _arange(args: Arguments) -> Array:
    start, step = args.get("start", 0), args.get("step", 1)
    integers = all(isinstance(x, int) for x in (start, step, args["end"]))
    counted: Array = np.arange(start, args["end"], step, dtype=np.float64)
    return counted.astype(_dtype(args, "i8" if integers else "f8"))


def _slice(args: Arguments) -> Array:
    x: Array = args["self"]
    cut = [slice(None)] * x.ndim
    end = args.get("end")
    end = None if end is None or end >= WHOLE else end
    cut[args.get("dim", 0)] = slice(args.get("start"), end, args.get("step", 1))
    return x[tuple(cut)]


def _expand(args: Arguments) -> Array:
    x: Array = args["self"]
    old = (1,) * (len(args["size"]) - x.ndim) + x.shape
    return np.broadcast_to(x, [a if b == -1 else b for a, b in zip(old, args["size"], strict=True)])


def _index(args: Arguments) -> Array:
    indices = tuple(slice(None) if index is None else index for index in args["indices"])
    return args["self"][indices]


def _scatter(args: Arguments) -> Array:
    x: Array = np.array(args["self"])
    np.put_along_axis(x, args["index"], args["value"], args["dim"])
    return x


def _diff(args: Arguments) -> Array:
    edges = {key: args[key] for key in ("prepend", "append") if args.get(key) is not None}
    return np.diff(args["self"], args.get("n", 1), args.get("dim", -1), **edges)


def _to(args: Arguments) -> Array:
    x: Array = args["self"]
    return x.astype(_dtype(args, x.dtype.str))


def _where(args: Arguments) -> Array:
    condition: Array = args["condition"]
    return _chosen(condition, args["self"], args["other"])


def _chosen(condition: Array, yes: complex | Array, no: complex | Array) -> Array:
    return np.where(condition, np.asarray(yes), np.asarray(no))


def _reshape(args: Arguments) -> Array:
    x: Array = args["self"]
    return x.reshape(args.get("size", args.get("shape")))


def _unflatten(args: Arguments) -> Array:
    x: Array = args["self"]
    dim = args["dim"] % x.ndim
    return np.reshape(x, (*x.shape[:dim], *args["sizes"], *x.shape[dim + 1 :]))


def _flatten(args: Arguments) -> Array:
    x: Array = args["self"]
    first, last = args.get("start_dim", 0) % x.ndim, args.get("end_dim", -1) % x.ndim
    return np.reshape(x, (*x.shape[:first], -1, *x.shape[last + 1 :]))


def _squeeze(args: Arguments) -> Array:
    x: Array = args["self"]
    dim = args["dim"]
    return np.squeeze(x, dim) if x.shape[dim] == 1 else x


def _binary(compute: Callable[[Any, Any], Any]) -> Callable[[Arguments], Array]:
    def run(args: Arguments) -> Array:
        return compute(args["self"], args["other"])

    return run


def _unary(compute: Callable[[Any], Any]) -> Callable[[Arguments], Array]:
    def run(args: Arguments) -> Array:
        return compute(args["self"])

    return run


def _masked_fill(args: Arguments) -> Array:
    mask: Array = args["mask"]
    return _chosen(mask, args["value"], args["self"])


def _divide(args: Arguments) -> Array:
    """A quotient, which may be rounded down (floor), or toward 0 (trunc)."""
    a, b, mode = args["self"], args["other"], args.get("rounding_mode")
    if mode == "floor":
        return np.floor_divide(a, b)
    if mode is None:
        return a / b
    whole: Array = np.trunc(a / b)
    return whole.astype(np.result_type(a, b))


# Of the operands `self` and `other`, or of `self`: NumPy calls them the same.
BINARY: Final = (
    *("floor_divide", "remainder", "minimum", "maximum", "matmul"),
    *("logical_and", "logical_or", "bitwise_and", "bitwise_or"),
)
UNARY: Final = ("logical_not", "abs", "exp", "log", "sin", "cos", "sqrt", "sign", "floor", "ceil")

RULES: Final[Mapping[str, Callable[[Arguments], Array]]] = {
    "arange": _arange,
    "full": lambda args: _full(args, args["fill_value"], np.asarray(args["fill_value"]).dtype.str),
    "zeros": lambda args: _full(args, 0),
    "ones": lambda args: _full(args, 1),
    "new_zeros": lambda args: _full(args, 0, args["self"].dtype.str),
    "new_ones": lambda args: _full(args, 1, args["self"].dtype.str),
    "new_full": lambda args: _full(args, args["fill_value"], args["self"].dtype.str),
    "zeros_like": lambda args: _like(args, 0),
    "ones_like": lambda args: _like(args, 1),
    "full_like": lambda args: _like(args, args["fill_value"]),
    "scalar_tensor": lambda args: np.asarray(args["s"]).astype(_dtype(args, "f8")),
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "rsub": lambda args: args["other"] - args["self"],
    "mul": _binary(np.multiply),
    "div": _divide,
    "eq": _binary(np.equal),
    "ne": _binary(np.not_equal),
    "lt": _binary(np.less),
    "le": _binary(np.less_equal),
    "gt": _binary(np.greater),
    "ge": _binary(np.greater_equal),
    "__and__": _binary(np.bitwise_and),
    "__or__": _binary(np.bitwise_or),
    "bitwise_not": _unary(np.invert),
    **{name: _binary(getattr(np, name)) for name in BINARY},
    **{name: _unary(getattr(np, name)) for name in UNARY},
    "pow": lambda args: np.power(args["self"], args["exponent"]),
    "neg": _unary(np.negative),
    "rsqrt": lambda args: 1 / np.sqrt(args["self"]),
    "reciprocal": lambda args: 1 / args["self"],
    "cumsum": lambda args: np.cumsum(args["self"], args["dim"]),
    "diff": _diff,
    "tril": lambda args: np.tril(args["self"], args.get("diagonal", 0)),
    "triu": lambda args: np.triu(args["self"], args.get("diagonal", 0)),
    "where": _where,
    "masked_fill": _masked_fill,
    "bmm": lambda args: args["self"] @ args["mat2"],
    "outer": lambda args: np.outer(args["self"], args["vec2"]),
    "cat": lambda args: np.concatenate(args["tensors"], args.get("dim", 0)),
    "stack": lambda args: np.stack(args["tensors"], args.get("dim", 0)),
    "repeat": lambda args: np.tile(args["self"], args["repeats"]),
    "repeat_interleave": lambda args: np.repeat(args["self"], args["repeats"], args.get("dim")),
    "min": _binary(np.minimum),
    "max": _binary(np.maximum),
    "gather": lambda args: np.take_along_axis(
        np.broadcast_to(args["self"], args["self"].shape), args["index"], args["dim"]
    ),
    "scatter": _scatter,
    "index": _index,
    "slice": _slice,
    "select": lambda args: np.take(args["self"], args["index"], args["dim"]),
    "expand": _expand,
    "expand_as": lambda args: np.broadcast_to(args["self"], args["other"].shape),
    "unsqueeze": lambda args: np.expand_dims(args["self"], args["dim"]),
    "squeeze": _squeeze,
    **dict.fromkeys(("view", "reshape"), _reshape),
    "unflatten": _unflatten,
    "flatten": _flatten,
    "transpose": lambda args: np.swapaxes(args["self"], args["dim0"], args["dim1"]),
    "t": lambda args: np.swapaxes(args["self"], 0, 1),
    "permute": lambda args: np.transpose(args["self"], args["dims"]),
    **dict.fromkeys(("to", "_to_copy"), _to),
    "type_as": lambda args: args["self"].astype(args["other"].dtype),
    **dict.fromkeys(
        ("clone", "contiguous", "detach", "detach_", "alias", "lift_fresh_copy", "positive"),
        lambda args: args["self"],
    ),
}


# Calls that give the numbers of their operand.
SAME_NUMBERS: Final = frozenset(
    {"to", "_to_copy", "clone", "contiguous", "detach", "detach_", "alias", "lift_fresh_copy"}
)
LITERAL_AT_MOST: Final = 4096  # sizes beyond every number of a table must be small enough to try


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that depends on sizes alone, by its name; its shape is known."""

    name: str
    shape: tuple[Dim, ...]


class FixedPart:
    """The calls of a model that depend on sizes alone, to be run at any sizes."""

    def __init__(self, limits: Mapping[str, tuple[int, int | None]]) -> None:
        self.limits = limits
        self.constants: dict[str, Array] = {}
        self.calls: dict[str, tuple[str, Mapping[str, Argument]]] = {}
        self.rough: set[str] = set()  # values that are no more exact than float32

    def constant(self, name: str, array: Array) -> None:
        """Note a buffer or a lifted constant."""
        self.constants[name] = array

    def call(self, name: str, rule: str, args: Mapping[str, Argument]) -> None:
        """Note a call; its tensors are names of this part."""
        self.calls[name] = (rule, args)

    def cast_from(self, name: str) -> str:
        """Return the value that a chain of casts starts from, with the same numbers."""
        while name in self.calls and self.calls[name][0] in SAME_NUMBERS:
            (name,) = reads(self.calls[name][1])
        return name

    def __contains__(self, name: str) -> bool:
        return name in self.constants or name in self.calls

    def trials(self, name: str, reach: int = 0) -> list[dict[str, int]]:
        """Sizes to look at a value at: small ones, and one beyond every number that it mentions.

        A window of 1,000 positions shows only where there are more than that; a `reach` is a number
        that follows from what it mentions.
        """
        needed = self._dependencies(name)
        symbols = sorted({s for each in needed for s in _symbols(self.calls.get(each))})
        literals = {n for each in needed for n in _literals(self.calls.get(each))}
        beyond = max((n for n in (*literals, reach) if n < WHOLE), default=0)
        if beyond > LITERAL_AT_MOST:
            raise Unspeakable(f"it depends on the number {beyond}, too large to be tried")
        trials = [
            {
                symbol: self._allowed_size(symbol, start + 2 * place)
                for place, symbol in enumerate(symbols)
            }
            for start in (3, 6, 11)
        ]
        for large in symbols:
            trials.append({**trials[0], large: self._allowed_size(large, beyond + 3)})
        return trials

    def fractions(self, name: str) -> list[float]:
        """The numbers with a point that a value is computed from, in order."""
        found: list[float] = []
        for each in self._dependencies(name):
            array = self.constants.get(each)
            if array is not None and array.dtype.kind == "f" and array.size == 1:
                found.append(float(array.reshape(())))
            found += [x for x in _items(self.calls.get(each)) if isinstance(x, float)]
        return found

    def _allowed_size(self, symbol: str, wanted: int) -> int:
        return clamp_size(self.limits.get(symbol, (0, None)), wanted)

    def run(self, name: str, sizes: Mapping[str, int]) -> Array:
        """The numbers of a value where its symbols have these sizes."""
        arrays: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            for each in self._dependencies(name):
                if each in self.constants:
                    arrays[each] = self.constants[each]
                else:
                    rule, args = self.calls[each]
                    values = {key: _value(arg, arrays, sizes) for key, arg in args.items()}
                    try:
                        arrays[each] = np.asarray(RULES[rule](values))
                    except (TypeError, ValueError, IndexError, KeyError) as error:
                        raise Unspeakable(f"{rule} of constants cannot be followed") from error
        if any(array.dtype.kind == "f" and array.itemsize < 8 for array in arrays.values()):
            self.rough.add(name)
        return arrays[name]

    def _dependencies(self, name: str) -> list[str]:
        """Return a value and everything that it is made of, each after its own parts."""
        needed = {name}
        for each in reversed(self.calls):
            if each in needed:
                needed |= set(reads(self.calls[each][1]))
        constants = [each for each in self.constants if each in needed]
        return [*constants, *(each for each in self.calls if each in needed)]


def _value(arg: Argument, found: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> object:
    match arg:
        case Ref(name):
            return found[name]
        case Dim():
            return arg.evaluate(sizes)
        case tuple():
            return [_value(item, found, sizes) for item in arg]
        case _:
            return arg


def _items(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[Argument]:
    """The arguments of a call, or the items of lists of such; lists of lists do not occur."""
    for arg in call[1].values() if call else ():
        yield from arg if isinstance(arg, tuple) else (arg,)


def _symbols(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[str]:
    for item in _items(call):
        if isinstance(item, Dim):
            yield from item.symbols()


def _literals(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[int]:
    for item in _items(call):
        number = item.constant if isinstance(item, Dim) else item
        if isinstance(number, int) and not isinstance(number, bool):
            yield abs(number)


# Facts about a tensor of a model while its calls are read, besides views and fixed values.


Layout: TypeAlias = Literal["half", "interleaved"]  # where the two of a pair are
HIDDEN: Final = -1e4  # a score so low has the weight 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A mask of an input: it holds where the integers are 1 (`positive`), or where they are 0."""

    view: View
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Mask:
    """All of some conditions, or (`negated`) not all of them.

    As a "number" it is 1 where that holds and 0 elsewhere; as "scores" it is what is added to
    scores: 0 where it holds and -inf elsewhere.
    """

    parts: tuple[Condition | Fixed, ...]
    negated: bool = False
    form: Literal["bool", "number", "scores"] = "bool"


@dataclass(frozen=True, slots=True)
class Operand:
    """The operand of a formula, by its place."""

    place: int


@dataclass(frozen=True, slots=True)
class FormulaPart:
    """A part of a formula, by its place."""

    place: int


Term: TypeAlias = Operand | FormulaPart | float


@dataclass(frozen=True, slots=True)
class Formula:
    """Elementwise arithmetic that the legend has no node for yet: parts in order, the last is it.

    `reduced` says of each part whether its last axis was reduced to 1.
    """

    operands: tuple[View, ...]
    parts: tuple[tuple[str, tuple[Term, ...]], ...]
    reduced: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Turning:
    """A tensor, or one with its pairs `rotated`, times a table: half of rotary positions."""

    view: View
    table: Fixed
    rotated: Layout | None = None


@dataclass(frozen=True, slots=True)
class TurnedCoordinate:
    """``x1 cos - x2 sin`` of pairs (x1, x2), or of the `second` coordinate ``x2 cos + x1 sin``."""

    along: View  # x1, or x2 of a second coordinate: what the cosines multiply
    across: View
    cosine: Fixed
    sine: Fixed
    second: bool


@dataclass(frozen=True, slots=True)
class Routed:
    """A row for each of the k experts of a token, as a model computes it; here for all experts.

    Where torch counts the k that are `chosen`, `view` has the factor `expert` of all of them.
    """

    view: View
    expert: Factor
    chosen: View
    shares: View | None = None  # the weights that it was multiplied by


@dataclass(frozen=True, slots=True)
class Chosen:
    """1 at what was chosen, 0 elsewhere; or (`negated`) the other way round.

    `view` is of the places that were chosen; it has the factor `of` that they are places in.
    """

    view: View
    of: Factor
    negated: bool = False


@dataclass(frozen=True, slots=True)
class BlankPart:
    """A stretch along one axis of a tensor that is not written yet, by its name."""

    name: str
    axis: int
    start: Dim
    length: Dim


@dataclass(frozen=True, slots=True)
class Blank:
    """A tensor without numbers, and what was written into stretches of it."""

    shape: tuple[Dim, ...]
    written: tuple[tuple[BlankPart, View], ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a call that could not be said; what reads it is not reported again."""


Known: TypeAlias = (
    View
    | Fixed
    | Mask
    | Formula
    | Turning
    | TurnedCoordinate
    | Routed
    | Chosen
    | Blank
    | BlankPart
    | Lost
)
