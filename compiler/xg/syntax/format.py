"""Format a program for `xg fmt`: lines, spaces, aligned columns, indentation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from xg.diagnostics.diagnostic import Fix, Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.terminal import width
from xg.syntax import ast
from xg.syntax.ast import Syntax, only, parts, walk
from xg.syntax.parse import parse
from xg.syntax.spelling import GLYPHS, greek_name
from xg.syntax.tokens import CLOSES, GOES_ON_AFTER, GOES_ON_BEFORE, OPENS, Token, tokenize

# Fix declarations: add a name to a line of `dim` or `mesh`, or take a name out.


# A declaration goes on in the next line behind a comma.
_ITEM = re.compile(r"^(?:#.*\n)*(?:dim|mesh|op|block|plan|example)\b", re.MULTILINE)
_LINE = r"^(?:{})\b(?:[^#\n]*,[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*)*[^#\n]*"
_HEADS = "edition|use|dim|mesh|option"


def declaration(span: Span, word: str, *names: str) -> Fix:
    """Return a fix that declares names: on the last line with the word, or below the head.

    Args:
        span: the place where they are used.
        word: `dim` or `mesh`.
        names: the names, each with its size if it needs one.
    """
    source = span.source
    listed = ", ".join(map(greek_name, names))
    said, them = f"{word} {listed}", "it" if len(names) == 1 else "them"
    beside = list(_ends(source, word))
    heads = list(_ends(source, _HEADS))
    if beside:
        place, text = beside[-1], f", {listed}"
    elif heads:
        end = source.text.find("\n", heads[-1])
        place, text = (end if end >= 0 else len(source.text)), f"\n{said}"
    else:
        starts = [m.start() for m in _ITEM.finditer(source.text) if m.start() <= span.start]
        place, text = (starts[-1] if starts else 0), f"{said}\n\n"
    return Fix(f"declare {them}: {said}", ((Span(source, place, place), text),), (word, *names))


def _ends(source: Source, words: str) -> Iterator[int]:
    """Where the code of each declaration with one of these words ends."""
    for match in re.finditer(_LINE.format(words), source.text, re.MULTILINE):
        yield match.start() + len(match[0].rstrip())


# An item of a list taken out of a text: a declared name, with its comma or with its line.


_COMMA_BEHIND = re.compile(r"[ \t]*,[ \t]*")
_ALONE = re.compile(r"[ \t]*(?:param|dim|mesh|state|option|use)[ \t]+$|[ \t]*$")
_BEHIND = re.compile(r"[ \t]*(?:from[ \t]+\S+[ \t]*)?(?:\n|$)")


def left_out(item: Span, name: str) -> tuple[Fix, ...]:
    """The item of a declaration left out; nothing where its neighbors would change.

    Names without a shape take that of the next name, so the last of these stays.
    """
    text, end = item.source.text, item.end
    if _lends_shape(item):
        return ()
    before = text[text.rfind("\n", 0, item.start) + 1 : item.start]
    gone: Span | None = None
    if behind := _COMMA_BEHIND.match(text, end):
        gone = Span(item.source, item.start, behind.end())
    elif (comma := _comma_before(text, item.start)) is not None:
        gone = Span(item.source, comma, end)
    elif _ALONE.fullmatch(before) and (rest := _BEHIND.match(text, end)):
        gone = Span(item.source, item.start - len(before), rest.end())
    return (Fix(f"leave {name} out", ((gone, ""),)),) if gone else ()


def _lends_shape(item: Span) -> bool:
    """Whether a name before this one has its shape from it."""
    text = item.source.text
    comma = _comma_before(text, item.start) if "[" in item.text else None
    return bool(comma) and (text[comma - 1].isalnum() or text[comma - 1] == "_")


def _comma_before(text: str, start: int) -> int | None:
    """Find the comma right before a place, with the blanks around it: where these begin.

    A search with a pattern would read the text from its beginning for each item.
    """
    while start and text[start - 1].isspace():
        start -= 1
    if not start or text[start - 1] != ",":
        return None
    start -= 1
    while start and text[start - 1] in " \t":
        start -= 1
    return start


# The lines of a program as its author broke them, but for braces, which have fixed places.


@dataclass(frozen=True, slots=True)
class Line:
    """Tokens and the comment after them; a line that is only a comment has no tokens.

    `spaced` says that a blank line precedes it.
    """

    tokens: tuple[Token, ...]
    comment: Token | None
    spaced: bool

    @property
    def kind(self) -> str:
        """The kind of the first token, "" for a line of a comment alone."""
        return self.tokens[0].type if self.tokens else ""


class LineSplitter:
    """Sorts tokens and comments into lines: a brace opens at the end of a line and closes alone."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._tokens: list[Token] = []
        self._line_ends = 0  # since the last token or comment

    def split(self, tokens: list[Token], comments: list[Token]) -> list[Line]:
        """The lines of all tokens and comments."""
        for token in sorted([*tokens, *comments], key=lambda token: (token.start, token.end)):
            if token.type in ("_NL", "$END"):
                self._end_line()
                self._line_ends += 1
            elif token.type == "COMMENT":
                self._comment(token)
            else:
                self._token(token)
        return self._lines

    def _token(self, token: Token) -> None:
        if token.type == "LBRACE":
            self._brace(token)
            return
        if token.type == "RBRACE":
            self._end_line()
        if not self._tokens:
            self._spaced = self._line_ends > 1
        self._tokens.append(token)
        self._line_ends = 0

    def _brace(self, brace: Token) -> None:
        """Put an opening brace after the tokens that precede it, on their line."""
        self._end_line()
        last = next(i for i in reversed(range(len(self._lines))) if self._lines[i].tokens)
        line = self._lines[last]
        self._lines[last] = replace(line, tokens=(*line.tokens, brace))
        self._line_ends = 0

    def _comment(self, comment: Token) -> None:
        """Put a comment after the tokens that precede it, if they are on its line."""
        spaced = self._line_ends > 1
        self._end_line()
        behind_code = self._line_ends == 0 and bool(self._lines)
        if behind_code and self._lines[-1].comment is None:
            self._lines[-1] = replace(self._lines[-1], comment=comment)
        else:
            self._lines.append(Line((), comment, spaced))
        self._line_ends = 0

    def _end_line(self) -> None:
        if self._tokens:
            self._lines.append(Line(tuple(self._tokens), None, self._spaced))
            self._tokens = []


