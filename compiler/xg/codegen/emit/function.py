"""One operator as a small function of the generated module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xg.codegen.emit.body import BodyWriter
from xg.codegen.emit.free_saved import free_intermediates
from xg.codegen.emit.line_breaks import broken, wrapped
from xg.codegen.emit.names import Names, mentioned, spell_symbol
from xg.codegen.emit.spelling import Scope, Spelling
from xg.codegen.emit.text import WIDTH, Text
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import Body, has_unsafe_choice, topological
from xg.ir.op import Description, Op
from xg.ir.prim import RANDOM, Expr
from xg.ir.scalar import Scalar
from xg.ir.tensor import Sizes
from xg.ir.use import Attrs


@dataclass(frozen=True, slots=True)
class OperatorFunction:
    """The text of a function without its name, and the arguments that a call adds to the operands.

    `own` are the operator's numbers and words, by attribute; `sizes` are symbols; `dtype`, `device`
    and `random` say that it takes the float type, the device, and seed and place; `absent` are the
    places of operands that a use does not have; `cuts` say which part of a mask it is to draw. One
    that `turns` gives the transposed matrix of its operands in the other order.
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
    turns: bool = False
    decorator: str = ""

    def source(self, name: str) -> list[str]:
        """The function under a name."""
        above = [self.decorator] if self.decorator else []
        return [*above, f"def {name}{self.head}", *(f"    {line}".rstrip() for line in self.lines)]


def operator_function(
    op: Op, body: Body, attrs: Attrs, sizes: Sizes, spelling: Spelling, *, frees: bool = False
) -> OperatorFunction:
    """The function that computes a body; one that `frees` keeps no array that it has read."""
    dims = {dim for expr in topological((*body.operands, *body.outputs)) for dim in expr.shape}
    names = Names(spell_symbol(name) for dim in dims for name in sizes.computed(dim).symbols())
    operands = [names.fresh(str(expr.name)) for expr in body.operands]
    numbers = _numbers(body, attrs)
    own = {key: names.fresh(key) for key in numbers}
    scope = _scope(body, operands, sizes)
    scope.own = {id(scalar): own[key] for key, scalar in numbers.items()}
    writer = BodyWriter(spelling, scope, names)
    for name, expr in zip(operands, body.operands, strict=True):
        writer.texts[id(expr)] = Text(name)
    outputs = [_without_zeros(output) for output in body.outputs] if frees else body.outputs
    results = [result.text for result in writer.write(outputs)]
    written = [*writer.lines, f"return {', '.join(results)}"]
    used = mentioned([*writer.lines, *results])
    needs = _Needs(
        symbols=tuple(name for name in scope.needed if spell_symbol(name) in used),
        seed=spelling.seed if _is_random(body) else "",
        dtype=scope.typed and scope.dtype == "dtype",
        device=scope.placed and scope.device == "device",
    )
    arguments = [*_operands(body, operands), *(f"{name}: float" for name in own.values())]
    freed = free_intermediates(written) if frees else written
    lines = [line for long in freed[:-1] for line in broken(long)]
    return OperatorFunction(
        head=f"({', '.join([*arguments, *needs.arguments()])}) -> {_returns(body)}:",
        lines=(*_docstring(op.description(attrs)), *lines, written[-1]),
        own=tuple(numbers.values()),
        sizes=needs.symbols,
        dtype=needs.dtype,
        device=needs.device,
        random=bool(needs.seed),
        support=tuple(scope.support),
        results=len(results),
        decorator=spelling.quiet if has_unsafe_choice(body) else "",
    )


def _without_zeros(output: Expr) -> Expr:
    """A difference to what is 0 but at one index of each row, without making the zeros."""
    if output.prim != "sub":
        return output
    whole, placed = output.args
    if placed.prim != "place" or placed.name or whole.shape != placed.shape:
        return output
    return replace(output, prim="sub_at", args=(whole, *placed.args), attrs=())


@dataclass(frozen=True, slots=True)
class _Needs:
    """Arguments of a function behind operands and numbers; `seed` is the type of one, if any."""

    symbols: tuple[str, ...]
    seed: str
    dtype: bool
    device: bool

    def arguments(self) -> list[str]:
        sizes = [f"{spell_symbol(name)}: int" for name in self.symbols]
        seed = [f"seed: {self.seed}", "place: str"] if self.seed else []
        types = [*(["dtype: DType"] if self.dtype else []), *(["device: Device"] * self.device)]
        return [*sizes, *seed, *types]


def _scope(body: Body, operands: Sequence[str], sizes: Sizes) -> Scope:
    """The scope of a function, whose float type and device are those of its operands."""
    pairs = zip(operands, body.operands, strict=True)
    floats = [name for name, expr in pairs if expr.kind == "float"]
    return Scope(
        sizes,
        dtype=f"{floats[0]}.dtype" if floats else "dtype",
        device=f"{operands[0]}.device" if operands else "device",
    )


def _operands(body: Body, names: Sequence[str]) -> list[str]:
    optional = _optional(body)
    pairs = zip(names, body.operands, strict=True)
    return [f"{n}: Array | None" if expr in optional else f"{n}: Array" for n, expr in pairs]


def _is_random(body: Body) -> bool:
    return any(expr.prim in RANDOM for expr in body.order())


def _numbers(body: Body, attrs: Attrs) -> dict[str, Scalar]:
    """The operator's own numbers that the body mentions as they are given."""
    mentioned = {
        id(value) for expr in body.order() for _, value in expr.attrs if isinstance(value, Scalar)
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
        for expr in body.order()
        if expr.prim == "dropout_apply" and expr.args[1].prim == "operand"
    }


def _returns(body: Body) -> str:
    kinds = ["Array | None" if expr.prim == "dropout_keep" else "Array" for expr in body.outputs]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def _docstring(said: Description) -> list[str]:
    """The meaning and the formula, below it where a line has no room for both."""
    meaning = said.meaning[:1].upper() + said.meaning[1:]
    one = f'"""{meaning}: {said.formula}."""' if said.formula else f'"""{meaning}."""'
    if len(one) + 4 <= WIDTH:
        return [one]
    summary = wrapped(f'"""{meaning}.')
    return [*summary, *(["", *wrapped(f"{said.formula}.")] if said.formula else []), '"""']
