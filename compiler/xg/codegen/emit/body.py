"""The body of one operator as text: one expression, or the lines of a small function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from xg.codegen.emit.names import Names
from xg.codegen.emit.spelling import Scope, Spelling
from xg.codegen.emit.text import WIDTH, Precedence, Text
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import LEAVES, Body, topological
from xg.ir.prim import ARITHMETIC, UNARY, Expr

BLENDING = ARITHMETIC | {"where", "contract", "concat"}  # they mix element types

PLAIN = UNARY | {"const", "add", "sub", "mul", "div", "pow"}  # of plain numbers they make another

LOCAL_NAMES: Mapping[str, str] = {
    "sum": "total",
    "mean": "average",
    "max": "peak",
    "exp": "e",
    "gt": "positive",
    "maximum": "top",
    "contract": "product",
    "gather": "rows",
    "top": "chosen",
    "earlier": "place",
    "where": "kept",
    "tanh": "t",
    "sqrt": "root",
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
        elif expr.prim in ("operand", "draw") or expr.kind == "bool" or _is_filled(expr):
            raw[id(expr)] = False
        else:
            parts = [raw[id(arg)] for arg in _float_arguments(expr)]
            known_parts = [part for part in parts if part is not None]
            neutral = None if expr.prim in PLAIN else True
            raw[id(expr)] = all(known_parts) if known_parts else neutral
    return raw


def _is_filled(expr: Expr) -> bool:
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
        return self._finished(body.outputs[0], raw)

    def write(self, outputs: Sequence[Expr]) -> list[Text]:
        """Lines that compute the outputs, and the texts of the outputs."""
        every = topological(outputs)
        raw, order = element_types(every), _written(every, outputs)
        uses = Counter(id(_unrepeated(arg, expr)) for expr in order for arg in expr.args)
        uses.update(id(expr) for expr in outputs)
        for expr in order:
            if id(expr) in self.texts:
                continue
            text = self._fitted(expr, raw)
            last = len(outputs) == 1 and expr is outputs[0]
            local_name = expr.name or LOCAL_NAMES.get(expr.prim, self.temporary)
            if not last and (uses[id(expr)] > 1 or expr.name) and expr.prim not in LEAVES:
                if uses[id(expr)] > 1 and _is_cast_by_all(expr, order, outputs, raw):
                    text = self.spelling.cast(text, self.scope)
                text = self.assign(local_name, text)
            self.texts[id(expr)] = text
        return [self._finished(expr, raw) for expr in outputs]

    def _finished(self, expr: Expr, raw: Mapping[int, bool | None]) -> Text:
        text = self.texts[id(expr)]
        if expr.kind == "float" and raw[id(expr)] is not False:
            return self.spelling.cast(text, self.scope)
        return text

    def assign(self, wanted: str, text: Text) -> Text:
        """A line that gives a text a name; the name as text."""
        name = self.names.fresh(wanted)
        self.lines.append(f"{name} = {text.text}")
        return Text(name)

    def _fitted(self, expr: Expr, raw: Mapping[int, bool | None]) -> Text:
        """The text of an expression, its longest argument taken out until it fits a line."""
        text = self._text(expr, raw)
        while len(text.text) > WIDTH - self.indent - 16:
            args = [_unrepeated(arg, expr) for arg in expr.args]
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
            source = _unrepeated(arg, expr)
            text = self.texts[id(source)]
            if expr.prim in BLENDING and raw[id(arg)] and not raw[id(expr)]:
                text = self.spelling.cast(text, self.scope)
            args.append(text)
        return self.spelling.primitive(expr, args, self.scope)


def _is_cast_by_all(
    expr: Expr, order: Sequence[Expr], outputs: Sequence[Expr], raw: dict[int, bool | None]
) -> bool:
    """Whether all that read an expression would convert it; if so, it counts as converted."""
    pairs = [(arg, user) for user in order for arg in user.args if _unrepeated(arg, user) is expr]
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
            needed_ids.update(id(_unrepeated(arg, expr)) for arg in expr.args)
    return [expr for expr in order if id(expr) in needed_ids]


def _unrepeated(arg: Expr, user: Expr) -> Expr:
    """Elementwise users repeat by themselves: the broadcast of an argument need not be made."""
    if arg.prim != "broadcast" or user.prim not in ARITHMETIC:
        return arg
    whole = any(other.shape == user.shape and other.prim != "broadcast" for other in user.args)
    return arg.args[0] if whole else arg


def repeats(body: Body, operand: Expr) -> bool:
    """Whether all that is done to an operand repeats it by itself; a rank's part is cut before."""
    users = [e for e in body.order() if any(arg is operand for arg in e.args)]
    return all(user.prim in ARITHMETIC for user in users)
