"""Errors in the grammar: tokens that do not fit their place."""

from __future__ import annotations

import re
from typing import Final

from xg.diagnostics.diagnostic import (
    QUOTED_CHARACTERS,
    Diagnostic,
    Fix,
    Label,
    Problem,
    ProblemAt,
    Span,
    quoted,
)
from xg.syntax.spelling import native


class Unexpected(ProblemAt):
    """A token that does not fit here, with those that do."""

    code = "XG0110"
    title = "expected {expected}, found {found}"
    expected: str
    found: str

    def fixes(self) -> tuple[Fix, ...]:
        """The whole arrow for half of one."""
        half = self.span.text == ">" and "`->`" in self.expected
        return (Fix.replace(self.span, "->"),) if half else ()


class UnclosedBracket(Problem):
    """A bracket still open where its statement ends."""

    code = "XG0111"
    title = "this `{opening.text}` is not closed"
    place = "opening"
    also = (("end", "a `{closing}` is missing before this"),)
    opening: Span
    end: Span
    closing: str


class WrongBracket(Problem):
    """A bracket that is closed by another kind of bracket."""

    code = "XG0112"
    title = "expected `{right}`, found {closing.text!q}"
    place = "closing"
    also = (("opening", "to close this one"),)
    closing: Span
    opening: Span
    right: str


class StrayBracket(ProblemAt):
    """A closing bracket that closes nothing."""

    code = "XG0113"
    title = "this {span.text!q} closes nothing"


class UnclosedBlock(Problem):
    """A brace that is still open at the end of the file or at the next declaration."""

    code = "XG0114"
    title = "this `{{` is not closed"
    place = "opening"
    also = (("end", "a `}}` is missing before this"),)
    opening: Span
    end: Span


class MissingComma(Problem):
    """A list with spaces instead of commas, as einops writes axes."""

    code = "XG0115"
    previous: Span
    next: Span
    list: Span

    def diagnostic(self) -> Diagnostic:
        """Show the list with its commas."""
        before, after = quoted(self.previous.text), quoted(self.next.text)
        place = Span(self.next.source, self.previous.start, self.next.end)
        mended = _with_commas(self.list.text)
        help = (f"write `{mended}`",) if len(mended) <= 2 * QUOTED_CHARACTERS else ()
        return self.report(
            f"a comma is missing between {before} and {after}", Label(place), help=help
        )

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        gap = Span(self.next.source, self.previous.end, self.next.start)
        return (Fix("put a comma between them", ((gap, ", "),)),)


_LINE: Final = re.compile(r"(?:dim|mesh|param|state)\s+")


def _with_commas(text: str) -> str:
    """A list with a comma in each gap; of a declaration, brackets follow their names."""
    if text.startswith("["):
        return re.sub(r"(?<=[\w.)\]])\s+(?=[\w(\[])", ", ", text)
    word = _LINE.match(text)
    begun = word[0] if word else ""
    flat = " ".join(re.sub(r"#[^\n]*", "", text[len(begun) :]).split())
    gap = r"(?<=[\w.)\]])(?<!\bin) +(?=(?!in\b|frozen\b)\w)"
    return begun + re.sub(gap, ", ", flat).replace("( ", "(").replace(" )", ")")


class OtherWord(ProblemAt):
    """A line that begins with a misspelled word, or with a word of another language."""

    code = "XG0147"
    title = "no line begins with {span.text!q} here"
    help: tuple[str, ...]
    word: str = ""

    def fixes(self) -> tuple[Fix, ...]:
        """Write the word that is meant."""
        return (Fix.replace(self.span, self.word),) if self.word else ()


class InfixWord(ProblemAt):
    """A word such as `and` between comparisons, which a function joins."""

    code = "XG0141"
    fix = "write `{meant}`"
    title = "{span.text!q} is a function: it goes before the comparisons that it joins"
    meant: str


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
            help=(f"write {quoted(f'{self.number.text}*{self.factor.text}')}",),
        )

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        gap = Span(self.number.source, self.number.end, self.factor.start)
        return (Fix(f"write {quoted(f'{self.number.text}*{self.factor.text}')}", ((gap, "*"),)),)


class ReservedName(ProblemAt):
    """A word of the language used as a name."""

    code = "XG0117"
    title = "`{span.text}` is a word of the language and cannot be a name"

    def helps(self) -> tuple[str, ...]:
        """The place where the word belongs, or names that are like it."""
        word = self.span.text
        helps = {
            "dim": "an axis is named in brackets: `S[T]`, `mean[S]`",
            "frozen": "it goes after the shape: `param W [D, D] frozen`",
            "reversed": "it goes after the axis of a loop: `Cell over S reversed`",
        }
        return (helps.get(word, f"`{word}_1` or `{word.capitalize()}` could be one"),)


class DefaultAmongData(ProblemAt):
    """A default for an operand, which always arrives by an arrow."""

    code = "XG0118"
    title = "data arrives by arrows and has no default"
    fix = "arguments come after a semicolon: `(X [B, S, D]; p = 0.1)`"