# How `xg fmt` spells and spaces the tokens of a program; the tree says what each sign is.


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
    """The spelling of each token of one program, and the gap between two neighbors."""

    def __init__(self, source: Source, module: ast.Module, tokens: list[Token]) -> None:
        self._source = source
        # What the tree says of tokens, by their offsets.
        self._signs: dict[int, str] = {}  # the gap around a sign
        self._unary: set[int] = set()  # signs with no gap behind them
        self._axes: set[int] = set()  # brackets with no gap before them
        self._stars: set[int] = set()  # `*` that is neither an operator nor `×`
        self._glyphs: dict[int, str] = {}
        self._named: set[int] = set()  # where the names of arguments and axes end
        for tree, parent, style in _style_trees(module):
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


def _style_trees(module: ast.Module) -> list[_Styled]:
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


# Aligned columns: the labels of a block, their shapes, the shapes of a plan, options.


# Lines much longer than all the others stick out of their column instead of moving it: by this
# many characters, and no more than a third of the lines.
LABEL_JUMP = 24
SHAPE_JUMP = 2

Column: TypeAlias = tuple[Literal["label", "shape", "placement", "option"], int]


class _Cell(NamedTuple):
    """Something to align: its column, the offset of its first token, the width before it."""

    column: Column
    offset: int
    before: int


def padding(
    module: ast.Module, lines: Sequence[Line], positions: Mapping[int, int]
) -> dict[int, int]:
    """Compute how much wider the gap before each aligned token is, by the token's offset.

    `positions` are the columns of tokens without padding.
    """
    columns: defaultdict[Column, list[_Cell]] = defaultdict(list)
    for cell in _cells(module, lines, positions):
        columns[cell.column].append(cell)
    padding: dict[int, int] = {}
    for (kind, _), cells in columns.items():
        jump = LABEL_JUMP if kind == "label" else SHAPE_JUMP if kind == "shape" else 1000
        common = _common([cell.before for cell in cells], jump)
        padding.update({cell.offset: max(0, common - cell.before) for cell in cells})
    return padding


