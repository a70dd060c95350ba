"""The mistakes of the language's surface: every kind with its code and what people are told."""

from __future__ import annotations

from dataclasses import dataclass

from xg.diagnostic import Diagnostic, Label, Problem
from xg.source import Span
from xg.syntax.foreign import SPELLED_OUT

# ---- characters and words ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotText(Problem):
    """A byte that is not UTF-8."""

    code = "XG0101"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at the byte; name the encoding where it can be guessed."""
        help = "save the file as UTF-8"
        if self.span.source.text.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            help = "this looks like UTF-16: save the file as UTF-8"
        return self.report("this file is not UTF-8 text", Label(self.span), help=(help,))


@dataclass(frozen=True, slots=True)
class ForbiddenCharacter(Problem):
    """A control, zero-width or text-direction character: a reader could not see what it does."""

    code = "XG0102"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Name the character."""
        import unicodedata

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


@dataclass(frozen=True, slots=True)
class UnknownCharacter(Problem):
    """A sign that the language does not have."""

    code = "XG0103"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at it."""
        return self.report(f"`{self.span.text}` means nothing here", Label(self.span))


@dataclass(frozen=True, slots=True)
class ForeignSpelling(Problem):
    """A sign as another language writes it."""

    code = "XG0104"
    span: Span
    said: str

    def diagnostic(self) -> Diagnostic:
        """Say how it is written here."""
        found = self.span.text if len(self.span.text) <= 4 else self.span.text[0]
        message = f"`{found}` is not a sign of this language"
        return self.report(message, Label(self.span), help=(self.said,))


@dataclass(frozen=True, slots=True)
class ForeignLetters(Problem):
    """Letters that names do not have."""

    code = "XG0105"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what to write instead where that is known."""
        found = self.span.text
        message = f"`{found}` cannot stand in a name"
        help = "names have the letters A to Z, a to z, digits, `_` and Greek letters such as γ"
        if found[0] in SPELLED_OUT:
            spelled = "".join(SPELLED_OUT.get(letter, letter) for letter in found)
            help = f"write `{spelled}`: this letter is easily taken for another"
        return self.report(message, Label(self.span), help=(help,))


@dataclass(frozen=True, slots=True)
class UnclosedText(Problem):
    """A text without its second quote."""

    code = "XG0106"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at the first quote."""
        opening = Span(self.span.source, self.span.start, self.span.start + 1)
        label = Label(opening, "begins here")
        return self.report("this text is not closed", label, help=('end it with `"` in its line',))


# ---- what does not fit ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unexpected(Problem):
    """Something else was to come here."""

    code = "XG0110"
    span: Span
    expected: str
    found: str

    def diagnostic(self) -> Diagnostic:
        """Say what was expected and what was found."""
        return self.report(f"expected {self.expected}, found {self.found}", Label(self.span))


@dataclass(frozen=True, slots=True)
class UnclosedBracket(Problem):
    """A bracket still open where its statement ends."""

    code = "XG0111"
    opening: Span
    end: Span
    closing: str

    def diagnostic(self) -> Diagnostic:
        """Point at the bracket and at the place where it is missed."""
        return self.report(
            f"this `{self.opening.text}` is not closed",
            Label(self.opening),
            Label(self.end, f"a `{self.closing}` is missing before this", primary=False),
        )


@dataclass(frozen=True, slots=True)
class WrongBracket(Problem):
    """A bracket closed by one of another kind."""

    code = "XG0112"
    closing: Span
    opening: Span
    right: str

    def diagnostic(self) -> Diagnostic:
        """Point at both."""
        return self.report(
            f"expected `{self.right}`, found `{self.closing.text}`",
            Label(self.closing),
            Label(self.opening, "to close this one", primary=False),
        )


@dataclass(frozen=True, slots=True)
class StrayBracket(Problem):
    """A closing bracket that closes nothing."""

    code = "XG0113"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at it."""
        return self.report(f"this `{self.span.text}` closes nothing", Label(self.span))