class AssignedChain(ProblemAt):
    """A chain written as an assignment."""

    code = "XG0119"
    title = "{reason}"
    help: tuple[str, ...]
    reason: str = "the name of a chain goes at its end"


class ShapeElsewhere(ProblemAt):
    """A name or a shape of an edge that is not written as a label."""

    code = "XG0146"
    title = "{reason}"
    fix = "write `{meant}`"
    reason: str
    meant: str


class AxisFormula(ProblemAt):
    """A size in brackets where the name of an axis is needed."""

    code = "XG0149"
    title = "brackets after a node name axes, but {span.text!q} is a formula"
    meant: str
    name: str  # of the axis, where a dim of the block has the formula

    def helps(self) -> tuple[str, ...]:
        """A dim that has the formula, or the place of the axis; in a map, its name there."""
        if not self.name:
            return (f"write `{self.meant}`",)
        named = (
            f"give it a name, `dim {self.name} = {self.span.text}` in the block and {self.meant}"
        )
        return (f"{named}, or count from the end: -1 is the last axis",)


INFIX: Final = {
    "@": "-> •<=", "•": "-> •<=", "+": "-> ⊕<-", "⊕": "-> ⊕<-", "*": "-> ⊙<-", "⊙": "-> ⊙<-",
}  # fmt: skip


class InfixInChain(ProblemAt):
    """An infix operator between two values of a chain, as in a formula."""

    code = "XG0128"
    title = "{span.text!q} {fault}"
    label = "a chain goes from node to node"
    left: str
    right: str
    meant: str = ""
    define: str = ""  # the operator of one's own that `meant` uses
    fault: str = "is between two values: in a chain, every node has an arrow before it"

    def helps(self) -> tuple[str, ...]:
        """The same as a chain, or as an operator of one's own."""
        if self.meant:
            define = f"define it: `{self.define}`, and " if self.define else ""
            return (f"{define}write `{self.meant}`",)
        sign, number = native(self.span.text), self.right[:1].isdigit()
        if sign in ("*", "⊙") and number:
            return (f"write `{self.left} -> scale({self.right})`".replace("` ", "`"),)
        if sign in INFIX and not number:
            return (f"write `{self.left} {INFIX[sign]}{self.right}`",)
        if sign == "^" and self.right[:1] in ("2", ""):
            return ("define it: `op power(x) = x^2`, and write `-> power`",)
        if number:
            plus = sign.replace("⊕", "+")
            own, used = f"op f(x) = x {plus} {self.right}", f"{self.left} -> f"
        else:
            own, used = f"op f(x, y) = x {sign} y", f"{self.left} -> f<-{self.right}"
        return (f"define it: `{own}`, and write `{used.strip()}`",)


class OperandWithoutArrow(ProblemAt):
    """An operand directly after its operator, as in a formula."""

    code = "XG0144"
    title = "{span.text!q} needs an arrow to be an operand of {sign}"
    label = "an operand has an arrow before it"
    sign: str
    operand: str

    def helps(self) -> tuple[str, ...]:
        """The same with the arrow that the operator takes."""
        return (f"write `{INFIX[native(self.sign)]}{self.operand}`",)


class NumberInChain(ProblemAt):
    """A number, or a sign before a value, where a chain needs a tensor."""

    code = "XG0129"
    title = "a chain and its operands begin with tensors, not with {span.text!q}"
    meant: str

    def helps(self) -> tuple[str, ...]:
        """The negated tensor, or the places of numbers."""
        if self.meant:
            return (f"write `{self.meant}`",)
        return (
            "numbers are for operators: `scale(2)` multiplies by one, `fill[B, D](1)` is a tensor "
            "of ones, and `op f(x) = 1 - x` is an operator of your own: `x -> f`",
        )


class ColonForBrace(ProblemAt):
    """A block opened by a colon, as in Python."""

    code = "XG0120"
    title = "braces hold the lines of a block"
    fix = "write `{{` here and `}}` after the last line"


class ColonBeforeShape(ProblemAt):
    """A colon between a declared name and its shape."""

    code = "XG0121"
    title = "no colon goes between a name and its shape"
    fix = "leave it out: a colon only names the edge that leaves a node"

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        return (Fix("leave the colon out", ((self.span, ""),)),)


class StackedPower(ProblemAt):
    """`a^b^c`: readers disagree which power is taken first."""

    code = "XG0122"
    title = "a power of a power needs parentheses"
    fix = "write `a^(b^c)` or `(a^b)^c`"


class StackedSign(ProblemAt):
    """`--a`."""

    code = "XG0123"
    title = "a second sign needs parentheses: `-(-a)`"


class ArrowAsComparison(ProblemAt):
    """`x <= 0` or `x <-1` in an expression."""

    code = "XG0124"
    title = "{span.text!q} is an arrow"
    fix = "{said}"
    said: str


class Semicolon(ProblemAt):
    """A semicolon at the end of a statement."""

    code = "XG0125"
    title = "a statement does not end with a semicolon"
    fix = "leave it out; write each statement on a line of its own"

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        return (Fix("leave the semicolon out", ((self.span, ""),)),)
