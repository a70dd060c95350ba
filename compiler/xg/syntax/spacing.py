"""How `xg fmt` spells and spaces the tokens of a program; the tree says what each sign is."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias

from xg.diagnostics.source import Source
from xg.syntax import ast
from xg.syntax.spelling import GLYPHS, greek_name
from xg.syntax.tokens import Token
from xg.syntax.tree import Syntax, parts

# Which signs have space around them: none; `+` and `-`; or, in a formula, long products as well.
Style: TypeAlias = Literal["tight", "size", "formula"]
_Styled: TypeAlias = tuple[Syntax, Syntax, Style]

_STYLES: dict[type[Syntax], Style] = {
    ast.Chain: "tight",
    ast.Shape: "tight",
    ast.AxisMap: "tight",
    ast.Port: "tight",
    ast.DimDecl: "size",
    ast.MeshDecl: "size",
    ast.Param: "size",
    ast.State: "size",
    ast.Own: "size",
}
_TIGHT_BEFORE = {"COMMA", "SEMICOLON", "RPAR", "RSQB", "DOT", "SINGLE", "DOUBLE", "CARET"}
_TIGHT_AFTER = {"LPAR", "LSQB", "DOT", "SINGLE", "DOUBLE", "CARET"}
_CALLED = {"NAME", "SCHEDULE", "RSQB", *GLYPHS}  # a parenthesis directly behind holds arguments


class Spacing:
    """The spelling of each token of one program, and the gap between two neighbours."""

    def __init__(self, source: Source, module: ast.Module, tokens: list[Token]) -> None:
        self._source = source
        # What the tree says of tokens, by their offsets.
        self._signs: dict[int, str] = {}  # the gap around a sign
        self._unary: set[int] = set()  # signs with no gap behind them
        self._axes: set[int] = set()  # brackets with no gap before them
        self._stars: set[int] = set()  # `*` that is neither an operator nor `×`
        self._glyphs: dict[int, str] = {}
        self._named: set[int] = set()  # where the names of arguments and axes end
        for tree, parent, style in _styled(module):
            self._learn(tree, parent, style)
        self._tight_equals = {
            token.start
            for before, token in pairwise(token for token in tokens if token.type != "_NL")
            if token.type == "EQUAL" and before.end in self._named
        }

    def text(self, token: Token) -> str:
        """The token with glyphs for keyboard spellings, and γ for gamma."""
        text = self._source.text[token.start : token.end]
        if token.type == "NAME":
            return greek_name(text)
        if token.start in self._glyphs:
            return self._glyphs[token.start]
        if token.type == "STAR" and not (token.start in self._stars or token.start in self._signs):
            return "×"
        return "±" if token.type == "PLUS_SLASH_MINUS" else text

    def gap(self, before: Token, token: Token) -> str:
        """The text between two tokens of a line."""
        if token.type in _TIGHT_BEFORE or before.type in _TIGHT_AFTER:
            return ""
        for sign in (token, before):
            if sign.start in self._signs:
                return self._signs[sign.start]
        if token.start in self._axes or before.start in self._unary:
            return ""
        if token.start in self._tight_equals or before.start in self._tight_equals:
            return ""
        return "" if token.type == "LPAR" and before.type in _CALLED else " "

    def _learn(self, tree: Syntax, parent: Syntax, style: Style) -> None:
        match tree:
            case ast.Arithmetic():
                for operation in tree.rest:
                    self._signs[operation.span.start] = _around_signs(tree, parent, style)
            case ast.Negation() | ast.PlaceAxis():
                self._unary.add(tree.span.start)
            case ast.AxisMap():
                self._axes.add(tree.span.start)
            case ast.Argument(name=ast.Name()) | ast.Axis():
                if tree.name:
                    self._named.add(tree.name.span.end)
            case ast.NodeUse():
                self._glyphs[tree.operator.span.start] = greek_name(tree.operator.name)
            case ast.Path():
                stars = (part.span.start for part in tree.segments if part.name == "*")
                self._stars.update(stars)
            case _:
                pass


def _styled(module: ast.Module) -> list[_Styled]:
    """Every tree with the one it is part of and the style of its signs."""
    styled: list[_Styled] = [(module, module, "formula")]
    for tree, _, style in styled:  # grows while it is walked
        inner: Style = _STYLES.get(type(tree), style)
        styled.extend((part, tree, inner) for part in parts(tree))
    return styled


def _around_signs(tree: ast.Arithmetic, parent: Syntax, style: Style) -> str:
    """The space around signs: `g * sigmoid(g)` alone, but `scale*a + m` and `max(x, a*x)`."""
    if style == "tight":
        return ""
    if tree.rest[0].sign in "+-":
        return " "
    operands = (tree.first, *(operation.operand for operation in tree.rest))
    is_whole = isinstance(parent, ast.OpDef | ast.Binding | ast.Given | ast.Expect)
    return " " if style == "formula" and (is_whole or not all(map(_is_short, operands))) else ""


def _is_short(tree: Syntax) -> bool:
    """Whether it has no sign in it but powers; no deeper than the nesting limit."""
    match tree:
        case ast.Arithmetic() | ast.Negation() | ast.Comparison() | ast.Array():
            return False
        case _:
            return all(map(_is_short, parts(tree)))