@dataclass(frozen=True, slots=True)
class UnclosedBlock(Problem):
    """A brace still open where the file ends or the next declaration begins."""

    code = "XG0114"
    opening: Span
    end: Span

    def diagnostic(self) -> Diagnostic:
        """Point at the brace and at the place where the other is missed."""
        return self.report(
            "this `{` is not closed",
            Label(self.opening),
            Label(self.end, "a `}` is missing before this", primary=False),
        )


@dataclass(frozen=True, slots=True)
class MissingComma(Problem):
    """Things of a list with only a space between them, as einops writes axes."""

    code = "XG0115"
    previous: Span
    next: Span
    list: Span

    def diagnostic(self) -> Diagnostic:
        """Show the list with its commas."""
        import re

        message = f"a comma is missing between `{self.previous.text}` and `{self.next.text}`"
        place = Span(self.next.source, self.previous.start, self.next.end)
        mended = re.sub(r"(?<=[\w.)\]])\s+(?=[\w(\[])", ", ", self.list.text)
        return self.report(message, Label(place), help=(f"write `{mended}`",))


@dataclass(frozen=True, slots=True)
class MissingTimes(Problem):
    """A number written directly before what it multiplies."""

    code = "XG0116"
    number: Span
    factor: Span

    def diagnostic(self) -> Diagnostic:
        """Show the product."""
        return self.report(
            "a product is written with `*`",
            Label(Span(self.number.source, self.number.start, self.factor.end)),
            help=(f"write `{self.number.text}*{self.factor.text}`",),
        )


@dataclass(frozen=True, slots=True)
class ReservedName(Problem):
    """A word of the language in the place of a name."""

    code = "XG0117"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Name the word."""
        word = self.span.text
        return self.report(
            f"`{word}` is a word of the language and cannot be a name",
            Label(self.span),
            help=(f"`{word}_1` or `{word.capitalize()}` could be one",),
        )


@dataclass(frozen=True, slots=True)
class DefaultAmongData(Problem):
    """A value given to an operand that arrives by an arrow."""

    code = "XG0118"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say where it belongs."""
        return self.report(
            "data arrives by arrows and has no default",
            Label(self.span),
            help=("what a node is made of stands right of a semicolon: `(X [B, S, D]; p = 0.1)`",),
        )


@dataclass(frozen=True, slots=True)
class AssignedChain(Problem):
    """A chain written as an assignment."""

    code = "XG0119"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        """Say where the name goes."""
        return self.report(
            "a chain has its name at its end",
            Label(self.span),
            help=(f"write `X -> … : {self.name}`",),
        )


@dataclass(frozen=True, slots=True)
class ColonForBrace(Problem):
    """A block opened by a colon, as in Python."""

    code = "XG0120"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what opens a block."""
        return self.report(
            "braces hold the lines of a block",
            Label(self.span),
            help=("write `{` here and `}` behind the last line",),
        )


@dataclass(frozen=True, slots=True)
class ColonBeforeShape(Problem):
    """A colon between a declared name and its shape."""

    code = "XG0121"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say that it is left out."""
        help = ("leave it out: a colon only names the edge that leaves a node",)
        return self.report(
            "a name and its shape have no colon between", Label(self.span), help=help
        )


@dataclass(frozen=True, slots=True)
class StackedPower(Problem):
    """`a^b^c`: readers disagree which power is taken first."""

    code = "XG0122"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a bracket."""
        help = ("write `a^(b^c)` or `(a^b)^c`",)
        return self.report("a power of a power needs parentheses", Label(self.span), help=help)


@dataclass(frozen=True, slots=True)
class StackedSign(Problem):
    """`--a`."""

    code = "XG0123"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a bracket."""
        return self.report("a second sign needs parentheses: `-(-a)`", Label(self.span))