def _common(widths: list[int], jump: int) -> int:
    """The widest of them, or the widest but for a few that jump out."""
    ordered = sorted(widths)
    for count in range(-(-2 * len(ordered) // 3), len(ordered)):
        if ordered[count] - ordered[count - 1] > jump:
            return ordered[count - 1]
    return ordered[-1]


def _cells(
    module: ast.Module, lines: Sequence[Line], positions: Mapping[int, int]
) -> Iterator[_Cell]:
    """Everything that is aligned; columns are numbered by block or by paragraph."""
    labels = {tree.span.end: tree for tree in walk(module) if isinstance(tree, ast.Label)}
    plans = only(ast.Plan, module.plan_decls)
    places = [line.at_rest or line.memory for plan in plans for line in plan.placements]
    rests = {place.span.start for place in places if place}
    block = paragraph = 0
    previous = ""
    for line in lines:
        block += line.kind == "RBRACE"
        among_options = (previous == "OPTION") == (line.kind == "OPTION")
        paragraph += line.spaced or line.kind == "RBRACE" or not among_options
        previous = line.kind
        label = labels.get(line.tokens[-1].end) if line.tokens else None
        if label and label.span.start > line.tokens[0].start:
            yield _Cell(("label", block), label.span.start, positions[label.span.start])
        if label and len(label.ports) == 1 and label.ports[0].shape:
            name, shape = label.ports[0].name.span.start, label.ports[0].shape.span.start
            yield _Cell(("shape", paragraph), shape, positions[shape] - positions[name])
        for token in line.tokens:
            if token.start in rests:
                yield _Cell(("placement", paragraph), token.start, positions[token.start])
        equals = [token.start for token in line.tokens if token.type == "EQUAL"]
        if line.kind == "OPTION" and len(equals) == 1:
            yield _Cell(("option", paragraph), equals[0], positions[equals[0]])


# Where each line of a program begins, and the text that the lines make.


STEP = 4
CHAIN_STEP = 2  # an arrow that continues a chain is indented a little
_GO_ON_A_CHAIN = {"ARROW", "SINGLE", "DOUBLE", "COLON", "OVER", "IF", "AS"}
_BEGIN_A_LIST = {
    *("USE", "DIM", "MESH", "OPTION", "PARAM", "STATE", "NEXT", "GIVEN", "WHERE", "COLON"),
    *("HIGHLIGHT", "NOTE"),
}


class _Bracket(NamedTuple):
    """An open bracket: where the lines inside it begin, and where it closes if it ended a line."""

    inside: int
    closes: int


class LineWriter:
    """Writes the lines of one program; a continued line is aligned with its first.

    `columns` are the columns of tokens, by offset; `padding` how much wider than usual the gap in
    front of a token is.
    """

    def __init__(self, source: Source, spacing: Spacing, padding: Mapping[int, int]) -> None:
        self.columns: dict[int, int] = {}
        self._source = source
        self._spacing = spacing
        self._padding = padding
        self._written: list[str] = []
        self._in_braces = False
        self._brackets: list[_Bracket] = []
        self._statement = 0  # where the statement begins that is being written
        self._list = 0  # where the things in its list begin
        self._last = "LBRACE"  # the kind of the last token

    def write(self, lines: Iterable[Line]) -> str:
        """The text of all lines."""
        remarks: list[Line] = []  # lines of comments: indented as the line below them
        for line in lines:
            if not line.tokens:
                remarks.append(line)
                continue
            column = self._begin(line)
            for remark in remarks:
                self._put(remark, STEP if line.kind == "RBRACE" else column, "")
            remarks.clear()
            self._put(line, column, self._code(line, column))
        for remark in remarks:
            self._put(remark, 0, "")
        return "".join(text + "\n" for text in self._written)

    def _begin(self, line: Line) -> int:
        """The column of a line, by what it begins with and what is still open."""
        if self._brackets:
            bracket = self._brackets[-1]
            return bracket.closes if line.kind in CLOSES else bracket.inside
        self._in_braces = self._in_braces and line.kind != "RBRACE"
        goes_on_before = line.kind in GOES_ON_BEFORE and line.kind != "RBRACE"
        if self._last == "LBRACE" or not (goes_on_before or self._last in GOES_ON_AFTER):
            self._statement = STEP * self._in_braces
            self._list = self._statement + STEP
            return self._statement
        if self._last == "COMMA":
            return self._list
        return self._statement + (CHAIN_STEP if line.kind in _GO_ON_A_CHAIN else STEP)

    def _code(self, line: Line, column: int) -> str:
        """The tokens of a line that begins at a column."""
        pieces = [" " * column]
        at = column
        before: Token | None = None
        for token in line.tokens:
            if before is not None:
                gap = self._spacing.gap(before, token) + " " * self._padding.get(token.start, 0)
                pieces.append(gap)
                at += len(gap)
            if before is not None and before.type in _BEGIN_A_LIST and not self._brackets:
                self._list = at
            self.columns[token.start] = at
            pieces.append(self._spacing.text(token))
            at += width(pieces[-1])
            self._follow(token, column, at, is_last=token is line.tokens[-1])
            before = token
        return "".join(pieces)

    def _follow(self, token: Token, line_column: int, end: int, *, is_last: bool) -> None:
        """Keep track of the brackets that are open after a token."""
        if token.type in OPENS and is_last:
            self._brackets.append(_Bracket(line_column + STEP, line_column))
        elif token.type in OPENS:
            self._brackets.append(_Bracket(end, end))
        elif token.type in CLOSES:
            self._brackets.pop()
        self._in_braces = self._in_braces or token.type == "LBRACE"
        self._last = token.type

    def _put(self, line: Line, column: int, code: str) -> None:
        """Write a line with its comment, after a blank line if it should have one."""
        above = self._written[-1] if self._written else "{"
        if line.spaced and line.kind != "RBRACE" and not above.endswith("{"):
            self._written.append("")
        if line.comment is None:
            self._written.append(code)
        else:
            comment = self._source.text[line.comment.start : line.comment.end].rstrip()
            self._written.append(f"{code}  {comment}" if code else " " * column + comment)


def format(source: Source) -> str:
    """The program in canonical layout: the same tree, the same comments; applied twice, the same.

    The author's lines and paragraphs stay. Raises DiagnosticError for a program with errors.
    """
    module = parse(source)
    tokens, comments, _ = tokenize(source)
    lines = LineSplitter().split(tokens, comments)
    spacing = Spacing(source, module, tokens)
    draft = LineWriter(source, spacing, {})
    draft.write(lines)
    return LineWriter(source, spacing, padding(module, lines, draft.columns)).write(lines)
