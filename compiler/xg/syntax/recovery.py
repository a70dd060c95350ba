"""Recover after an error to find later errors, and list the words that fit at a cursor.

The list of tokens is repaired where the author's intent is clear. Else the statement is given up
and reading continues behind it; when the head of a block is given up, its body is still read.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, DiagnosticError, Problem, Source, Span
from xg.syntax import errors
from xg.syntax.build import ModuleBuilder
from xg.syntax.error_token import Repair, Stop, describe_choices, describe_token
from xg.syntax.hints import FORMULAS, WORDS
from xg.syntax.reader import Reader
from xg.syntax.tokens import (
    CLOSES,
    GOES_ON_AFTER,
    GOES_ON_BEFORE,
    ITEM_WORDS,
    OPENS,
    STATEMENT_WORDS,
    StatementTokens,
    Token,
    tokenize,
)
from xg_grammar import literals

_BODIES = ("statement", "placement", "claim")
_STATEMENTS = (*_BODIES, "item")
_HEADS = {  # the shortest head of each declaration that has a body
    "BLOCK": "BLOCK NAME LPAR RPAR ARROW NAME LSQB RSQB",
    "PLAN": "PLAN NAME OF NAME",
    "EXAMPLE": "EXAMPLE OF NAME",
}


def recover(
    source: Source, reader: Reader, tokens: list[Token], stream: StatementTokens
) -> tuple[Problem | None, StatementTokens]:
    """The error at the last token of `stream`, which did not fit, and the tokens to continue with.

    The error is None if it was reported before. Changes the reader's stack and, from there on, the
    list of tokens.
    """
    index = stream.position
    stop = _stop(source, reader, tokens, index, stream.open)
    finding = find(stop)
    if _can_repair(reader, stop, finding):
        repair = [Token(kind, "", stop.token.start) for kind in finding.insert]
        tokens[index : index + finding.drop] = repair
        last = stop.previous.type if stop.previous else ""
        return finding.problem, StatementTokens(source, tokens, index, stream.open, last)
    index = _give_up(reader, tokens, stop, index, len(stream.open))
    return finding.problem, StatementTokens(source, tokens, index)


def _stop(
    source: Source, reader: Reader, tokens: list[Token], index: int, open: list[Token]
) -> Stop:
    before = range(index - 1, -1, -1)
    line = list(_line_before(tokens, index))
    return Stop(
        source,
        reader,
        tokens[index],
        previous=next((tokens[i] for i in before if tokens[i].type != "_NL"), None),
        following=tokens[index + 1] if index + 1 < len(tokens) else None,
        open=tuple(open),
        brace=next((tokens[i] for i in before if tokens[i].type == "LBRACE"), None),
        statement=line[-1] if line else None,
        begins_line=not line,
        repaired=any(token.start == token.end and token.type == "COMMA" for token in line),
        expected=reader.expected(),
    )


def _line_before(tokens: list[Token], index: int) -> Iterator[Token]:
    """The tokens before an index on its line, the last one first."""
    return takewhile(
        lambda token: token.type != "_NL", (tokens[i] for i in range(index - 1, -1, -1))
    )


def _can_repair(reader: Reader, stop: Stop, finding: Repair) -> bool:
    if not finding.drop:
        return bool(finding.insert) and reader.fits([*finding.insert, stop.token.type])
    return reader.fits(finding.insert) and stop.token.type != "$END"


def _give_up(reader: Reader, tokens: list[Token], stop: Stop, index: int, depth: int) -> int:
    """Give up the statement around `index`; returns where to continue."""
    begins_item = stop.token.type in ITEM_WORDS and stop.begins_line
    if stop.token.type == "$END" or (begins_item and not _is_op_in_body(stop)):
        if any(map(reader.awaits, _BODIES)):
            return _close(reader, tokens, stop, index)
        reader.unwind(["item"])
        reader.assume("item")
        return index - (stop.token.type != "$END")
    begun = reader.unwind(_STATEMENTS)
    head = _head(tokens, index, begun) if "item" in reader.choices else None
    brace = _end_of_head(tokens, index) if head else None
    if head and brace:
        at = tokens[brace].start
        tokens[index:brace] = [Token(kind, "", at) for kind in _HEADS[head].split()]
        return index
    reader.assume(next(symbol for symbol in _STATEMENTS if symbol in reader.choices))
    if stop.begins_line and depth and stop.token.type not in GOES_ON_BEFORE:
        return index - 1
    while not _goes_on_at(reader, tokens, index, depth):
        depth += (tokens[index].type in OPENS) - (tokens[index].type in CLOSES)
        index += 1
    return index


def _close(reader: Reader, tokens: list[Token], stop: Stop, index: int) -> int:
    """Give up the last statement of an unclosed body, and close the body before `index`."""
    reader.unwind(_BODIES)
    reader.assume(next(symbol for symbol in _BODIES if symbol in reader.choices))
    kinds = ["RBRACE"] if stop.token.type == "$END" else ["RBRACE", "_NL"]
    tokens[index:index] = [Token(kind, "", stop.token.start) for kind in kinds]
    return index


def _head(tokens: list[Token], index: int, begun: int | None) -> str | None:
    """The kind of the declaration with a body that began at the offset `begun`."""
    if begun is None:
        return None
    kinds = (token.type for token in tokens[index::-1] if token.start == begun)
    return next((kind for kind in kinds if kind in _HEADS), None)


def _end_of_head(tokens: list[Token], index: int) -> int | None:
    """Where the brace is that ends a head, if it comes before the next declaration or statement."""
    for position in range(index, len(tokens)):
        kind = tokens[position].type
        if kind == "LBRACE":
            return position
        if kind in ITEM_WORDS | STATEMENT_WORDS | {"RBRACE", "$END"}:
            return None
    return None


def _goes_on_at(reader: Reader, tokens: list[Token], index: int, depth: int) -> bool:
    """Return whether a statement can begin after this token, or a body or the file end at it."""
    kind = tokens[index].type
    if kind == "$END":
        return True
    if kind == "RBRACE":
        return reader.fits([kind])
    if kind != "_NL" or tokens[index + 1].type == "_NL" or not reader.fits([kind]):
        return False
    behind = [token.type for token in tokens[index + 1 : index + 3]]
    if behind[0] in ITEM_WORDS | STATEMENT_WORDS:
        return True
    is_chain = behind == ["NAME", "ARROW"]
    in_list = depth > 0 or (index > 0 and tokens[index - 1].type in GOES_ON_AFTER)
    return is_chain or not (in_list or behind[0] in GOES_ON_BEFORE)


# Errors at the token where the parser stopped.


_ENDS = (
    {"$END", "LBRACE", "RBRACE", "COLON", "ARROW", "OVER", "IF", "AS"}
    | ITEM_WORDS
    | STATEMENT_WORDS
)
_HEADINGS = {"BLOCK", "OP", "PARAM", "STATE", "DIM", "MESH", "OPTION"}  # they have no labels
_LISTING = {"DIM", "MESH", "PARAM", "STATE"}
_ATOMS = {"NAME", "NUMBER", "UNDERSCORE", "RPAR"}
_JOINING = {"and", "or", "not", "if", "else", "where"}
_FACTORS = {"NAME", "NUMBER", "RPAR"}
_BRACKETS = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}
_SHAPED = re.compile(r"\w+\s*\[[^\]\n]*\](\s*in\s+\w+|\s*frozen)*$")
_LIST = 1_000  # characters of a list that are looked at, at most
_PORT = 200  # characters of a name with its shape, at most


def find(stop: Stop) -> Repair:
    """The error at a stop."""
    for rule in _RULES:
        finding = rule(stop)
        if finding is not None:
            return finding
    expected = describe_choices(stop.reader, stop.expected)
    return Repair(errors.Unexpected(stop.here, expected, describe_token(stop.token, stop.here)))


def _in_body(reader: Reader) -> bool:
    """Whether a block, a plan or an example is open."""
    return reader.awaits("statement") or reader.awaits("placement") or reader.awaits("claim")


def _op_in_body(stop: Stop) -> Repair | None:
    """Explain an `op` inside a block: it is indented, so the block goes on after it."""
    if not _is_op_in_body(stop):
        return None
    start = stop.token.start
    line = stop.source.text[start:].partition("\n")[0].strip()
    reason = "an `op` belongs to the file: move this line above its block"
    return Repair(errors.ForeignForm(stop.here, reason, line))


def _is_op_in_body(stop: Stop) -> bool:
    start = stop.token.start
    indent = stop.source.text[stop.source.text.rfind("\n", 0, start) + 1 : start]
    return bool(
        stop.token.type == "OP" and stop.begins_line and indent and stop.brace
    ) and stop.reader.awaits("statement")


def _unclosed_block(stop: Stop) -> Repair | None:
    begins_item = stop.token.type in ITEM_WORDS and stop.begins_line
    if stop.brace and (stop.token.type == "$END" or begins_item) and _in_body(stop.reader):
        opening = stop.span(stop.brace)
        return Repair(errors.UnclosedBlock(opening, stop.here) if opening.text else None)
    return None


def _unclosed_bracket(stop: Stop) -> Repair | None:
    if stop.opening is None or OPENS[stop.opening.type] not in stop.expected:
        return None
    labels = stop.token.type != "COLON" or stop.word not in _HEADINGS
    if stop.begins_line or (stop.token.type in _ENDS and labels):
        closing = _BRACKETS[OPENS[stop.opening.type]]
        return Repair(errors.UnclosedBracket(stop.span(stop.opening), stop.here, closing))
    return None


def _wrong_bracket(stop: Stop) -> Repair | None:
    if stop.token.type not in CLOSES or stop.opening is None:
        return None
    right = OPENS[stop.opening.type]
    if right == stop.token.type:
        return None
    opening = stop.span(stop.opening)
    if any(OPENS[outer.type] == stop.token.type for outer in stop.open):
        return Repair(errors.UnclosedBracket(opening, stop.here, _BRACKETS[right]), (right,))
    return Repair(errors.WrongBracket(stop.here, opening, _BRACKETS[right]), (right,), drop=True)


def _stray_bracket(stop: Stop) -> Repair | None:
    closes_nothing = stop.token.type in CLOSES and stop.opening is None
    if closes_nothing or (stop.token.type == "RBRACE" and not _in_body(stop.reader)):
        return Repair(errors.StrayBracket(stop.here), drop=True)
    return None


def _unknown_sign(stop: Stop) -> Repair | None:
    """`0 ? x` in an operator: the sign between two tokens has an error of its own."""
    if stop.previous is None or stop.begins_line or stop.statement is None:
        return None
    between = stop.source.text[stop.previous.end : stop.token.start].strip()
    given_up = stop.word == "OP" or "\\" in between
    return Repair(None) if between and given_up and "\n" not in between else None


def _missing_times(stop: Stop) -> Repair | None:
    """`2N`, and where no comma could be meant also `dim E = N D` and `sigmoid(x) (1 - x)`."""
    before, token, here = stop.previous, stop.token, stop.here
    if before is None or before.type not in _FACTORS or token.type not in ("NAME", "LPAR"):
        return None
    if {here.text, stop.span(before).text} & _JOINING:
        return None
    in_chain = not stop.opening and "->" in stop.line[0]
    adjacent = before.type == "NUMBER" and token.type == "NAME" and before.end == token.start
    names = stop.following is not None and stop.following.type == "EQUAL"
    formula = stop.word == "OP" or (stop.word in ("DIM", "MESH") and not names)
    if (not adjacent or in_chain) and (not formula or stop.opening or "STAR" not in stop.expected):
        return None
    text, start, end = stop.source.text, before.start, here.end
    if before.type == "RPAR":
        front = text[:start].rpartition("\n")[2][-_PORT:]
        factor = re.search(r"\w*(?:\[[^\[\]]*\])?\([^()]*$", front)
        start -= len(factor[0]) if factor else 0
    if token.type == "LPAR" and (
        group := re.match(r"\([^()\n]{0,200}\)", text[here.start :][:_PORT])
    ):
        end = here.start + group.end()
    factors = Span(stop.source, start, before.end), Span(stop.source, here.start, end)
    return Repair(errors.MissingTimes(*factors), ("STAR",))


def _missing_comma_of_ports(stop: Stop) -> Repair | None:
    """`F(x [B] z [B])`, also in several lines."""
    before, following = stop.previous, stop.following
    if before is None or stop.token.type != "NAME" or "COMMA" not in stop.expected:
        return None
    if stop.opening is None or stop.opening.type != "LPAR" or stop.reader.awaits("statement"):
        return None
    shaped = following is not None and following.type in ("LSQB", "COMMA", "RPAR")
    rest = stop.source.text[stop.token.start :].partition("{")[0]
    if before.type != "RSQB" and not (before.type in ("NAME", "FROZEN") and shaped):
        return None
    if stop.word == "OP" or rest.count(")") <= rest.count("("):
        return None  # it is the parenthesis that is missing
    return _insert_comma(stop, before)


def _missing_comma(stop: Stop) -> Repair | None:
    """`dim B D`, `[b s]`, and `param W [D, D] b [D]`, as einops and C write lists."""
    before, kind = stop.previous, stop.token.type
    if before is None or "COMMA" not in stop.expected or stop.here.text in _JOINING:
        return None
    if stop.opening is None and (stop.begins_line or "ARROW" in stop.expected):
        return None  # it may be the arrow that is missing
    atoms = before.type in _ATOMS and (kind in _ATOMS or kind == "LPAR")
    rows = before.type == "RSQB" and kind in ("LSQB", "NAME")
    if not (atoms or rows) or not stop.reader.fits(["COMMA", kind]):
        return None
    return _insert_comma(stop, before)


def _insert_comma(stop: Stop, before: Token) -> Repair:
    if stop.repaired:
        return Repair(None, ("COMMA",))
    port = _SHAPED.search(stop.source.text, max(0, before.end - _PORT), before.end)
    start = port.start() if port and stop.token.type == "NAME" else before.start
    previous = Span(stop.source, start, before.end)
    return Repair(errors.MissingComma(previous, stop.here, _list(stop)), ("COMMA",))


def _list(stop: Stop) -> Span:
    """The list around a stop: to the bracket that closes it, or to the end of the line."""
    begun = stop.statement if stop.word in _LISTING else stop.previous
    text, start = stop.source.text, (stop.opening or begun or stop.token).start
    depth = 0
    for end in range(start, min(len(text), start + _LIST) if stop.opening else start):
        depth += (text[end] in "([") - (text[end] in ")]")
        if depth == 0:
            return Span(stop.source, start, end + 1)
    return Span(stop.source, start, start + len(text[start:].partition("\n")[0]))


def _reserved_name(stop: Stop) -> Repair | None:
    is_word = literals().get(stop.here.text) == stop.token.type and stop.here.text.isalpha()
    if is_word and "NAME" in stop.expected and not stop.begins_line:
        named = stop.following is not None and stop.following.type == "NAME"
        return Repair(errors.ReservedName(stop.here), () if named else ("NAME",), drop=True)
    return None


def _named_by_a_word(stop: Stop) -> Repair | None:
    """`softmax(dim=-1)`: the word is no end of the line, whatever bracket is open."""
    if stop.opening and stop.following and stop.following.type == "EQUAL":
        return _reserved_name(stop)
    return None


def _default_among_data(stop: Stop) -> Repair | None:
    if stop.token.type == "EQUAL" and stop.opening and "SEMICOLON" in stop.expected:
        return Repair(errors.DefaultAmongData(stop.here))
    return None


def _colon_for_brace(stop: Stop) -> Repair | None:
    """`block F(x [B]) -> y [B]:`, and the same without a sign at the end of the line."""
    if stop.token.type in ("COLON", "_NL") and "LBRACE" in stop.expected and not stop.opening:
        return Repair(errors.ColonForBrace(stop.here), ("LBRACE",), drop=True)
    return None


def _colon_before_shape(stop: Stop) -> Repair | None:
    shape_follows = stop.following is not None and stop.following.type == "LSQB"
    if stop.opening and stop.word not in ("BLOCK", "OP", "PARAM", "STATE"):
        return None  # a label behind a bracket that is not closed
    if stop.token.type == "COLON" and shape_follows and "LSQB" in stop.expected:
        return Repair(errors.ColonBeforeShape(stop.here), drop=True)
    return None


def _stacked_power(stop: Stop) -> Repair | None:
    if stop.token.type == "CARET" and "SLASH" in stop.expected:
        return Repair(errors.StackedPower(stop.here))
    return None


def _stacked_sign(stop: Stop) -> Repair | None:
    if stop.token.type == "MINUS" and stop.previous and stop.previous.type == "MINUS":
        return Repair(errors.StackedSign(stop.here), drop=True)
    return None


def _statement_outside(stop: Stop) -> Repair | None:
    if "item" not in stop.reader.choices:
        return None
    if stop.token.type == "GIVEN":
        return Repair(errors.StatementOutside(stop.here, "an example"))
    if stop.token.type == "EXPECT":
        return Repair(errors.StatementOutside(stop.here, "an example or a block"))
    if stop.token.type in ("NAME", "LPAR", "PARAM", "STATE", "NEXT", "HIGHLIGHT", "NOTE"):
        return Repair(errors.StatementOutside(stop.here, "a block"))
    return None


def _unquoted_file(stop: Stop) -> Repair | None:
    if stop.word == "USE" and stop.token.type in ("DOT", "DOTS", "SLASH", "MINUS"):
        return Repair(errors.UnquotedFile(stop.here, 'use NAME from "layers.xg"'))
    return None


def _file_before_names(stop: Stop) -> Repair | None:
    if stop.word == "USE" and stop.token.type == "STRING" and "NAME" in stop.expected:
        return Repair(errors.FileBeforeNames(stop.here, f"use NAME from {stop.here.text}"))
    return None


def _semicolon(stop: Stop) -> Repair | None:
    in_formula = stop.word == "OP" and "COMMA" in stop.expected
    if (
        stop.token.type != "SEMICOLON"
        or in_formula
        or not {"_NL", "$END", "RBRACE"} & stop.expected
    ):
        return None
    ends = stop.following is None or stop.following.type in ("_NL", "$END", "RBRACE")
    return Repair(errors.Semicolon(stop.here), () if ends else ("_NL",), drop=True)


def _lines_in_one(stop: Stop) -> Repair | None:
    """Report `W_1 [D, H/N_T], b_1 [H/N_T]` in a plan, where a line ends after each shape.

    Without a comma the second name is read as a word behind the first shape, until its own.
    """
    before = stop.previous
    if stop.opening or before is None or not stop.reader.awaits("placement"):
        return None
    if stop.token.type == "COMMA" and {"_NL", "RBRACE"} & stop.expected:
        return Repair(errors.LinesInOne(stop.here), ("_NL",), drop=True)
    named = stop.token.type in ("LSQB", "DOT") and before.type == "NAME"
    if not named or stop.begins_line or "]" not in stop.line[0]:
        return None
    return Repair(errors.LinesInOne(stop.span(before)))


def _beside_a_file(stop: Stop) -> Repair | None:
    """Report `given from "x.npz", x = 3` and `given x = 3, from "x.npz"`."""
    before, first = stop.previous, stop.statement
    if stop.opening or before is None or first is None or first.type not in ("GIVEN", "EXPECT"):
        return None
    word = stop.span(first).text
    rule = f"`{word} from` has a line of its own"
    if stop.token.type == "COMMA" and "_NL" in stop.expected:
        return Repair(errors.LinesInOne(stop.here, rule, word), ("_NL", first.type), drop=True)
    if stop.token.type == "FROM" and before.type == "COMMA":
        return Repair(errors.LinesInOne(stop.span(before), rule, word))
    return None


_RULES: tuple[Callable[[Stop], Repair | None], ...] = (
    _op_in_body,
    _unclosed_block,
    _colon_before_shape,
    _named_by_a_word,
    _unknown_sign,
    *WORDS,
    _missing_comma_of_ports,
    _unclosed_bracket,
    _wrong_bracket,
    _stray_bracket,
    _missing_times,
    _missing_comma,
    _beside_a_file,
    _reserved_name,
    _default_among_data,
    _colon_for_brace,
    _stacked_power,
    *FORMULAS,
    _stacked_sign,
    _statement_outside,
    _unquoted_file,
    _file_before_names,
    _semicolon,
    _lines_in_one,
)


# The grammar's expectation at a place of a text that is being typed.


class Awaited(NamedTuple):
    """The expectation of the grammar at a place.

    `symbols` are its symbols that a name there could begin, `words` its own words that fit, `fits`
    says whether a name does, and `before` are the tokens in front of the place.
    """

    symbols: frozenset[str]
    words: tuple[str, ...]
    fits: bool
    before: list[Token]


def expectation_at(source: Source, offset: int) -> Awaited | None:
    """The expectation at an offset, as if the text ended there; None in a comment or a text."""
    until = Source(source.name, source.text[:offset])
    tokens, comments, _ = tokenize(until)
    behind = [*comments, *(token for token in tokens if token.type == "STRING")]
    if any(token.end == offset and not _has_closing_quote(token) for token in behind):
        return None
    before = tokens[:-1]
    probe = Token("NAME", "", offset)  # ends the line before it, if that can end
    tokens.insert(-1, probe)
    reader = Reader(until, ModuleBuilder(until))
    stream = StatementTokens(until, tokens)
    try:
        for _ in range(MISTAKES_AT_MOST):
            if reader.feed(_until(probe, stream)) is None:
                break
            _, stream = recover(until, reader, tokens, stream)
    except DiagnosticError:  # too many brackets
        return None
    if stream.position >= len(tokens) or tokens[stream.position] is not probe:
        return None  # given up together with an error before it
    expected = reader.expected()
    words = tuple(word for word, kind in literals().items() if word.isalpha() and kind in expected)
    return Awaited(reader.beginnings(), words, "NAME" in expected, before)


def _until(probe: Token, stream: StatementTokens) -> Iterator[Token]:
    for token in stream:
        if token is probe:
            return
        yield token


def _has_closing_quote(token: Token) -> bool:
    return token.type == "STRING" and len(token) > 1 and token.endswith('"')
