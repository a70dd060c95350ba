"""NumPy's computation of the aten calls that a size-only part of a model may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from xg_torch.importing.archive import DTYPES, Array
from xg_torch.importing.exported import DType

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
    mode = args.get("rounding_mode")
    return np.floor_divide(args["self"], args["other"]) if mode else args["self"] / args["other"]


# Of the operands `self` and `other`, or of `self`: NumPy calls them the same.
BINARY: Final = (
    *("floor_divide", "remainder", "minimum", "maximum", "matmul"),
    *("logical_and", "logical_or", "bitwise_and", "bitwise_or"),
)
UNARY: Final = ("logical_not", "abs", "exp", "log", "sin", "cos", "sqrt")

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
