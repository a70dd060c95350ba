"""Recognition of errors at the token where the parser stopped, else the expected tokens.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xg.diagnostics.diagnostic import Span
from xg.syntax import errors
from xg.syntax.error_token import Repair, Stop, describe_choices, describe_token
from xg.syntax.known_labels import (
    LABELS,
    SIGNS,
    SIGNS_ELSEWHERE,
    UNATTACHED,
    assigned_chain,
    chain_in_a_node,
    infix_in_chain,
    repeated,
)
from xg.syntax.known_lines import DECLARING, HEADS, USES, WORDS
from xg.syntax.known_python import PYTHON
from xg.syntax.known_steps import GUARDS, behind_a_sign, in_chain, in_expression
from xg.syntax.reader import Reader
from xg.syntax.spelling import turned_round
from xg.syntax.tokens import CLOSES, ITEM_WORDS, OPENS, STATEMENT_WORDS
from xg_grammar import literals

_ENDS = (
    {"$END", "LBRACE", "RBRACE", "COLON", "ARROW", "OVER", "IF", "AS"}
    | ITEM_WORDS
    | STATEMENT_WORDS
)
_NEAR = 200  # characters in front of a token that are looked at, at most
_LISTING = {"DIM", "MESH", "PARAM", "STATE"}
_ATOMS = {"NAME", "NUMBER", "UNDERSCORE", "RPAR"}
_BRACKETS = {"LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}


def find(stop: Stop) -> Repair:
    """The error at a stop."""
    for rule in _KNOWN:
        finding = rule(stop)
        if finding is not None:
            return finding
    expected = describe_choices(stop.reader, stop.expected)
    return Repair(errors.Unexpected(stop.here, expected, describe_token(stop.token, stop.here)))


def _in_body(reader: Reader) -> bool:
    """Whether a block, a plan or an example is open."""
    return reader.awaits("statement") or reader.awaits("placement") or reader.awaits("claim")


# ---- brackets ------------------------------------------------------------------------------------


def _unclosed_block(stop: Stop) -> Repair | None:
    begins_item = stop.token.type in ITEM_WORDS and stop.begins_line
    if stop.brace and (stop.token.type == "$END" or begins_item) and _in_body(stop.reader):
        opening = stop.span(stop.brace)
        return Repair(errors.UnclosedBlock(opening, stop.here) if opening.text else None)
    return None


def _unclosed_bracket(stop: Stop) -> Repair | None:
    if stop.opening is None or OPENS[stop.opening.type] not in stop.expected:
        return None
    if stop.begins_line or stop.token.type in _ENDS:
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


# ---- lists and products --------------------------------------------------------------------------


def _missing_times(stop: Stop) -> Repair | None:
    before, token = stop.previous, stop.token
    if before and before.type == "NUMBER" and token.type == "NAME" and before.end == token.start:
        problem = errors.MissingTimes(stop.span(before), stop.here)
        return Repair(problem, ("STAR",))
    return None


def _missing_comma(stop: Stop) -> Repair | None:
    before, kind = stop.previous, stop.token.type
    if before is None or "COMMA" not in stop.expected:
        return None
    if stop.opening is None and (stop.begins_line or "ARROW" in stop.expected):
        return None  # it may be the arrow that is missing
    atoms = before.type in _ATOMS and (kind in _ATOMS or kind == "LPAR")
    rows = before.type == "RSQB" and kind == "LSQB"
    if not (atoms or rows) or not stop.reader.fits(["COMMA", kind]):
        return None
    if stop.repaired:
        return Repair(None, ("COMMA",))
    if stop.here.text in ("and", "or") and stop.following and stop.following.type != "LPAR":
        return Repair(
            errors.InfixWord(stop.here, f"{stop.here.text}(a > b, c > d)"), ("COMMA",), drop=True
        )
    return Repair(errors.MissingComma(stop.span(before), stop.here, _list(stop)), ("COMMA",))


def _list(stop: Stop) -> Span:
    """The list around a stop: to the bracket that closes it, or to the end of the line."""
    begun = stop.statement if stop.statement and stop.statement.type in _LISTING else stop.previous
    text, start = stop.source.text, (stop.opening or begun or stop.token).start
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] in "([") - (text[end] in ")]")
        if text[end] == "\n" or (stop.opening and depth == 0):
            return Span(stop.source, start, end + (text[end] != "\n"))
    return Span(stop.source, start, len(text))


# ---- words and signs in the wrong place ----------------------------------------------------------


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


def _operand_without_arrow(stop: Stop) -> Repair | None:
    sign = stop.previous
    if sign is None or stop.token.type != "NAME" or "ARROW" not in stop.expected:
        return None
    if sign.type not in SIGNS - UNATTACHED or stop.begins_line:
        return None
    called = re.match(r"\([^()]*\)", stop.line[1])
    turned = re.match(r"\^ ?T\b|\.T\b", stop.line[1])
    operand = f"T({stop.here.text})" if turned else repeated(stop, stop.here.text)
    operand = stop.here.text + called[0] if called else operand
    return Repair(errors.OperandWithoutArrow(stop.here, stop.span(sign).text, operand))


def _number_in_chain(stop: Stop) -> Repair | None:
    """At the start of a chain, or where an operand is to come."""
    if stop.token.type not in ("NUMBER", "MINUS") or "NUMBER" in stop.expected:
        return None
    attached = stop.previous is not None and stop.previous.type in ("SINGLE", "DOUBLE", "LPAR")
    begins = stop.begins_line and stop.reader.awaits("statement")
    if begins or (attached and "NAME" in stop.expected):
        value = stop.following
        if stop.token.type != "MINUS" or not value or value.type != "NAME":
            row = re.match(r"(?:[x×*])\s*(\w[\w.]*)\((\w+)\)", stop.line[1]) if begins else None
            meant = f"{row[2]} -> {stop.here.text} × {row[1]}" if row else ""
            return Repair(errors.NumberInChain(stop.here, meant))
        chain = f"{stop.span(value).text} -> scale(-1)"
        meant = f"({chain})" if attached and stop.opening is None else chain
        return Repair(errors.NumberInChain(stop.here, meant))
    return None


def _colon_for_brace(stop: Stop) -> Repair | None:
    if stop.token.type == "COLON" and "LBRACE" in stop.expected:
        return Repair(errors.ColonForBrace(stop.here), ("LBRACE",), drop=True)
    return None


def _colon_before_shape(stop: Stop) -> Repair | None:
    shape_follows = stop.following is not None and stop.following.type == "LSQB"
    declares = stop.statement is not None and stop.statement.type in DECLARING
    if stop.opening and not declares:
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


def _arrow_as_comparison(stop: Stop) -> Repair | None:
    if stop.token.type in ("SINGLE", "DOUBLE") and "GREATER" in stop.expected:
        said = turned_round(stop.source.text, stop.here.start, stop.here.end)
        return Repair(errors.ArrowAsComparison(stop.here, said), ("GREATER",), drop=True)
    return None


def _chained_comparison(stop: Stop) -> Repair | None:
    """`1 > x > 0`, where comparisons are joined by a function."""
    if stop.token.type not in ("GREATER", "AT_LEAST"):
        return None
    before = re.search(r"([^(),=>]+)(?<!-)(>=?)([^(),=>]+)$", stop.line[0][-_NEAR:])
    last = re.match(r"[\w. +*/^-]+", stop.line[1])
    if before is None or last is None:
        return None
    first, sign, middle = (part.strip() for part in before.groups())
    meant = f"and({first} {sign} {middle}, {middle} {stop.sign} {last[0].strip()})"
    reason = "use a function to join comparisons"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _product_of_parentheses(stop: Stop) -> Repair | None:
    """`sigmoid(x) (1 - x)` in an expression."""
    before, in_op = stop.previous, stop.statement is not None and stop.statement.type == "OP"
    if not in_op or stop.token.type != "LPAR" or before is None or before.type != "RPAR":
        return None
    if not {"STAR", "SLASH"} <= stop.expected:
        return None
    left = re.search(r"\w*\([^()]*\)$", stop.line[0][-_NEAR:])
    right = re.match(r"[^()]*\)", stop.line[1])
    meant = f"{left[0] if left else '…'} * ({right[0] if right else '…'}"
    reason = "a product is written with `*`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("STAR",))


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
    in_use = stop.statement and stop.statement.type == "USE"
    if in_use and stop.token.type in ("DOT", "DOTS", "SLASH", "MINUS"):
        help = 'write `use NAME from "layers.xg"`; a bare name is a file of the shipped library'
        return Repair(errors.UnquotedFile(stop.here, help))
    return None


def _file_before_names(stop: Stop) -> Repair | None:
    in_use = stop.statement and stop.statement.type == "USE"
    if in_use and stop.token.type == "STRING" and "NAME" in stop.expected:
        return Repair(errors.FileBeforeNames(stop.here, f"use NAME from {stop.here.text}"))
    return None


def _semicolon(stop: Stop) -> Repair | None:
    if stop.token.type != "SEMICOLON" or not {"_NL", "$END", "RBRACE"} & stop.expected:
        return None
    ends = stop.following is None or stop.following.type in ("_NL", "$END", "RBRACE")
    return Repair(errors.Semicolon(stop.here), () if ends else ("_NL",), drop=True)


def _run_on_lines(stop: Stop) -> Repair | None:
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


_KNOWN: tuple[Callable[[Stop], Repair | None], ...] = (
    _unclosed_block,
    *HEADS,
    _colon_before_shape,
    _named_by_a_word,
    chain_in_a_node,
    behind_a_sign,
    *GUARDS,
    in_expression,
    in_chain,
    *USES,
    *PYTHON,
    *WORDS,
    *SIGNS_ELSEWHERE,
    _unclosed_bracket,
    _wrong_bracket,
    _stray_bracket,
    _missing_times,
    _missing_comma,
    _reserved_name,
    _default_among_data,
    assigned_chain,
    _colon_for_brace,
    _stacked_power,
    infix_in_chain,
    _operand_without_arrow,
    _number_in_chain,
    _stacked_sign,
    _arrow_as_comparison,
    _chained_comparison,
    _product_of_parentheses,
    _statement_outside,
    _unquoted_file,
    _file_before_names,
    _semicolon,
    _run_on_lines,
    *LABELS,
)
