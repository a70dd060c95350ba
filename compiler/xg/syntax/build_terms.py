"""From rules to trees, the small things: names, expressions, axes, shapes, declared names.

Each public method is the action of the grammar's rule of that name: it takes the span that was read
and the rule's children, as the grammar orders them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar, cast

from xg.diagnostics.diagnostic import Problem, Source, Span
from xg.diagnostics.limits import LabelLength, NumberDigits, Rank
from xg.syntax import ast
from xg.syntax.errors import (
    ArgumentOrder,
    FractionInPath,
    FrozenIntegers,
    InfiniteNumber,
    NumberedAxis,
    RangeWithoutShape,
)
from xg.syntax.spelling import GLYPHS, ascii_name
from xg.syntax.tokens import Token

Sign: TypeAlias = Literal["+", "-", "*", "/"]
SIGNS: dict[str, Sign] = {"PLUS": "+", "MINUS": "-", "STAR": "*", "SLASH": "/"}

Shared = TypeVar("Shared", ast.Port, ast.Own)


class Declared(Protocol):
    """An input or a parameter, which may be frozen."""

    @property
    def frozen(self) -> ast.FrozenWord | None:
        """The word, if it is there."""
        ...


class TermBuilder:
    """Makes the small trees of one source and collects what is wrong with them."""

    def __init__(self, source: Source) -> None:
        self.problems: list[Problem] = []
        self._source = source
        self._wildcards: list[Span] = []  # those that no plan has asked for yet
        self._frozen_words: list[Span] = []  # those that no input and no parameter has yet

    # ---- expressions -----------------------------------------------------------------------------

    def number(self, _: Span, token: Token) -> ast.Number:
        """`64`, `1e-5`."""
        span = self._span(token)
        digits = span.text
        if len(digits) > NumberDigits.maximum:
            self.problems.append(NumberDigits(span, len(digits)))
            return ast.Number(span, 0, digits)
        if digits.isdigit():
            return ast.Number(span, int(digits), digits)
        value = float(digits)
        if value == float("inf"):
            self.problems.append(InfiniteNumber(span))
        return ast.Number(span, value, digits)

    def path(self, _: Span, *tokens: Token) -> ast.Path:
        """`W_Q`, `layers.3.attn.W_Q`."""
        segments = tuple(map(self._segment, tokens))
        if len(segments) == 1:
            return ast.Path(segments[0].span, segments)
        return ast.Path(Span(self._source, tokens[0].start, tokens[-1].end), segments)

    def wildcard(self, span: Span) -> ast.Wildcard:
        """`_`."""
        self._wildcards.append(span)
        return ast.Wildcard(span)

    def array(self, span: Span, *items: ast.Expr | None) -> ast.Array:
        """`[[1, 0], [0, 1]]`."""
        return ast.Array(span, _present(items))

    def sum(self, span: Span, first: ast.Expr, *rest: Token | ast.Expr) -> ast.Arithmetic:
        """`a + b - c`."""
        signs = cast("tuple[Token, ...]", rest[::2])
        operands = cast("tuple[ast.Expr, ...]", rest[1::2])
        operations = (
            ast.Operation(
                Span(self._source, sign.start, operand.span.end), SIGNS[sign.type], operand
            )
            for sign, operand in zip(signs, operands, strict=True)
        )
        return ast.Arithmetic(span, first, tuple(operations))

    def term(self, span: Span, first: ast.Expr, *rest: Token | ast.Expr) -> ast.Arithmetic:
        """`a * b / c`."""
        return self.sum(span, first, *rest)

    def negation(self, span: Span, operand: ast.Expr) -> ast.Negation:
        """`-a`."""
        return ast.Negation(span, operand)

    def power(self, span: Span, base: ast.Expr, exponent: ast.Expr) -> ast.Power:
        """`a^b`."""
        return ast.Power(span, base, exponent)

    def comparison(
        self, span: Span, left: ast.Expr, sign: Token, right: ast.Expr
    ) -> ast.Comparison:
        """`a > b`."""
        return ast.Comparison(span, ">" if sign.type == "GREATER" else ">=", left, right)

    def call(
        self, span: Span, operator: Token, axes: ast.AxisMap | None, args: tuple[ast.Argument, ...]
    ) -> ast.Call:
        """`mean[D](x)`."""
        return ast.Call(span, self._name(operator), axes, args)

    def along(self, span: Span, operator: Token, axes: ast.AxisMap) -> ast.Call:
        """`range[S]`."""
        return ast.Call(span, self._name(operator), axes, ())

    def args(self, _: Span, *args: ast.Argument | None) -> tuple[ast.Argument, ...]:
        """`(γ, β, eps=1e-6)`."""
        arguments = _present(args)
        named = False
        for argument in arguments:
            if named and argument.name is None:
                self.problems.append(ArgumentOrder(argument.span))
            named = named or argument.name is not None
        return arguments

    def positional(self, span: Span, value: ast.Expr) -> ast.Argument:
        """`γ`."""
        return ast.Argument(span, None, value)

    def named(self, span: Span, name: Token, value: ast.Expr) -> ast.Argument:
        """`eps=1e-6`."""
        return ast.Argument(span, self._name(name), value)

    # ---- axes and shapes -------------------------------------------------------------------------

    def rest(self, span: Span) -> ast.Rest:
        """`..`."""
        return ast.Rest(span)

    def shape(self, span: Span, *dims: ast.Expr | ast.Rest | None) -> ast.Shape:
        """`[B, S, D]`."""
        if len(dims) > Rank.maximum:
            self.problems.append(Rank(span, len(dims)))
        return ast.Shape(span, _present(dims))

    def named_axis(self, span: Span, name: Token, size: ast.Expr | None) -> ast.Axis:
        """`h=N_H`."""
        return ast.Axis(span, self._name(name), size)

    def unit(self, span: Span, token: Token) -> ast.UnitAxis:
        """`1`."""
        if span.text != "1":
            self.problems.append(NumberedAxis(span))
        return ast.UnitAxis(span)

    def place(self, span: Span, token: Token) -> ast.PlaceAxis:
        """`-2`."""
        digits = str(token)
        if not digits.isdigit() or not 1 <= len(digits) <= 2 or int(digits) == 0:
            self.problems.append(NumberedAxis(span))
            return ast.PlaceAxis(span, -1)
        return ast.PlaceAxis(span, -int(digits))

    def group(
        self, span: Span, *axes: ast.Axis | ast.UnitAxis | ast.PlaceAxis | ast.Rest
    ) -> ast.AxisGroup:
        """`(h, d)`."""
        return ast.AxisGroup(span, axes)

    def axes(self, _: Span, *axes: ast.AxisItem) -> tuple[ast.AxisItem, ...]:
        """`b, (h, d)`."""
        return axes

    def map(
        self, span: Span, source: tuple[ast.AxisItem, ...], target: tuple[ast.AxisItem, ...] | None
    ) -> ast.AxisMap:
        """`[b, (h, d) -> b, h, d]`."""
        return ast.AxisMap(span, source, target)

    # ---- declared names --------------------------------------------------------------------------

    def range(self, _: Span, size: ast.Expr) -> ast.Expr:
        """`in V`."""
        return size

    def port(
        self,
        span: Span,
        name: Token,
        shape: ast.Shape | None,
        range: ast.Expr | None,
        frozen: Token | None,
    ) -> ast.Port:
        """`ids [B, S] in V`, `target [B, D] frozen`."""
        if range is not None and shape is None:
            self.problems.append(RangeWithoutShape(self._span(name)))
        return ast.Port(span, self._name(name), shape, range, self._frozen(frozen, range))

    def _frozen(self, word: Token | None, range: ast.Expr | None) -> ast.FrozenWord | None:
        """Build the word `frozen` after a declaration."""
        if word is None:
            return None
        span = self._span(word)
        if range is not None:
            self.problems.append(FrozenIntegers(span))
        self._frozen_words.append(span)
        return ast.FrozenWord(span)

    def _allow_frozen(self, declared: Sequence[Declared]) -> None:
        """Take the words of inputs and parameters from those that are out of place."""
        words = {each.frozen.span for each in declared if each.frozen}
        self._frozen_words = [span for span in self._frozen_words if span not in words]

    def ports(self, _: Span, *ports: ast.Port) -> tuple[ast.Port, ...]:
        """`Q, K [B, S, D]`: a name without a shape takes the next one."""
        shared: list[ast.Port] = []
        for port in reversed(ports):
            if shared and port.shape is port.range is port.frozen is None:
                after = shared[-1]
                port = ast.Port(port.span, port.name, after.shape, after.range, after.frozen)
            shared.append(port)
        return tuple(reversed(shared))

    def words(self, _: Span, *names: Token) -> tuple[ast.Name, ...]:
        """`pre | post`."""
        return tuple(map(self._name, names))

    def own(
        self,
        span: Span,
        name: Token,
        shape: ast.Shape | None,
        default: ast.Expr | tuple[ast.Name, ...] | None,
    ) -> ast.Own:
        """`eps = 1e-5`, `mask = none | causal`."""
        if isinstance(default, tuple):
            return ast.Own(span, self._name(name), shape, None, default)
        return ast.Own(span, self._name(name), shape, default, ())

    def owns(self, _: Span, *owns: ast.Own) -> tuple[ast.Own, ...]:
        """`γ, β [D], eps = 1e-5`: a name without shape and default takes the next ones."""
        shared: list[ast.Own] = []
        for own in reversed(owns):
            if shared and own.shape is None and own.default is None and not own.words:
                after = shared[-1]
                own = ast.Own(own.span, own.name, after.shape, after.default, after.words)
            shared.append(own)
        return tuple(reversed(shared))

    # ---- tokens ----------------------------------------------------------------------------------

    def _span(self, token: Token) -> Span:
        return Span(self._source, token.start, token.end)

    def _name(self, token: Token) -> ast.Name:
        """A name in its one spelling, or an operator's sign as its glyph."""
        span = self._span(token)
        if token.end - token.start > LabelLength.maximum:
            self.problems.append(LabelLength(span, token.end - token.start))
        return ast.Name(span, GLYPHS.get(token.type) or ascii_name(span.text))

    def _segment(self, token: Token) -> ast.Name:
        if token.type == "STAR":
            return ast.Name(self._span(token), "*")
        name = self._name(token)
        if token.type == "NUMBER" and not name.name.isdigit():
            self.problems.append(FractionInPath(name.span))
        return name

    def _text(self, token: Token | None) -> ast.Text | None:
        """A text without its quotes."""
        return None if token is None else self._string(token)

    def _string(self, token: Token) -> ast.Text:
        """A text without its quotes, from a token that cannot be missing."""
        span = self._span(token)
        value = span.text[1:].removesuffix('"')
        if len(value) > LabelLength.maximum:
            self.problems.append(LabelLength(span, len(value)))
        return ast.Text(span, value)


Item = TypeVar("Item")


def _present(items: tuple[Item | None, ...]) -> tuple[Item, ...]:
    return tuple(item for item in items if item is not None)
