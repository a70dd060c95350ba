"""One use of an operator, as a test writes it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xg.ir.dim import Dim, as_scalar, symbol
from xg.ir.op import Op
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.ir.use import Attrs, Axis, AxisMap, Length, MeshAxis, Number, Tensor, Use, Word

SIZES: Mapping[str, int] = {
    "B": 2, "S": 3, "S_k": 5, "D": 7, "N_H": 2, "D_h": 6, "V": 11, "S_max": 13, "T": 4,
    "A_1": 2, "A_2": 3, "A_3": 2, "A_4": 2,
}  # fmt: skip
B, S, S_k, D, N_H, D_h, V, S_max, T = map(
    symbol, ("B", "S", "S_k", "D", "N_H", "D_h", "V", "S_max", "T")
)
LEADING = tuple(map(symbol, ("A_1", "A_2", "A_3", "A_4")))


def floats(*shape: Dim) -> TensorType:
    return TensorType(shape)


def ints(*shape: Dim, below: Dim) -> TensorType:
    return TensorType(shape, below)


@dataclass(frozen=True)
class Sample:
    """Operands by name (an absent one is left out), own arguments, brackets and labels.

    `leading` are the operands that more axes in front may be given to; `fixed` sizes cannot be 1.
    `unit` are operands between 0 and 1; `flat` are operands whose gradient may be zero.
    """

    operands: Mapping[str, TensorType] = field(default_factory=dict[str, TensorType])
    own: Mapping[str, float | str | Dim] = field(default_factory=dict[str, "float | str | Dim"])
    axes: AxisMap | None = None
    targets: tuple[Shape | None, ...] = (None,)
    peer: Shape | None = None
    leading: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    unit: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple(self.operands.values())

    def symbols(self) -> tuple[str, ...]:
        found = {name for t in self.types for dim in t.shape for name in dim.symbols()}
        return tuple(sorted(found - set(self.fixed)))

    def deeper(self, count: int) -> Sample:
        """The same use with `count` more axes in front."""
        more = LEADING[:count]
        operands = {
            name: replace(t, shape=(*more, *t.shape)) if name in self.leading else t
            for name, t in self.operands.items()
        }
        targets = tuple(None if t is None else (*more, *t) for t in self.targets)
        return replace(self, operands=operands, targets=targets)


def axes(text: str) -> AxisMap:
    """``B, S`` or ``b, (n, d=D_h) -> b, n, d``, as the parser would read it."""
    source, arrow, target = text.partition("->")
    return AxisMap(_side(source), _side(target) if arrow else None)


def _side(text: str) -> tuple[tuple[Axis, ...], ...]:
    groups: list[tuple[Axis, ...]] = []
    inside = False
    for word in text.replace("(", " ( ").replace(")", " ) ").replace(",", " ").split():
        if word in "()":
            inside = word == "("
            if inside:
                groups.append(())
        elif inside:
            groups[-1] = (*groups[-1], _axis(word))
        else:
            groups.append((_axis(word),))
    return tuple(groups)


def _axis(word: str) -> Axis:
    name, _, size = word.partition("=")
    return Axis("" if name == "1" else name, symbol(size) if size else None)


def settle(op: Op, sample: Sample) -> Attrs:
    """The attributes of a use, as resolving and inferring make them."""
    own: dict[str, Any] = {
        arg.name: _own(arg, sample) for arg in op.own if not isinstance(arg, Tensor)
    }
    if op.variadic:
        own["count"] = len(sample.operands)
    else:
        named = [*op.data, *(arg for arg in op.own if isinstance(arg, Tensor))]
        own["absent"] = tuple(arg.name for arg in named if arg.name not in sample.operands)
    numbers = [arg.name for arg in op.own if isinstance(arg, Number)]
    if op.limits and (misuse := op.limits({name: own[name].evaluate({}) for name in numbers})):
        raise misuse
    use = Use(sample.types, own, sample.axes, sample.targets, sample.peer, Sizes())
    configured = op.configure(use) if op.configure else own
    return {**configured, **{key: own[key] for key in ("absent",) if key in own}}


def _own(arg: Number | Word | Length | MeshAxis, sample: Sample) -> object:
    given = sample.own.get(arg.name)
    match arg:
        case Word():
            return given or arg.choices[0]
        case Number() if given is None and arg.default is not None:
            return as_scalar(arg.default)
        case Number() if isinstance(given, int | float):
            return as_scalar(given)
        case _:
            return given
