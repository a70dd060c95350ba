"""Spell letters and signs: Greek names, glyphs, and the signs of other languages."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

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
_COMPARISON = "turn the comparison round: `b > a`"  # which is said of the operands that it has

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


# Comparisons as other languages write them, turned round in the author's own symbols.


_LINE: Final = 200  # characters at each side of a sign that are looked at, at most
_SIGN: Final = re.compile(r"<=|>=|≤|≥|<-(?!\s)|<|(?<![-=])>")
_TURNED: Final = {"<": ">", "<-": ">", "<=": ">=", "≤": ">=", ">": "<", ">=": "<=", "≥": "<="}
_NAME: Final = re.compile(r"[^\W\d_][\w.]*")
_OPEN, _CLOSE = "([{", ")]}"
_ENDS: Final = (",", ";", ":", "#", "->", "|", "&", " if ", " where ", " and ", " or ")


def turned_round(text: str, start: int, end: int) -> str:
    """The help for a sign of a comparison that begins an arrow here, at these offsets."""
    before, behind = _before(text, start), _operands_after(text, end)
    written = native(text[start:end])  # `←` is an arrow too
    compared = before + written + behind
    if not before.strip() or not behind.strip():
        return "turn the comparison round: `b > a`, `b >= a`"
    if _in_operator(text, start):
        return f"turn the comparison round: `{_written(compared)}`"
    left, right, sign = before.strip(), behind.strip(), _TURNED[written]
    defined, used = f"op f(x, y) = y {sign} x", "-> f<-…"
    if _is_number(right):
        defined, used = f"op f(x) = {right} {sign} x", "-> f"
    elif _NAME.fullmatch(right):
        used = f"-> f<-{right}"
    used = f"{left} {used}" if _NAME.fullmatch(left) else used
    return f"an operator of yours compares: `{defined}`, and `{used}`"


def _written(compared: str) -> str:
    """A comparison with `>` and `>=`, or several, joined by the function that joins them."""
    signs = [found[0] for found in _SIGN.finditer(compared)]
    parts = [part.strip() for part in _SIGN.split(compared)]
    if parts and signs[-1:] == ["<-"]:
        parts[-1] = f"-{parts[-1]}"
    single = [
        f"{right} {_TURNED[sign]} {left}" if sign[0] in "<≤" else f"{left} {sign} {right}"
        for left, sign, right in zip(parts, signs, parts[1:], strict=False)
    ]
    joined = single[-1]
    for each in reversed(single[:-1]):
        joined = f"and({each}, {joined})"
    return joined


def _in_operator(text: str, start: int) -> bool:
    """Whether the innermost declaration at a place is an operator: only these have comparisons."""
    declared = re.findall(r"^\w+", text[:start], re.MULTILINE)
    return bool(declared) and declared[-1] == "op"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d[\w.]*", text) is not None


def _before(text: str, start: int) -> str:
    """The operands of a comparison to the left of its sign: to a comma, a bracket or `=`."""
    line = text[max(text.rfind("\n", 0, start) + 1, start - _LINE) : start]
    depth, place = 0, len(line)
    for place in range(len(line) - 1, -1, -1):
        char = line[place]
        depth += (char in _CLOSE) - (char in _OPEN)
        is_equal = char == "=" and line[place - 1 : place] not in ("<", ">")
        end = _end(line, place) or ("=" if is_equal else "")
        if depth < 0 or (depth == 0 and end):
            return line[place + len(end or char) :].removeprefix("where ")
    return line


def _operands_after(text: str, end: int) -> str:
    """The operands to the right: to a comma, a bracket or an arrow."""
    line = text[end : end + _LINE].partition("\n")[0]
    depth = 0
    for place, char in enumerate(line):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0 or (depth == 0 and _end(line, place)):
            return line[:place]
    return line


def _end(line: str, place: int) -> str:
    """Return the word or sign at a place that ends an operand, or an empty text."""
    return next((each for each in _ENDS if line.startswith(each, place)), "")
