"""The language's colors: a TextMate grammar, made from the words and signs of the Lark grammar.

`grammar()` is what editors/vscode ships as `xg.tmLanguage.json`; a test holds the file to it, and
the colors to the tokens of the compiler. A word or sign that has no scope here is an error, so the
language cannot grow without its colors. Expressions keep to what Oniguruma and Python's `re` both
read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from xg_grammar import literals, patterns

Rule = dict[str, Any]

_DECLARES: Final = "storage.type.xg"
_JOINS: Final = "keyword.control.xg"
_NODE: Final = "entity.name.function.node.xg"  # a sign in a node is seen as a name there
_SIGN: Final = "keyword.operator.xg"
_FUNCTION: Final = "entity.name.function.xg"
_TYPE: Final = "entity.name.type.xg"
_EDGE: Final = "variable.other.edge.xg"
_DIM: Final = "variable.other.constant.dim.xg"
_VALUE: Final = "variable.other.xg"

# The scope of every literal of the grammar, by the name of its token.
SCOPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ["EDITION", "USE", "DIM", "MESH", "OPTION", "OP", "BLOCK", "PARAM", "STATE", "NEXT"],
        _DECLARES,
    ),
    **dict.fromkeys(["PLAN", "EXAMPLE", "GIVEN", "EXPECT", "HIGHLIGHT", "NOTE"], _DECLARES),
    **dict.fromkeys(["FROM", "WHERE", "IN", "AS", "IF", "OVER", "REVERSED", "OF"], _JOINS),
    **dict.fromkeys(["WRONG", "FROZEN"], _JOINS),
    **dict.fromkeys(["ARROW", "SINGLE", "DOUBLE"], "keyword.operator.arrow.xg"),
    **dict.fromkeys(["MATMUL", "AT", "ADD", "MUL"], _NODE),
    "CROSS": "keyword.operator.repeat.xg",
    **dict.fromkeys(["PLUS", "STAR", "MINUS", "SLASH", "CARET", "GREATER", "AT_LEAST"], _SIGN),
    **dict.fromkeys(["PLUS_MINUS", "PLUS_SLASH_MINUS", "EQUAL", "VBAR"], _SIGN),
    **dict.fromkeys(["DOTS", "UNDERSCORE"], "constant.language.xg"),
    **dict.fromkeys(["COMMA", "SEMICOLON", "COLON", "DOT"], "punctuation.separator.xg"),
    **dict.fromkeys(["LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"], "punctuation.section.xg"),
}

# The scopes that a token of each pattern may have, the outermost in each case; names differ by
# their context.
PATTERNS: Final[Mapping[str, tuple[str, ...]]] = {
    "COMMENT": ("comment.line.number-sign.xg",),
    "STRING": ("string.quoted.double.xg",),
    "SCHEDULE": (_VALUE,),
    "NUMBER": ("constant.numeric.xg",),
    "NAME": (_FUNCTION, _TYPE, _EDGE, _DIM, _VALUE),
}


def grammar() -> Rule:
    """The whole grammar, as JSON has it."""
    return {
        "name": "xg",
        "scopeName": "source.xg",
        "fileTypes": ["xg"],
        "patterns": [_include("heads"), _include("nodes"), _include("plain")],
        "repository": {
            "heads": {"patterns": _heads()},
            "nodes": {"patterns": _nodes()},
            "plain": {"patterns": [*_fixed(), _brackets(), *_names()]},
            "sizes": {"patterns": [*_fixed(), _brackets(), _match(_name(), _DIM)]},
        },
    }


def written() -> str:
    """The grammar as the file that is shipped."""
    return json.dumps(grammar(), indent=2, ensure_ascii=False) + "\n"


# ---- names in fixed places -----------------------------------------------------------------------


def _heads() -> list[Rule]:
    """Declarations up to their braces, and lists of dims and of names used from files."""
    block = {
        "begin": rf"{_word('block')}[ \t]+({_name()})",
        "beginCaptures": _captures(_DECLARES, _TYPE),
        "end": rf"(?=\{{)|(?=^[ \t]*{_any(_spelled(_DECLARES))})",
        "patterns": [_include("plain")],
    }
    return [
        block,
        _match(rf"{_word('op')}[ \t]+({_name()})", _DECLARES, _FUNCTION),
        _match(rf"{_word('plan')}[ \t]+({_name()})", _DECLARES, _TYPE),
        _match(rf"{_word('of')}[ \t]+({_name()})", _JOINS, _TYPE),
        *(_line(word, "sizes") for word in ("dim", "mesh")),
    ]


def _nodes() -> list[Rule]:
    """Names in the places of operators and blocks, and the names of edges."""
    times = r"(?=[ \t]*[×*])"
    return [
        _match(r"[+*](?=[ \t]*<[-=])", _NODE),  # as signs of formulas they are plain
        _match(rf"(->)[ \t]*({_name()}){times}", SCOPES["ARROW"], _DIM),
        _match(rf"(->)[ \t]*({_name()})", SCOPES["ARROW"], _FUNCTION),
        _match(rf"(×)[ \t]*({_name()})", SCOPES["CROSS"], _FUNCTION),
        _match(rf"(:)[ \t]*({_name()})", SCOPES["COLON"], _EDGE),
    ]


def _brackets() -> Rule:
    """Shapes and axes; one that is not closed ends with its line."""
    return {
        "begin": r"\[",
        "beginCaptures": {"0": {"name": SCOPES["LSQB"]}},
        "end": r"(\])|$",
        "endCaptures": _captures(SCOPES["RSQB"]),
        "patterns": [_include("sizes")],
    }


# ---- tokens --------------------------------------------------------------------------------------


def _fixed() -> list[Rule]:
    """Comments, texts, numbers, words and signs: they are the same everywhere."""
    kinds = ("COMMENT", "STRING")
    signs = sorted((s for s in literals() if not s.isalpha()), key=lambda s: (-len(s), s))
    return [
        *(_match(patterns()[kind], PATTERNS[kind][0]) for kind in kinds),
        *(
            _match(rf"(?<![{_letters()}]){patterns()[kind]}", PATTERNS[kind][0])
            for kind in ("SCHEDULE", "NUMBER")
        ),
        *(_match(_any(_spelled(scope)), scope) for scope in (_DECLARES, _JOINS)),
        *(_match(_escaped(sign), SCOPES[literals()[sign]]) for sign in signs if sign != "["),
    ]


def _names() -> list[Rule]:
    """A name in front of its operands, and any other."""
    called = r"(?=(?:\[[^\]\n]*\])?\()"
    return [_match(_name() + called, _FUNCTION), _match(_name(), _VALUE)]


def _spelled(scope: str) -> list[str]:
    return [text for text, kind in literals().items() if text.isalpha() and SCOPES[kind] == scope]


def _name() -> str:
    """A name that is no word of the language."""
    words = sorted(text for text in literals() if text.isalpha())
    return rf"(?<![{_letters()}])(?!{_any(words)}){patterns()['NAME']}"


def _letters() -> str:
    """The characters that may continue a name, as in a class."""
    return patterns()["NAME"].rpartition("[")[2].removesuffix("]*")


def _word(word: str) -> str:
    return rf"(?<![{_letters()}])({word})(?![{_letters()}])"


def _any(words: Iterable[str]) -> str:
    return rf"(?<![{_letters()}])(?:{'|'.join(words)})(?![{_letters()}])"


def _escaped(sign: str) -> str:
    if sign == "_":
        return rf"(?<![{_letters()}])_(?![{_letters()}])"
    return "".join(rf"\{character}" if character.isascii() else character for character in sign)


# ---- rules ---------------------------------------------------------------------------------------


def _match(expression: str, *scopes: str) -> Rule:
    """One scope for the whole, or one for each group."""
    if len(scopes) == 1:
        return {"match": expression, "name": scopes[0]}
    return {"match": expression, "captures": _captures(*scopes)}


def _line(word: str, inside: str) -> Rule:
    """A declaration of one line."""
    return {
        "begin": _word(word),
        "beginCaptures": _captures(_DECLARES),
        "end": "$",
        "patterns": [_include(inside)],
    }


def _captures(*scopes: str) -> Rule:
    return {str(place): {"name": scope} for place, scope in enumerate(scopes, 1)}


def _include(name: str) -> Rule:
    return {"include": f"#{name}"}
