"""Labels in LaTeX: symbols and shapes as math, words as text, no character with a meaning.

Only commands of the LaTeX kernel are used, so that the document's own fonts set every label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from unicodedata import normalize

from xg.diagnostics import escape
from xg.figures.draw.typeset import TextSpan
from xg.figures.model.richtext import scripts

_SIZES: Final = (
    (14.0, r"\Large"),
    (12.0, r"\large"),
    (10.0, r"\normalsize"),
    (9.0, r"\small"),
    (8.0, r"\footnotesize"),
    (0.0, r"\scriptsize"),
)  # those of a document of 10 points
_GREEK: Final = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu",
    "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "varphi",
    "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta",
    "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon", "Φ": "Phi", "Ψ": "Psi",
    "Ω": "Omega",
}  # fmt: skip
_NAMED: Final = {
    "⊤": "top", "·": "cdot", "•": "bullet", "⊕": "oplus", "⊙": "odot", "⊗": "otimes",
    "×": "times", "√": "surd", "→": "rightarrow", "←": "leftarrow", "⇒": "Rightarrow",
    "⇐": "Leftarrow", "↔": "leftrightarrow", "∂": "partial", "≤": "leq", "≥": "geq", "≠": "neq",
    "≈": "approx", "∞": "infty", "∈": "in", "∑": "sum", "∏": "prod", "…": "ldots",
    "●": "bullet", "÷": "div", "±": "pm", "∇": "nabla", "∀": "forall", "∃": "exists",
}  # fmt: skip
_SIGNS: Final = {
    "=": "{=}", "+": "{+}", "*": "{*}", "<": "{<}", ">": "{>}", "|": "{|}", ":": "{:}",
    "(": "(", ")": ")", "[": "[", "]": "]", "/": "/", ".": ".", "−": "{-}", "-": "{-}",
    ",": ",", ", ": ", ", " ": r"\ ", "²": "^{2}", "³": "^{3}", "¹": "^{1}",
} | {sign: f"{{\\{name}}}" for sign, name in _NAMED.items()}  # fmt: skip
# A combining mark as an accent of text and of math.
_MARKS: Final = {
    "\u0300": ("`", "grave"), "\u0301": ("'", "acute"), "\u0302": ("^", "hat"),
    "\u0303": ("~", "tilde"), "\u0304": ("=", "bar"), "\u0306": ("u", "breve"),
    "\u0307": (".", "dot"), "\u0308": ('"', "ddot"), "\u030c": ("v", "check"),
}  # fmt: skip
_LETTERS: Final = {
    "#": r"\#{}", "$": r"\${}", "%": r"\%{}", "&": r"\&{}", "_": r"\_{}", "{": r"\{",
    "}": r"\}", "\\": r"\textbackslash{}", "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': "{''}", "`": r"\`{}", "'": "{'}", "-": "{-}", ",": ",", ", ": ", ", "—": "{---}",
    "–": "{--}", "…": r"\ldots{}", "’": "{'}", "“": "{``}", "”": "{''}", "ß": r"\ss{}",
    "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "\xa0": "~",
}  # fmt: skip
_CLUSTER: Final = re.compile(", |[A-Za-z]+(?![\u0300-\u036f])|[0-9]+|.[\u0300-\u036f]*", re.DOTALL)
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ()\[\]/.:;!?=+*@]")
_SYMBOL: Final = re.compile(r"[^\W_]+")
_UNKNOWN: Final = r"\xgchar{"


class _Atom(NamedTuple):
    """A span on the baseline with its scripts; below one is another behind an underscore."""

    base: TextSpan
    sub: str
    sup: str

    @property
    def is_math(self) -> bool:
        if self.sub or self.sup:
            return True
        if self.base.italic:
            return " " not in self.base.text  # words of a note are text
        if self.base.bold:
            return _SYMBOL.fullmatch(self.base.text) is not None
        return all(sign in _SIGNS or sign in _GREEK or sign.isdigit() for sign in self.base.text)


def label(spans: Sequence[TextSpan], muted: str) -> str:
    """Return a line's spans as LaTeX, in sizes of the document; muted ones in the colour `muted`.

    A character that LaTeX has no name for is written as `\\xgchar{its code}`.
    """
    parts: list[str] = []
    for (size, quiet), atoms in groupby(_atoms(spans), lambda a: (_size(a.base), a.base.muted)):
        inner = ""
        for is_math, group in groupby(atoms, lambda atom: atom.is_math):
            if is_math:
                math = "".join(map(_math_atom, group))
                # TeX drops a space at the end of a formula.
                inner += f"${math[:-1]}\\ $" if math.endswith(", ") else f"${math}$"
            else:
                inner += "".join(map(_text_atom, group))
        color = f"\\color{{{muted}}}" if quiet and muted else ""
        parts.append(f"{{{size}{color} {inner}}}")
    return "".join(parts)


def _atoms(spans: Sequence[TextSpan]) -> Iterator[_Atom]:
    """Give every span its scripts, which are the spans below and above the baseline behind it."""
    atom: _Atom | None = None
    lowest = 0.0  # where the subscript is; what is lower is its own
    for span in spans:
        if atom is None or span.y == 0:
            if atom is not None:
                yield atom
            atom = _Atom(span, "", "")
        elif span.y > 0:
            is_nested = bool(atom.sub) and span.y > lowest
            lowest = span.y if not atom.sub else lowest
            atom = atom._replace(sub=atom.sub + "_" * is_nested + span.text)
        else:
            atom = atom._replace(sup=atom.sup + span.text)
    if atom is not None:
        yield atom


def _size(span: TextSpan) -> str:
    return next(name for least, name in _SIZES if span.size >= least)


def _text_atom(atom: _Atom) -> str:
    text = _text_in_face(atom.base.text, bold=atom.base.bold)
    return f"\\ \\textit{{{text.lstrip()}}}" if atom.base.italic else text


def _math_atom(atom: _Atom) -> str:
    text, face = atom.base.text, "bold" if atom.base.bold else "it" if atom.base.italic else "rm"
    below = "".join(
        f"_{{{_math(part, 'rm', script=True)}}}" if is_nested else _math(part, "rm", script=True)
        for part, is_nested in scripts(atom.sub)
    )
    sub = f"_{{{below}}}" if below else ""
    sup = f"^{{{_math(atom.sup, 'rm', script=True)}}}" if atom.sup else ""
    base = _math(text, face)
    return f"{{{base}}}{sub}{sup}" if (sub or sup) and "^" in base else base + sub + sup


def _math(text: str, face: str, *, script: bool = False) -> str:
    """Return math for a text; one with other characters than math has is set as text in it."""
    pieces = [_math_piece(match[0], face) for match in _CLUSTER.finditer(escape.clean(text))]
    known = [piece for piece in pieces if piece is not None]
    if len(known) == len(pieces):
        return "".join(known)
    size = r"\scriptsize " if script else ""
    return f"\\mbox{{{size}{_text_in_face(text, bold=face == 'bold')}}}"


def _math_piece(cluster: str, face: str) -> str | None:
    if cluster.isascii() and cluster.isalpha():
        if face == "it" and len(cluster) == 1:
            return cluster
        return f"\\math{'bf' if face == 'bold' else face}{{{cluster}}}"
    if cluster.isascii() and cluster.isdigit():
        return f"\\mathbf{{{cluster}}}" if face == "bold" else cluster
    if cluster in _GREEK:
        name = f"\\{_GREEK[cluster]}"
        return f"\\mbox{{\\boldmath${name}$}}" if face == "bold" else f"{{{name}}}"
    base, *marks = normalize("NFD", cluster)
    if not marks or marks[0].isascii():
        return _SIGNS.get(cluster)
    inside = _math_piece(base, face)
    return _accented(inside, marks) if inside else None


def _accented(inside: str, marks: Sequence[str]) -> str | None:
    for mark in marks:
        if mark not in _MARKS:
            return None
        inside = f"\\{_MARKS[mark][1]}{{{inside}}}"
    return inside


def _text_in_face(text: str, *, bold: bool) -> str:
    words = "".join(_text(match[0]) for match in _CLUSTER.finditer(escape.clean(text)))
    return f"\\textbf{{{words}}}" if bold else words


def _text(cluster: str) -> str:
    """Return text for one character with its marks, or for letters or digits as they are."""
    if cluster in _LETTERS:
        return _LETTERS[cluster]
    if all(map(_PLAIN.fullmatch, cluster)):
        return cluster
    if cluster in _SIGNS or cluster in _GREEK:
        return f"${_math_piece(cluster, 'rm')}$"
    base, *marks = normalize("NFD", cluster)
    if marks and all(mark in _MARKS for mark in marks):
        if base.isascii() and base.isalpha():
            letter = f"\\{base}" if base in "ij" else base
            for mark in marks:
                letter = f"\\{_MARKS[mark][0]}{{{letter}}}"
            return letter
        if base in _GREEK:
            return f"${_accented(_math_piece(base, 'rm') or '', marks)}$"
    return "".join(f"{_UNKNOWN}{ord(character):X}}}" for character in cluster)
