"""Write one operator as an expression, or as a small function of the generated module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from xg.codegen.emit.lifetimes import free_intermediates
from xg.codegen.emit.names import Names, mentioned_names, spell_symbol
from xg.codegen.emit.spelling import Scope, Spelling
from xg.codegen.emit.text import WIDTH, Precedence, Text, broken, wrap_text
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import LEAVES, Body, has_unsafe_choice, topological
from xg.ir.dim import Scalar
from xg.ir.functions import FUNCTIONS, STEPS, UNARY
from xg.ir.op import Description, Op
from xg.ir.prim import ARITHMETIC, RANDOM, Expr
from xg.ir.tensor import Sizes
from xg.ir.use import Attrs

# The body of one operator as text: one expression, or the lines of a small function.


BLENDING = ARITHMETIC | {"where", "contract", "concat"}  # they mix element types

# Primitives whose result is a plain number if all operands are.
PLAIN = (UNARY - STEPS) | {"const", "add", "sub", "mul", "div", "pow"}

LOCAL_NAMES: Mapping[str, str] = {
    "sum": "total",
    "mean": "average",
    "max": "peak",
    "gt": "positive",
    "maximum": "top",
    "contract": "product",
    "gather": "rows",
    "top": "chosen",
    "earlier": "place",
    "where": "kept",
    **{name: each.local for name, each in FUNCTIONS.items() if each.local},
}


def element_types(order: Iterable[Expr]) -> dict[int, bool | None]:
    """For each expression: whether its elements are not yet of the model's float type.

    True for integers and for results computed from them alone, None for plain numbers, which adapt
    to the other operand.
    """
    raw: dict[int, bool | None] = {}
    for expr in order:
        if expr.kind == "int" or expr.prim == "as_float":
            raw[id(expr)] = True
        elif expr.prim in ("operand", "draw") or expr.kind == "bool" or _is_constant_fill(expr):
            raw[id(expr)] = False
        else:
            parts = [raw[id(arg)] for arg in _float_arguments(expr)]
            known_parts = [part for part in parts if part is not None]
            neutral = None if expr.prim in PLAIN else True
            raw[id(expr)] = all(known_parts) if known_parts else neutral
    return raw


def _is_constant_fill(expr: Expr) -> bool:
    """Whether an expression is one number everywhere, made in the model's float type."""
    return expr.prim == "broadcast" and all(e.prim in PLAIN for e in topological(expr.args))


def _float_arguments(expr: Expr) -> Sequence[Expr]:
    if expr.prim in ("gather", "scatter_add", "pick", "place", "dropout_apply"):
        return expr.args[:1]
    return expr.args[1:] if expr.prim == "where" else expr.args


@dataclass(slots=True)
class BodyWriter:
    """Writes expressions, giving names to what is used twice, named by its author, or long."""

    spelling: Spelling
    scope: Scope
    names: Names
    texts: dict[int, Text] = field(default_factory=dict[int, Text])
    lines: list[str] = field(default_factory=list[str])
    indent: int = 4
    temporary: str = "part"

    def inline(self, body: Body, operands: Sequence[Text]) -> Text:
        """The one output of an inline body as a single expression."""
        for expr, text in zip(body.operands, operands, strict=True):
            self.texts[id(expr)] = text
        raw = element_types(body.order())
        for expr in _written(body.order(), body.outputs):
            if id(expr) not in self.texts:
                self.texts[id(expr)] = self._text(expr, raw)
        return self._result_text(body.outputs[0], raw)

    def write(self, outputs: Sequence[Expr]) -> list[Text]:
        """Lines that compute the outputs, and the texts of the outputs."""
        every = topological(outputs)
        raw, order = element_types(every), _written(every, outputs)
        uses = Counter(id(_skip_broadcast(arg, expr)) for expr in order for arg in expr.args)
        uses.update(id(expr) for expr in outputs)
        for expr in order:
            if id(expr) in self.texts:
                continue
            text = self._fit_text(expr, raw)
            last = len(outputs) == 1 and expr is outputs[0]
            local_name = expr.name or LOCAL_NAMES.get(expr.prim, self.temporary)
            if not last and (uses[id(expr)] > 1 or expr.name) and expr.prim not in LEAVES:
                if uses[id(expr)] > 1 and _has_casting_users(expr, order, outputs, raw):
                    text = self.spelling.cast(text, self.scope)
                text = self.assign(local_name, text)
            self.texts[id(expr)] = text
        return [self._result_text(expr, raw) for expr in outputs]

    def _result_text(self, expr: Expr, raw: Mapping[int, bool | None]) -> Text:
        text = self.texts[id(expr)]
        if expr.kind == "float" and raw[id(expr)] is not False:
            return self.spelling.cast(text, self.scope)
        return text

    def assign(self, wanted: str, text: Text) -> Text:
        """A line that gives a text a name; the name as text."""
        name = self.names.fresh(wanted)
        self.lines.append(f"{name} = {text.text}")
        return Text(name)

    def _fit_text(self, expr: Expr, raw: Mapping[int, bool | None]) -> Text:
        """The text of an expression, its longest argument taken out until it fits a line."""
        text = self._text(expr, raw)
        while len(text.text) > WIDTH - self.indent - 16:
            args = [_skip_broadcast(arg, expr) for arg in expr.args]
            compound = [arg for arg in args if self.texts[id(arg)].binding != Precedence.ATOM]
            compound = compound or [arg for arg in args if len(self.texts[id(arg)].text) > 24]
            if not compound:
                break
            longest = max(compound, key=lambda arg: len(self.texts[id(arg)].text))
            local_name = longest.name or LOCAL_NAMES.get(longest.prim, self.temporary)
            self.texts[id(longest)] = self.assign(local_name, self.texts[id(longest)])
            text = self._text(expr, raw)
        return text

    def _text(self, expr: Expr, raw: Mapping[int, bool | None]) -> Text:
        args: list[Text] = []
        for arg in expr.args:
            source = _skip_broadcast(arg, expr)
            text = self.texts[id(source)]
            if expr.prim in BLENDING and raw[id(arg)] and not raw[id(expr)]:
                text = self.spelling.cast(text, self.scope)
            args.append(text)
        return self.spelling.primitive(expr, args, self.scope)


