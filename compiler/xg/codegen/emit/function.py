"""One operator as a small function of the generated module."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from xg.codegen.emit.body import BodyWriter
from xg.codegen.emit.names import Names, mentioned, spell_symbol
from xg.codegen.emit.spelling import Scope, Spelling
from xg.codegen.emit.text import WIDTH, Text
from xg.ir.body import Body, topological
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.scalar import Scalar
from xg.ir.tensor import Sizes
from xg.ir.use import Attrs


@dataclass(frozen=True, slots=True)
class OperatorFunction:
    """The text of a function without its name, and the arguments that a call adds to the operands.

    `own` are the operator's numbers and words, by attribute; `sizes` are symbols; `dtype`, `device`
    and `random` say that it takes the float type, the device, and seed and place; `absent` are the
    places of operands that a use does not have; `cuts` say which part of a mask it is to draw.
    """

    head: str
    lines: tuple[str, ...]
    own: tuple[Scalar | str, ...]
    sizes: tuple[str, ...]
    dtype: bool
    device: bool
    random: bool
    support: tuple[str, ...]
    results: int
    absent: tuple[int, ...] = ()
    cuts: str = ""

    def source(self, name: str) -> list[str]:
        """The function under a name."""
        return [f"def {name}{self.head}", *(f"    {line}".rstrip() for line in self.lines)]


def operator_function(
    op: Op, body: Body, attrs: Attrs, sizes: Sizes, spelling: Spelling
) -> OperatorFunction:
    """The function that computes a body."""
    dims = {dim for expr in topological((*body.operands, *body.outputs)) for dim in expr.shape}
    names = Names(spell_symbol(name) for dim in dims for name in sizes.fold(dim).symbols())
    operands = [names.fresh(str(expr.name)) for expr in body.operands]
    floats = [n for n, e in zip(operands, body.operands, strict=True) if e.kind == "float"]
    numbers = _numbers(body, attrs)
    own = {key: names.fresh(key) for key in numbers}
    scope = Scope(
        sizes,
        dtype=f"{floats[0]}.dtype" if floats else "dtype",
        device=f"{operands[0]}.device" if operands else "device",
    )
    scope.own = {id(scalar): own[key] for key, scalar in numbers.items()}
    writer = BodyWriter(spelling, scope, names)
    for name, expr in zip(operands, body.operands, strict=True):
        writer.texts[id(expr)] = Text(name)
    results = writer.write(body.outputs)
    code = [*writer.lines, *(result.text for result in results)]
    symbols = tuple(name for name in scope.needed if spell_symbol(name) in mentioned(code))
    random = any(expr.prim == "dropout_keep" for expr in topological(body.outputs))
    dtype, device = scope.typed and not floats, scope.placed and not operands
    given = _operands(body, operands) + [f"{name}: float" for name in own.values()]
    given += [f"{spell_symbol(name)}: int" for name in symbols]
    given += [f"seed: {spelling.seed}", "place: str"] if random else []
    given += ["dtype: DType"] if dtype else []
    given += ["device: Device"] if device else []
    returned = [result.text for result in results]
    return OperatorFunction(
        head=f"({', '.join(given)}) -> {_returns(body)}:",
        lines=(
            *_docstring(op),
            *writer.lines,
            "return " + (returned[0] if len(returned) == 1 else ", ".join(returned)),
        ),
        own=tuple(numbers.values()),
        sizes=symbols,
        dtype=dtype,
        device=device,
        random=random,
        support=tuple(scope.support),
        results=len(results),
    )


def _operands(body: Body, names: list[str]) -> list[str]:
    """The operands as parameters of the function."""
    optional = _optional(body)
    return [
        f"{name}: Array | None" if expr in optional else f"{name}: Array"
        for name, expr in zip(names, body.operands, strict=True)
    ]


def _numbers(body: Body, attrs: Attrs) -> dict[str, Scalar]:
    """The operator's own numbers that the body mentions as they are given."""
    mentioned = {
        id(value)
        for expr in topological(body.outputs)
        for _, value in expr.attrs
        if isinstance(value, Scalar)
    }
    return {
        key: value
        for key, value in attrs.items()
        if isinstance(value, Scalar) and id(value) in mentioned
    }


def _optional(body: Body) -> set[Expr]:
    """Operands that may be None: dropout's mask, when dropout is off."""
    return {
        expr.args[1]
        for expr in topological(body.outputs)
        if expr.prim == "dropout_apply" and expr.args[1].prim == "operand"
    }


def _returns(body: Body) -> str:
    kinds = ["Array | None" if expr.prim == "dropout_keep" else "Array" for expr in body.outputs]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def _docstring(op: Op) -> list[str]:
    """The meaning and, where there is room, the formula; wrapped, never cut."""
    text = op.meaning[:1].upper() + op.meaning[1:]
    if op.formula:
        text += f": {op.formula}"
    if len(text) <= WIDTH - 11:
        return [f'"""{text}."""']
    summary, *rest = wrap(text, WIDTH - 7)
    return [f'"""{summary}', *rest[:-1], f"{rest[-1]}.", '"""'] if rest else [f'"""{summary}."""']
