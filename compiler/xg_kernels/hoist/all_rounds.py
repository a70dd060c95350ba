"""The computation of one round of a loop, for all rounds at once: one axis more, in front."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import Body
from xg.ir.dim import ONE, Dim
from xg.ir.op import Op
from xg.ir.prim import COMPARE, RANDOM, Expr, batch_of, broadcast, operand, reshape
from xg.ir.use import Data

ELEMENTWISE = COMPARE | frozenset(
    {"neg", "exp", "log", "sqrt", "tanh", "erf", "stop", "sin", "cos", "pow", "as_float", "where"}
    | {"add", "sub", "mul", "div", "maximum", "minimum"}
)
FROM_THE_END = frozenset({"sum", "mean", "max", "cut", "pad"})


class NotForAllRounds(Exception):
    """A step has no form for all rounds at once."""


def for_all_rounds(op: Op, body: Body, apart: Container[int], length: Dim) -> Op:
    """An operator that computes a body for all rounds.

    The operands with numbers in `apart` have the axis of rounds in front, the others all rounds
    share; outputs have it. Raises NotForAllRounds.
    """
    operands = [
        operand(str(expr.name), (length, *expr.shape) if n in apart else expr.shape, expr.kind)
        for n, expr in enumerate(body.operands)
    ]
    made = {id(old): new for old, new in zip(body.operands, operands, strict=True)}
    taken = {id(expr) for n, expr in enumerate(body.operands) if n in apart}
    for expr in body.order():
        if id(expr) in made:
            continue
        if expr.prim in RANDOM:  # each round draws numbers of its own
            raise NotForAllRounds
        args = [made[id(arg)] for arg in expr.args]
        lies = [id(arg) in taken for arg in expr.args]
        made[id(expr)] = _round_by_round(expr, args, lies, length) if any(lies) else expr
        if any(lies):
            taken.add(id(expr))
        elif expr.args:
            made[id(expr)] = replace(expr, args=tuple(args))
    outputs = [
        made[id(out)] if id(out) in taken else broadcast(made[id(out)], (length, *out.shape))
        for out in body.outputs
    ]
    return _computing(op, Body(tuple(operands), tuple(outputs)))


def _computing(op: Op, whole: Body) -> Op:
    """An operator with another body; its gradient is derived from that."""

    def forward(*operands: Expr) -> list[Expr]:
        found = whole.on(operands)
        assert isinstance(found, list)
        return found

    return Op(
        glyph=op.glyph,
        name=op.name,
        family=op.family,
        forward=forward,
        data=tuple(
            Data(str(e.name), "int" if e.kind != "float" else "any") for e in whole.operands
        ),
        outputs=op.output_names(len(whole.outputs)),  # which no operand has
        meaning=op.meaning,
        formula=op.formula,
        gradient=op.gradient,
        source=op.source,
    )


def _round_by_round(expr: Expr, args: list[Expr], lies: Sequence[bool], length: Dim) -> Expr:
    """An expression of which some arguments have the axis of rounds."""
    shape = (length, *expr.shape)
    if expr.prim in ELEMENTWISE:
        args = [_of_rank(a, expr.rank) if lie else a for a, lie in zip(args, lies, strict=True)]
        return replace(expr, args=tuple(args), shape=shape)
    if expr.prim == "reshape":
        return reshape(args[0], shape)
    if expr.prim == "broadcast":
        return broadcast(_of_rank(args[0], expr.rank), shape)
    if expr.prim == "transpose":
        order = (0, *(axis % expr.rank + 1 for axis in expr.axes("order")))
        return replace(expr, args=tuple(args), shape=shape, attrs=(("order", order),))
    if expr.prim == "contract":
        spec = _with_rounds(str(expr.attr("spec")), lies)
        return replace(expr, args=tuple(args), shape=shape, attrs=(("spec", spec),))
    if expr.prim == "concat":
        whole = [
            arg if lie else broadcast(reshape(arg, (ONE, *arg.shape)), (length, *arg.shape))
            for arg, lie in zip(args, lies, strict=True)
        ]
        return replace(expr, args=tuple(whole), shape=shape)
    if expr.prim == "gather" and list(lies) == [False, True] and not batch_of(expr):
        return replace(expr, args=tuple(args), shape=shape)
    if expr.prim in FROM_THE_END and _counted_from_the_end(expr):
        return replace(expr, args=tuple(args), shape=shape)
    raise NotForAllRounds


def _of_rank(arg: Expr, rank: int) -> Expr:
    """All rounds of an operand of fewer axes, with axes of size 1 behind that of the rounds."""
    return reshape(arg, (arg.shape[0], *(ONE,) * (rank + 1 - arg.rank), *arg.shape[1:]))


def _with_rounds(spec: str, lies: Sequence[bool]) -> str:
    """A product with one letter more, in front of what has the axis."""
    inputs, out = spec.split("->")
    new = next(letter for letter in "zyxwvutsrqp" if letter not in spec)
    sides = [new + s if lie else s for s, lie in zip(inputs.split(","), lies, strict=True)]
    return f"{','.join(sides)}->{new}{out}"


def _counted_from_the_end(expr: Expr) -> bool:
    given = dict(expr.attrs)
    axes = given["axes"] if "axes" in given else (given["axis"],)
    assert isinstance(axes, tuple)
    return all(isinstance(axis, int) and axis < 0 for axis in axes)
