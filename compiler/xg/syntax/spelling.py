"""Spellings of one thing: Greek letters and their names, signs and their glyphs."""

from __future__ import annotations

import re
from functools import cache

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
    """The name of a letter as a whole word of a name, or behind the `d` of a gradient."""
    return re.compile(rf"(^d?|(?<![A-Za-z]))({'|'.join(_LETTERS)})(?![A-Za-z])")
