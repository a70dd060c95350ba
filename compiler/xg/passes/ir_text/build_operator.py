"""From the lines below a step to the operator that it applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lark import Token

from xg.ir.body import Body
from xg.ir.op import Family, Op
from xg.ir.prim import Attr, Expr, operand
from xg.ir.prim import Kind as ExprKind
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import Data, Tensor
from xg.passes.ir_text.attributes import attribute
from xg.passes.ir_text.errors import Meaningless
from xg.passes.ir_text.expression import as_dim
from xg.passes.ir_text.records import Definition, Names, PrimitiveText
from xg.passes.ir_text.value_names import bare


def defined(text: Definition, glyph: str, types: Sequence[TensorType], sizes: Sizes) -> Op:
    """The operator of a definition, used on operands of these types."""
    names = (*text.data, *text.own)
    if len(names) != len(types):
        line = (*names, *text.results)[0].line
        raise Meaningless(f"expected {len(types)} operands of {glyph}, not {len(names)}", line)
    operands = tuple(
        operand(bare(name) or "", type_.shape, "float" if type_.is_float else "int")
        for name, type_ in zip(names, types, strict=True)
    )
    exprs = dict(zip(map(str, names), operands, strict=True))
    for line in text.lines:
        exprs[str(line.value.name)] = _primitive(line, exprs, sizes)
    results = _all(text.results, exprs) + _all(text.caches, exprs)
    return _operator(text, glyph, operands, results)


def _operator(
    text: Definition, glyph: str, operands: tuple[Expr, ...], results: tuple[Expr, ...]
) -> Op:
    body = Body(operands, results, tuple(bare(name) or "" for name in text.caches))

    def forward(*given: Expr | None, **_: object) -> object:
        return body.on([expr for expr in given if expr is not None])

    return Op(
        glyph=glyph,
        name=text.name,
        family=cast("Family", text.family),
        forward=forward,
        data=tuple(Data(str(bare(name)), "any") for name in text.data),
        own=tuple(Tensor(str(bare(name))) for name in text.own),
        outputs=tuple(map(str, text.outputs)),
        local="local" in text.flags,
        derived="derived" in text.flags,
        keeps_shape="keeps_shape" in text.flags,
    )


def _primitive(text: PrimitiveText, exprs: dict[str, Expr], sizes: Sizes) -> Expr:
    value = text.value
    if value.type is None:
        raise Meaningless(f"{value.name} has no shape", value.name.line)
    return Expr(
        prim=str(text.prim),
        args=_all(text.args, exprs),
        shape=tuple(as_dim(dim, sizes) for dim in value.type.shape),
        kind=cast("ExprKind", value.role or "float"),
        attrs=tuple((key, cast("Attr", attribute(v, sizes))) for key, v in text.attrs.items()),
        name=bare(value.name),
    )


def _all(names: Names, exprs: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(_known(name, exprs) for name in names)


def _known(name: Token, exprs: dict[str, Expr]) -> Expr:
    if str(name) not in exprs:
        raise Meaningless(f"no line before makes {name}", name.line)
    return exprs[str(name)]
