"""Matrix product of the last two axes (seed 001, 4.3.1: node •, dX = dY W⊤, dW = X⊤ dY)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, contract
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Misuse, Use

LETTERS: Final = "abcdefgh"


def configure(use: Use) -> Attrs:
    """Index letters: ``abik,kj->abij``; the second's leading axes are the first's last."""
    first, second = (type_.shape for type_ in use.types)
    for place, shape in enumerate((first, second)):
        if len(shape) < 2:
            own = "op f(x [.., D], w [D]) = sum[D](x * w)", "op f(x [D], w [D, E]) = sum[D](x * w)"
            raise Misuse(
                "matmul needs two axes on both sides",
                {place: f"{use.spell(shape)} has {len(shape)}"},
                (f"for sums of products over other axes, define `{own[not place]}`",),
            )
    if first[-1] != second[-2]:
        left, right = use.sizes.fold(first[-1]), use.sizes.fold(second[-2])
        raise Misuse(
            f"matmul contracts {left} with {right}",
            {
                0: f"first operand {use.spell(first)} ends in {left}",
                1: f"second operand {use.spell(second)} has {right} where {left} is needed",
            },
            _help(use, first, second),
        )
    batch = len(second) - 2
    if first[len(first) - 2 - batch : -2] != second[:-2]:
        raise Misuse(
            f"matmul cannot line up {use.spell(first)} with {use.spell(second)}",
            {1: "its leading axes must equal the last leading axes of the first, or be absent"},
            (_line_up_help(use, first, second),),
        )
    leading = LETTERS[: len(first) - 2]
    shared = leading[len(leading) - batch :]
    return {"spec": f"{leading}ik,{shared}kj->{leading}ij"}


def _line_up_help(use: Use, first: Shape, second: Shape) -> str:
    if first == second[:-1]:
        own = "op f(p [.., M], c [.., M, D]) = sum[M](p * c)"
        return f"a row for each matrix is an operator of yours: `{own}`"
    missing = len(second) - len(first)
    if missing > 0 and second[missing:-2] == first[:-2]:
        axes = use.spell(second[:missing])
        return f"repeat the first operand along the axes that it lacks: write `-> BC{axes} -> •<=…`"
    rest = iter(first[:-2])
    if not all(dim in rest for dim in second[:-2]):
        there = use.spell(first[-len(second) : -2])
        return f"before its last two axes it has to have {there}, as the first operand has"
    return "repeat the operand with BC, so that the new axis is seen in the figure"


def _help(use: Use, first: Shape, second: Shape) -> tuple[str, ...]:
    batch = second[:-2]
    lines_up = not batch or first[-2 - len(batch) : -2] == batch
    if (
        not lines_up
        and second[-1] == first[-2]
        and first[:-2] == second[:-2][len(second) - len(first) :]
    ):
        return ("swap them: the larger one goes first, … -> •<=…",)
    if first[-1] == second[-1]:
        return ("the second operand fits transposed: <=T(…)",)
    if second[-1] == first[-2] and len(first) == 2:
        return ("they fit turned round: the second one goes on, … -> •<=…",)
    if len(second) > len(first) and second[0] == first[-1]:
        axes = use.spell(second)
        rest = use.spell(second[:1])
        own = f"op f(x [.., {rest[1:-1]}], w {axes}) = sum{rest}(x * w)"
        return (f"for sums of products over other axes, define `{own}`",)
    taken = f"it has to be {use.spell((*second[:-2], first[-1], second[-1]))}"
    if first[-2] == second[-2] and len(second) == 2:
        return (f"along {use.axis(first, -2)}: `-> T -> •<=… -> T`; along the last axis {taken}",)
    return (taken,)


def forward(a: Expr, b: Expr, *, spec: str) -> Expr:
    """``a [.., i, k] • b [.., k, j]`` is ``[.., i, j]``."""
    return contract(a, b, spec)


def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
    """Return two products as gradients; a shared second operand sums over the leading axes."""
    inputs, out = str(attrs["spec"]).split("->")
    a, b = inputs.split(",")
    return {
        "a": Term("•", ("d", "b"), {"spec": f"{out},{b}->{a}"}),
        "b": Term("•", ("a", "d"), {"spec": f"{a},{out}->{b}"}),
    }


CONVENTIONS: Final = (
    Convention("empty axis", "a product over an empty axis is 0", "a -> •<=b",
        {"a [B, D]": ((), ()), "b [D, 2]": ()}, ((0.0, 0.0), (0.0, 0.0)), {"a": ((), ())}, "a @ b",
        "y [B, 2]"),
    Convention("half type", "products are added in float32, and rounded once", "a -> •<=b",
        {"a [B, D]": ((1.0,) * 4096,), "b [D, N]": ((1.0,),) * 4096}, ((4096.0,),),
        {"a": ((1.0,) * 4096,), "b": ((1.0,),) * 4096}, "a @ b", "y [B, N]", dtype="bfloat16"),
    Convention("half type", "the gradient of weights adds over the batch in float32", "a -> •<=b",
        {"a [B, D]": ((1.0,),) * 4096, "b [D, N]": ((1.0,),)}, ((1.0,),) * 4096,
        {"a": ((1.0,),) * 4096, "b": ((4096.0,),)}, "a @ b", "y [B, N]", dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="•",
    name="matmul",
    family="matmul",
    data=(Data("a"), Data("b")),
    forward=forward,
    configure=configure,
    pullback=pullback,
    conventions=CONVENTIONS,
    meaning="matrix product; the double arrow brings the second operand",
    formula="Y = A B",
    gradient="dA = dY B⊤, dB = A⊤ dY",
    source="seed 001, 4.3.1",
)