def _has_casting_users(
    expr: Expr, order: Sequence[Expr], outputs: Sequence[Expr], raw: dict[int, bool | None]
) -> bool:
    """Whether all that read an expression would convert it; if so, it counts as converted."""
    pairs = [
        (arg, user) for user in order for arg in user.args if _skip_broadcast(arg, user) is expr
    ]
    if not raw[id(expr)] or any(expr is output for output in outputs):
        return False
    if not all(user.prim in BLENDING and raw[id(a)] and not raw[id(user)] for a, user in pairs):
        return False
    raw.update({id(arg): False for arg, _ in pairs})
    return True


def _written(order: Sequence[Expr], outputs: Sequence[Expr]) -> list[Expr]:
    """The expressions that are written, arguments first: not those broadcasts."""
    needed_ids = {id(expr) for expr in outputs}
    for expr in reversed(order):
        if id(expr) in needed_ids:
            needed_ids.update(id(_skip_broadcast(arg, expr)) for arg in expr.args)
    return [expr for expr in order if id(expr) in needed_ids]


def _skip_broadcast(arg: Expr, user: Expr) -> Expr:
    """Elementwise users repeat by themselves: the broadcast of an argument need not be made."""
    if arg.prim != "broadcast" or user.prim not in ARITHMETIC:
        return arg
    arrays = (other for other in user.args if other.prim not in ("broadcast", "const"))
    whole = any(other.shape == user.shape for other in arrays)  # plain numbers don't count
    return arg.args[0] if whole else arg


def repeats(body: Body, operand: Expr) -> bool:
    """Whether all that is done to an operand repeats it by itself; a rank's part is cut before."""
    users = [e for e in body.order() if any(arg is operand for arg in e.args)]
    return all(user.prim in ARITHMETIC for user in users)


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
    op: Op,
    body: Body,
    attrs: Attrs,
    sizes: Sizes,
    spelling: Spelling,
    *,
    frees: bool = False,
    wide: bool = False,
) -> OperatorFunction:
    """The function that computes a body; one that `frees` keeps no array that it has read.

    A `wide` one computes half types in float32, as every one does that adds.
    """
    dims = {dim for expr in topological((*body.operands, *body.outputs)) for dim in expr.shape}
    names = Names(spell_symbol(name) for dim in dims for name in sizes.fold_exactly(dim).symbols())
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
    used = mentioned_names([*writer.lines, *results])
    needs = _Needs(
        symbols=tuple(name for name in scope.needed if spell_symbol(name) in used),
        seed=spelling.seed if _is_random(body) else "",
        dtype=scope.typed and scope.dtype == "dtype",
        device=scope.placed and scope.device == "device",
    )
    decorator = spelling.quiet if has_unsafe_choice(body) else ""
    if spelling.wide and (wide or accumulates(body) or rounds_a_size(body, spelling)):
        rounded = "" if op.is_adjoint else len(results) - len(body.caches)
        decorator = f"@{scope.use(spelling.wide)}({rounded})"
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
        decorator=decorator,
    )


def accumulates(body: Body) -> bool:
    """Whether a body sums floats, which may exceed 65,504, the largest float16."""
    return any(
        expr.kind == "float" and expr.prim in ("sum", "mean", "cumsum") for expr in body.order()
    )


def rounds_a_size(body: Body, spelling: Spelling) -> bool:
    """Whether a body divides floats by a size that the library would make a float16 of."""
    return spelling.rounds_sizes and any(
        expr.prim == "div" and expr.kind == "float" and _is_size(expr.args[1])
        for expr in body.order()
    )


def _is_size(expr: Expr) -> bool:
    return expr.prim == "const" and bool(expr.typed_attr("value", Scalar).symbols())


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
    """The arguments of a function after its operands and numbers; `seed` is a type, or empty."""

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
    """Return the scope of a function, which takes float type and device from its operands."""
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
    """The meaning and the formula; the formula alone where a line has no room for both."""
    meaning = said.meaning[:1].upper() + said.meaning[1:]
    one = f'"""{meaning}: {said.formula}."""' if said.formula else f'"""{meaning}."""'
    if len(one) + 4 <= WIDTH:
        return [one]
    alone = f'"""{said.formula}."""'
    if said.formula and len(alone) + 4 <= WIDTH:
        return [alone]
    summary = wrap_text(f'"""{meaning}.')
    return [*summary, *(["", *wrap_text(f"{said.formula}.")] if said.formula else []), '"""']
