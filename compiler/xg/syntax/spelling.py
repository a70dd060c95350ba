"""Spell letters and signs: Greek names, glyphs, and the signs of other languages."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import NamedTuple

from xg_grammar import literals

# Only letters that no Latin letter resembles; the others are written out (`alpha`).
GREEK = {
    "Γ": "Gamma",
    "Δ": "Delta",
    "Θ": "Theta",
    "Λ": "Lambda",
    "Ξ": "Xi",
    "Π": "Pi",
    "Σ": "Sigma",
    "Φ": "Phi",
    "Ψ": "Psi",
    "Ω": "Omega",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "λ": "lambda",
    "μ": "mu",
    "ξ": "xi",
    "π": "pi",
    "σ": "sigma",
    "φ": "phi",
    "ψ": "psi",
    "ω": "omega",
}
_LETTERS = {word: letter for letter, word in GREEK.items()}
_TO_ASCII = str.maketrans(GREEK)

# A sign in the place of an operator, by the kind of its token.
GLYPHS = {"MATMUL": "•", "AT": "•", "ADD": "⊕", "PLUS": "⊕", "MUL": "⊙", "STAR": "⊙"}


def ascii_name(name: str) -> str:
    """The one name of a name: `γ_1` is `gamma_1`."""
    return name if name.isascii() else name.translate(_TO_ASCII)


def greek_name(name: str) -> str:
    """A name as `xg fmt` writes it: `gamma_1` is `γ_1`, its gradient `dgamma_1` is `dγ_1`."""
    return _greek_words().sub(lambda found: found[1] + _LETTERS[found[2]], ascii_name(name))


@cache
def _greek_words() -> re.Pattern[str]:
    """Compile a pattern for a letter's name as a whole word, or after the `d` of a gradient."""
    return re.compile(rf"(^d?|(?<![A-Za-z]))({'|'.join(_LETTERS)})(?![A-Za-z])")


# Signs known from other languages and from good typography, and what they are here.


class Meant(NamedTuple):
    """The kind of token to continue with, and the remark for the author."""

    kind: str
    said: str


_ARROW = Meant("ARROW", "dataflow is written `->`")
_ATTACH = Meant("SINGLE", "an operand beside the chain is attached with `<-`")
_MATMUL = Meant(
    "MATMUL", "matmul is written `•`, or `@` from the keyboard, and sizes are multiplied by `*`"
)
_MINUS = Meant("MINUS", "minus is written `-`")
_REST = Meant("DOTS", "any number of axes is written `..`")
_COMPARISON = (
    "turn the comparison round: `b > a`"  # `formulas.turn_comparison` has the author's own
)

COMMENT = Meant("COMMENT", "a comment begins with `#`")
QUOTED = Meant("STRING", 'a text goes in double quotes: `"…"`')

FOREIGN = {
    "==>": _ARROW,  # Mermaid
    "-->": _ARROW,
    "-.->": _ARROW,
    "---": _ARROW,
    "=>": _ARROW,
    "|>": _ARROW,
    "→": _ARROW,
    "⟶": _ARROW,
    "⇒": _ARROW,
    "←": _ATTACH,
    "<--": _ATTACH,
    "⇐": Meant("DOUBLE", "the second operand of a matmul is attached with `<=`"),
    "&": Meant("COMMA", "operands before a chain are separated by commas"),
    "&&": Meant("COMMA", "operands before a chain are separated by commas"),
    "==": Meant(
        "EQUAL", "one `=` is enough after `if`; an op compares: `op same(x, y) = equal(x, y)`"
    ),
    ":=": Meant("EQUAL", "set a value with `=`"),
    "!=": Meant(
        "EQUAL", "list the other words, `if norm = pre | post`; an op compares: `or(x > y, y > x)`"
    ),
    "<": Meant("GREATER", _COMPARISON),
    "≤": Meant("AT_LEAST", _COMPARISON),
    "≥": Meant("AT_LEAST", "a comparison is written `>` or `>=`"),
    "**": Meant("CARET", "a power is written `^`"),
    "...": _REST,
    "…": _REST,
    "·": _MATMUL,
    "⋅": _MATMUL,
    "∙": _MATMUL,
    "●": _MATMUL,
    "⊗": Meant("MUL", "the elementwise product is written `⊙`, or `*` from the keyboard"),
    "✕": Meant("CROSS", "repetition is written `×`, or `*` from the keyboard"),
    "−": _MINUS,
    "–": _MINUS,
    "—": _MINUS,
    "÷": Meant("SLASH", "division is written `/`"),
}
COMPARISONS = ("==", "!=")  # where they may not stand, their parts have no meaning
TURNED = ("<", "≤")
REPHRASED = (*TURNED, "!=")  # another sign alone would say something else


@cache
def native(sign: str) -> str:
    """Return the language's own sign for one known from elsewhere, and any other text as it is.

    A token keeps the text that the author wrote, so a table of signs is asked for this.
    `!=` and the turned comparisons stay: another sign alone would say something else.

    >>> native("∙"), native("−"), native("•"), native("<")
    ('•', '-', '•', '<')
    """
    if sign not in FOREIGN or sign in REPHRASED:
        return sign
    kind = FOREIGN[sign].kind
    return next(text for text, name in literals().items() if name == kind)


# Letters that look Latin: the name to write instead.
SPELLED_OUT = {
    "α": "alpha",
    "ι": "iota",
    "κ": "kappa",
    "ν": "nu",
    "ο": "omicron",
    "ρ": "rho",
    "ς": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "χ": "chi",
    "µ": "mu",  # the micro sign
    "ϵ": "epsilon",
    "ϑ": "theta",
    "ϕ": "phi",
}

_OPERAND = 100  # characters, at most
_LEFT = re.compile(r"[\w.]+$|[\w.]*\)$")
_RIGHT = re.compile(r"//\s*([\w.]+|\()\s*(?=[-+*/^,;)\]}#<>=]|$|or\b|and\b)", re.MULTILINE)


def division_at(text: str, start: int) -> Meant | None:
    """The meaning of a `//` at an offset that divides, as Python's; None where it is a comment.

    It divides behind a number or a name of a size or of a formula, in front of a number, of a name
    that the text has elsewhere too, or of a parenthesis.
    """
    before = text[text.rfind("\n", 0, start) + 1 : start]
    left, right = _LEFT.search(before.rstrip()[-_OPERAND:]), _RIGHT.match(text, start)
    if "#" in before or not left or not right:
        return None
    first, *_ = before.split(None, 1)
    in_bracket = before.count("[") + before.count("(") > before.count("]") + before.count(")")
    if not in_bracket and first not in ("dim", "mesh", "op"):
        return None
    divisor = right[1]
    if divisor != "(" and not divisor[0].isdigit():
        elsewhere = re.finditer(rf"\b{re.escape(divisor)}\b", text)
        if len(list(islice(elsewhere, 2))) < 2:
            return None
    exact = "nothing is rounded" if first == "op" else "sizes divide exactly"
    again = before.rstrip().removesuffix(left[0]).rstrip().endswith("/")
    if "(" in divisor or left[0].endswith(")") or again:
        return Meant("SLASH", f"division is written `/`: {exact}")
    return Meant("SLASH", f"write `{left[0]}/{divisor}`: {exact}")
