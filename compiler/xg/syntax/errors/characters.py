"""Errors in characters and words: text that is no token of the language."""

from __future__ import annotations

import unicodedata
from typing import Final

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, ProblemAt, quoted
from xg.diagnostics.source import Span
from xg.syntax.spelling import SPELLED_OUT
from xg_grammar import literals


class NotText(ProblemAt):
    """A byte that is not UTF-8."""

    code = "XG0101"
    title = "this file is not UTF-8 text"

    def helps(self) -> tuple[str, ...]:
        """Name the encoding, if it shows."""
        help = "save the file as UTF-8"
        if self.span.source.text.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            help = "this looks like UTF-16: save the file as UTF-8"
        return (help,)


class ForbiddenCharacter(ProblemAt):
    """A control, zero-width or text-direction character: a reader could not see what it does."""

    code = "XG0102"

    def diagnostic(self) -> Diagnostic:
        """Name the character."""
        character = self.span.text[0]
        name = unicodedata.name(character, "control character")
        message = f"U+{ord(character):04X} ({name}) may not stand in a file"
        if character == "\r":
            help = "end lines with a line feed, or with carriage return and line feed"
        elif character == "\ufeff" and self.span.start == 0:
            help = "save the file without a byte-order mark"
        else:
            help = "delete it: it cannot be seen"
        return self.report(message, Label(self.span), help=(help,))

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        end = Span(self.span.source, self.span.start, self.span.start + 1)
        return (Fix("delete the character", ((end, ""),)),)


_MARKS: Final = {
    "\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "bar", "\u0307": "dot",
    "\u0308": "ddot", "\u030c": "check", "\u20d7": "vec",
}  # fmt: skip


_JOINING: Final = ("&", "&&")
_PRIMES: Final = ("'", "′", "’")
_DEFINED: Final = {"⊖": "-", "⊘": "/"}


def _in_place(span: Span) -> str:
    """The remark about a sign that depends on its place, or nothing."""
    from xg.syntax.formulas import remark  # only this error pays for it

    return remark(span)


class UnknownCharacter(ProblemAt):
    """A sign that the language does not have."""

    code = "XG0103"
    title = "{span.text!q} means nothing here"

    def helps(self) -> tuple[str, ...]:
        """Define the sign, or name the mark, if it is one over the letter before it."""
        if sign := _DEFINED.get(self.span.text):
            return (f"define it: `op f(x, y) = x {sign} y`, and write `-> f<-…`",)
        if said := _in_place(self.span):
            return (said,)
        if self.span.text in _PRIMES:
            return ("names have no primes: a number behind it tells `x_2` from `x`",)
        word = _MARKS.get(self.span.text)
        return (f"a letter has no mark: write `_{word}` behind it",) if word else ()


class ForeignSpelling(ProblemAt):
    """A sign as another language writes it."""

    code = "XG0104"
    said: str
    sign: str = ""  # the kind of the token to write instead, where that is all

    def diagnostic(self) -> Diagnostic:
        """Say how it is written here."""
        text = self.span.text
        sign = "//" if text.startswith("//") else text if len(text) <= 4 else text[0]
        message = f"{quoted(sign)} is not a sign of this language"
        return self.report(message, Label(self.span), help=(self._in_place or self.said,))

    @property
    def _in_place(self) -> str:
        return _in_place(self.span) if self.span.text in _JOINING else ""

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        text = self.span.text
        if text.startswith("//") and self.sign == "COMMENT":
            return (Fix("begin the comment with #", ((self.span, f"#{text[2:]}"),)),)
        if self._in_place:
            return ()
        if self.sign == "STRING":
            return (Fix("write double quotes", ((self.span, f'"{text[1:-1]}"'),)),)
        signs = {name: sign for sign, name in literals().items()}
        return (Fix.replace(self.span, signs[self.sign]),) if self.sign in signs else ()


_ACCENTS: Final = {
    "\u0302": "_hat",
    "\u0303": "_tilde",
    "\u0304": "_bar",
    "\u0305": "_bar",
    "\u0307": "_dot",
}


def _without_accents(text: str) -> str:
    """Letters with their accents in words, as they are read: û is u_hat, é is e."""
    parts = unicodedata.normalize("NFD", text)
    spelled = "".join(_ACCENTS.get(c, "" if unicodedata.combining(c) else c) for c in parts)
    return spelled if spelled.isidentifier() and spelled.isascii() else text


class ForeignLetters(ProblemAt):
    """Letters that names do not have."""

    code = "XG0105"

    def diagnostic(self) -> Diagnostic:
        """Say what to write instead where that is known."""
        text = self.span.text
        message = f"{quoted(text)} cannot stand in a name"
        help = "names have the letters A to Z, a to z, digits, `_` and Greek letters such as γ"
        if text[0] in SPELLED_OUT:
            spelled = "".join(SPELLED_OUT.get(letter, letter) for letter in text)
            help = f"write {quoted(spelled)}: this letter is easily taken for another"
        elif (spelled := _without_accents(text)) != text:
            help = f"write {quoted(spelled)}: names have no accents"
        elif said := _in_place(self.span):
            help = said
        return self.report(message, Label(self.span), help=(help,))

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        spelled = "".join(SPELLED_OUT.get(letter, letter) for letter in self.span.text)
        return (Fix.replace(self.span, spelled),) if self.span.text[0] in SPELLED_OUT else ()


class UnclosedText(ProblemAt):
    """A text without its second quote."""

    code = "XG0106"

    def diagnostic(self) -> Diagnostic:
        """Point at the first quote."""
        opening = Span(self.span.source, self.span.start, self.span.start + 1)
        label = Label(opening, "begins here")
        return self.report("this text is not closed", label, help=('end it with `"` in its line',))