@dataclass(frozen=True, slots=True)
class ArrowAsComparison(Problem):
    """`x <= 0` or `x <-1` in an expression."""

    code = "XG0124"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say how to compare."""
        return self.report(
            f"`{self.span.text}` is an arrow",
            Label(self.span),
            help=("turn the comparison round: `b > a`, `b >= a`",),
        )


@dataclass(frozen=True, slots=True)
class Semicolon(Problem):
    """A semicolon at the end of a statement."""

    code = "XG0125"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say that it is left out."""
        help = ("leave it out; two statements stand in two lines",)
        return self.report("a line is a statement", Label(self.span), help=help)


@dataclass(frozen=True, slots=True)
class StatementOutside(Problem):
    """A line of a block, an example or a plan outside of one."""

    code = "XG0126"
    span: Span
    owner: str

    def diagnostic(self) -> Diagnostic:
        """Say where it belongs."""
        return self.report(f"this line belongs inside {self.owner}", Label(self.span))


@dataclass(frozen=True, slots=True)
class UnquotedFile(Problem):
    """A file's path without quotes."""

    code = "XG0127"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for the quotes."""
        help = ('write `from "layers.xg"`; a bare name is a file of the shipped library',)
        return self.report("the path of a file stands in quotes", Label(self.span), help=help)


# ---- what is read and then refused ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamelessResult(Problem):
    """A chain whose last edge has no name: nothing could use it."""

    code = "XG0130"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a label."""
        help = ("end the chain with `: NAME [shape]`",)
        return self.report("the result of this chain has no name", Label(self.span), help=help)


@dataclass(frozen=True, slots=True)
class NamesInTheMiddle(Problem):
    """A label with several names where the chain goes on."""

    code = "XG0131"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say how to go on from several values."""
        return self.report(
            "several names end a chain",
            Label(self.span, "which of them would go on?"),
            help=("begin the next chain with the ones that it takes: `A, B -> …`",),
        )


@dataclass(frozen=True, slots=True)
class MissingShape(Problem):
    """A declared name without a shape, and none behind it to take."""

    code = "XG0132"
    span: Span
    what: str

    def diagnostic(self) -> Diagnostic:
        """Ask for the shape."""
        name = self.span.text
        return self.report(
            f"{self.what} `{name}` has no shape",
            Label(self.span),
            help=(f"write `{name} [B, S, D]` with its axes, or `{name} []` for a scalar",),
        )


@dataclass(frozen=True, slots=True)
class WildcardOutsidePlan(Problem):
    """`_` where nothing stands to be matched."""

    code = "XG0133"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say where it is allowed."""
        return self.report("`_` stands for a dim only in the shapes of a plan", Label(self.span))


@dataclass(frozen=True, slots=True)
class ArgumentOrder(Problem):
    """An argument in order behind one by name."""

    code = "XG0134"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say which come first."""
        message = "arguments in order stand before arguments by name"
        return self.report(message, Label(self.span))


@dataclass(frozen=True, slots=True)
class WrongEdition(Problem):
    """An edition of the language that this compiler does not know, or stated twice or too late."""

    code = "XG0135"
    span: Span
    reason: str

    def diagnostic(self) -> Diagnostic:
        """Give the reason."""
        return self.report(self.reason, Label(self.span), help=("begin the file with `edition 1`",))


@dataclass(frozen=True, slots=True)
class NumberedAxis(Problem):
    """A number other than 1 in the place of an axis."""

    code = "XG0136"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a name."""
        size = self.span.text
        message = f"an axis of size {size} needs a name: only 1 may stand alone"
        return self.report(message, Label(self.span), help=(f"write `n={size}`",))


@dataclass(frozen=True, slots=True)
class InfiniteNumber(Problem):
    """A number beyond the largest float."""

    code = "XG0137"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at it."""
        return self.report("this number is too large for a float", Label(self.span))


@dataclass(frozen=True, slots=True)
class FractionInPath(Problem):
    """A number with a point or an exponent as a part of a path."""

    code = "XG0138"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what a path is made of."""
        message = "a path goes through names and whole numbers"
        return self.report(message, Label(self.span), help=("as in `layers.3.attn.W_Q`",))
