"""Trees of the parts of statements: names, numbers, paths, expressions, shapes."""

from __future__ import annotations

from typing import Literal, TypeAlias

from xg.syntax.tree import Syntax, syntax


@syntax
class Name(Syntax):
    """`W_Q`, `γ_1`, `•`: a name in ASCII spelling (`gamma_1`), a sign as its glyph."""

    name: str


@syntax
class Text(Syntax):
    """`"Multi-Head Attention"`: a title, a reason, a file's path, without the quotes."""

    value: str


# ---- expressions: sizes, arguments, bodies of operators, numbers of documents --------------------


@syntax
class Number(Syntax):
    """`64`, `0.10`, `1e-5`: an int if without point and exponent; `digits` as written."""

    value: int | float
    digits: str


@syntax
class Path(Syntax):
    """`W_Q`, `bert.E`, `layers.3.attn.W_Q`: a name, or a way through named calls.

    In a plan a segment may be `*`.
    """

    segments: tuple[Name, ...]

    @property
    def name(self) -> str:
        """The segments with dots between them, in ASCII spelling."""
        return ".".join(segment.name for segment in self.segments)


@syntax
class Wildcard(Syntax):
    """`_`: any dim. Only in the shapes of plans."""


@syntax
class Argument(Syntax):
    """`p`, `eps=1e-12`: one argument, in order when `name` is None."""

    name: Name | None
    value: Expr


@syntax
class Call(Syntax):
    """`T(E)`, `sinusoid(S, D)`, `mean[D](x^2)`, `BC[B, S](b)`: an operator before its operands."""

    operator: Name
    axes: AxisMap | None
    arguments: tuple[Argument, ...]


@syntax
class Array(Syntax):
    """`[[1, 0], [0, 1]]`: numbers of a document."""

    items: tuple[Expr, ...]


@syntax
class Operation(Syntax):
    """`+ b`, `/ c`: one sign and its right operand inside an `Arithmetic`."""

    sign: Literal["+", "-", "*", "/"]
    operand: Expr


@syntax
class Arithmetic(Syntax):
    """`a + b - c` or `a * b / c`: operands of one precedence, applied from left to right.

    Flat, so that a sum of a thousand terms is not a thousand levels deep.
    """

    first: Expr
    rest: tuple[Operation, ...]


@syntax
class Negation(Syntax):
    """`-x`."""

    operand: Expr


@syntax
class Power(Syntax):
    """`P^2`."""

    base: Expr
    exponent: Expr


@syntax
class Comparison(Syntax):
    """`x > 0`, `x >= 0`."""

    sign: Literal[">", ">="]
    left: Expr
    right: Expr


Expr: TypeAlias = (
    Number | Path | Wildcard | Call | Array | Arithmetic | Negation | Power | Comparison
)


# ---- shapes and axes -----------------------------------------------------------------------------


@syntax
class Rest(Syntax):
    """`..`: any number of axes."""


@syntax
class Shape(Syntax):
    """`[B, S, D/N_T]`, `[.., D]`, `[]` (a scalar)."""

    dims: tuple[Expr | Rest, ...]


@syntax
class Axis(Syntax):
    """`b`, `g=N_H/N_KV`: an axis in brackets behind an operator, with its size where it is new."""

    name: Name
    size: Expr | None


@syntax
class UnitAxis(Syntax):
    """`1`: an axis of size 1."""


@syntax
class PlaceAxis(Syntax):
    """`-2`: an axis of the operand counted from the end, as -1 is the last one."""

    place: int


@syntax
class AxisGroup(Syntax):
    """`(h, p=P)`: axes that are one axis of the tensor."""

    axes: tuple[Axis | UnitAxis | PlaceAxis | Rest, ...]


AxisItem: TypeAlias = Axis | UnitAxis | PlaceAxis | Rest | AxisGroup


@syntax
class AxisMap(Syntax):
    """`[b, (h, d) -> b, h, d]`; a plain list such as `[B, S]` has no `target`."""

    source: tuple[AxisItem, ...]
    target: tuple[AxisItem, ...] | None


# ---- declared names ------------------------------------------------------------------------------
# A name without shape and value has taken shape, range and value from the next one:
# `W_Q, W_K [D, D]` declares two names with [D, D].
