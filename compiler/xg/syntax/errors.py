"""Errors in characters, in the grammar, and in trees: text that is refused when it is read.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
import unicodedata
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
from xg.syntax.spelling import SPELLED_OUT, native
from xg_grammar import literals

# Errors in characters and words: text that is no token of the language.


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
        message = f"U+{ord(character):04X} ({name}) is not allowed in a file"
        if character == "\r":
            help = "end lines with a line feed, or with carriage return and line feed"
        elif character == "\ufeff" and self.span.start == 0:
            help = "save the file without a byte-order mark"
        else:
            help = "delete it: it is invisible"
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
            return ("names have no primes: use a number instead, such as `x_2`",)
        word = _MARKS.get(self.span.text)
        return (f"letters have no accents: write `_{word}` after it",) if word else ()


class ForeignSpelling(ProblemAt):
    """A sign as another language writes it."""

    code = "XG0104"
    said: str
    sign: str = ""  # the kind of the token to write instead, where that is all

    def diagnostic(self) -> Diagnostic:
        """Say how it is written here."""
        text = self.span.text
        sign = "//" if text.startswith("//") else text if len(text) <= 4 else text[0]
        message = f"{quoted(sign)} is not a sign of the language"
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
    """Spell letters with accents as they are read: û becomes u_hat, é becomes e."""
    parts = unicodedata.normalize("NFD", text)
    spelled = "".join(_ACCENTS.get(c, "" if unicodedata.combining(c) else c) for c in parts)
    return spelled if spelled.isidentifier() and spelled.isascii() else text


class ForeignLetters(ProblemAt):
    """Letters that names do not have."""

    code = "XG0105"
    later: tuple[Span, ...] = ()  # other places of the same letters, for the fix

    def diagnostic(self) -> Diagnostic:
        """Say what to write instead where that is known."""
        text = self.span.text
        message = f"{quoted(text)} is not allowed in a name"
        help = "names can use A to Z, a to z, digits, `_` and Greek letters such as γ"
        if text[0] in SPELLED_OUT:
            spelled = "".join(SPELLED_OUT.get(letter, letter) for letter in text)
            help = f"write {quoted(spelled)}: this letter looks like another"
        elif (spelled := _without_accents(text)) != text:
            help = f"write {quoted(spelled)}: names have no accents"
        elif said := _in_place(self.span):
            help = said
        return self.report(message, Label(self.span), help=(help,))

    def fixes(self) -> tuple[Fix, ...]:
        """Write it as the language does."""
        spelled = "".join(SPELLED_OUT.get(letter, letter) for letter in self.span.text)
        if self.span.text[0] not in SPELLED_OUT:
            return ()
        title = Fix.replace(self.span, spelled).title
        return (Fix(title, tuple((place, spelled) for place in (self.span, *self.later))),)


class UnclosedText(ProblemAt):
    """A text without its second quote."""

    code = "XG0106"

    def diagnostic(self) -> Diagnostic:
        """Point at the first quote."""
        opening = Span(self.span.source, self.span.start, self.span.start + 1)
        label = Label(opening, "begins here")
        return self.report("this text is not closed", label, help=('end it with `"` in its line',))


# Errors in the grammar: tokens that do not fit their place.


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


class ForeignForm(ProblemAt):
    """A part of a line as another language writes it."""

    code = "XG0146"
    title = "{reason}"
    reason: str
    meant: str
    define: str = ""  # the operator of one's own that `meant` uses

    def helps(self) -> tuple[str, ...]:
        """The same in the notation."""
        define = f"define it: `{self.define}`, and " if self.define else ""
        return (f"{define}write `{self.meant}`",)


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
    help: tuple[str, ...]
    fault: str = "is between two values: in a chain, every node has an arrow before it"


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


# Errors in lines: several in one, lines outside of their block, and lines of `use`.


class LinesInOne(ProblemAt):
    """Several lines of a plan or an example written as one."""

    code = "XG0148"
    title = "{rule}"
    rule: str = "a line of a plan has one shape"
    begins: str = ""  # the word before each array of an example

    def helps(self) -> tuple[str, ...]:
        """The lines that are meant."""
        if self.begins:
            after = self.span.source.line_text(self.span.line)[self.span.column :]
            return (f"write `{self.begins} {after.partition('#')[0].strip()}` in a line below",)
        comma = ", without a comma" if self.span.text == "," else ""
        return (f"write each tensor and its shape on a line of its own{comma}",)

    def fixes(self) -> tuple[Fix, ...]:
        """End the line where the comma is, or begin one at the name, as deep as this one."""
        source, behind = self.span.source, self.span.end
        if self.span.text != ",":
            front = source.text[: self.span.start].rstrip(" \t")
            return (self._begin(Span(source, len(front), self.span.start)),)
        gap = re.compile(r"[ \t]*").match(source.text, behind)
        end = gap.end() if gap else behind
        if source.text[end : end + 1] in ("", "\n", "#", "}"):
            return (Fix("leave the comma out", ((self.span, ""),)),)
        return (self._begin(Span(source, self.span.start, end)),)

    def _begin(self, between: Span) -> Fix:
        line = between.source.line_text(self.span.line)
        depth = "    " if "{" in line else line[: len(line) - len(line.lstrip())]
        begins = f"{self.begins} " if self.begins else ""
        return Fix("begin a line here", ((between, f"\n{depth}{begins}"),))


ELSEWHERE: Final = frozenset({  # what files of Mermaid, Graphviz and Python begin with
    "graph", "flowchart", "digraph", "subgraph", "import", "class", "def", "module", "model",
})  # fmt: skip


class StatementOutside(ProblemAt):
    """A line of a block, an example or a plan outside of one."""

    code = "XG0126"
    title = "this line belongs inside {owner}"
    owner: str

    def helps(self) -> tuple[str, ...]:
        """A block in short, for those who come from other tools."""
        if self.span.text in ELSEWHERE:
            return ("a diagram is a block: `block F(X [B, D]) -> Y [B, D] {` … `}`",)
        return ()


class FileBeforeNames(ProblemAt):
    """A `use` whose file comes before the names, or that has no names."""

    code = "XG0145"
    title = "the names come before their file"
    fix = "write `{meant}`"
    meant: str


class UnquotedFile(ProblemAt):
    """A file's path without quotes."""

    code = "XG0127"
    title = "the path of a file needs quotes"
    fix = "write `{meant}`"
    meant: str


_BEFORE: Final = 200  # characters before a number that are looked at


class NamelessResult(ProblemAt):
    """A chain whose last edge has no name, so that nothing could use it."""

    code = "XG0130"
    title = "the result of this chain has no name"
    node: str = ""
    axes: str = ""
    instance: str = ""

    def helps(self) -> tuple[str, ...]:
        """Suggest the label to write, with the shape that follows the last node."""
        if self.axes:
            return (f"a shape goes after a name: `-> {self.node} : NAME {self.axes}`",)
        if self.instance:
            return (f"`as` names a call: write `: {self.instance}` for the edge that leaves it",)
        named = f", or with `: {self.node}` if that is the name" if self.node else ""
        return (f"end the chain with `: NAME [shape]`{named}",)


class NamesInTheMiddle(ProblemAt):
    """A label with several names in the middle of a chain."""

    code = "XG0131"
    title = "a label with several names ends its chain"
    label = "which of them would go on?"
    fix = "begin the next chain with the ones that it needs: `A, B -> …`"


class MissingShape(ProblemAt):
    """A declared name without a shape."""

    code = "XG0132"
    title = "{what} {span.text!q} has no shape"
    fix = "write its axes, as in `X [B, S, D]`, or `[]` for a scalar"
    what: str


class RangeWithoutShape(ProblemAt):
    """A range after a name that has no shape here."""

    code = "XG0139"
    title = "the range of {span.text!q} has no shape before it"
    fix = "write the axes first, as in `ids [B, S] in V`"


class FrozenElsewhere(ProblemAt):
    """`frozen` after something that is not an input or a parameter of a block."""

    code = "XG0142"
    title = "only an input or a parameter of a block can be frozen"
    fix = "`X -> stop : Y` ends the gradient at an edge"


class FrozenIntegers(ProblemAt):
    """`frozen` on integers, which have no gradient."""

    code = "XG0143"
    title = "integers have no gradient, so `frozen` has no effect here"
    fix = "leave it out"


class WildcardOutsidePlan(ProblemAt):
    """`_` where there is nothing to match."""

    code = "XG0133"
    title = "`_` stands for a dim only in the shapes of a plan"


class UnknownMemory(ProblemAt):
    """A line of a plan that ends with an unknown word."""

    code = "XG0140"
    title = "a line of a plan cannot end with {span.text!q}"
    fix = (
        "`again`: the backward pass recomputes it",
        "`keep`: it is kept for the backward pass",
        "`hold`: a parameter is gathered once per step",
        "`ring`: parts of keys and values go from rank to rank",
        "`zigzag`: a rank has two chunks of a sequence, one from each end",
        "`pad`: zeros fill a size of a parameter that ranks cannot share equally",
    )


class ArgumentOrder(ProblemAt):
    """A positional argument after a named one."""

    code = "XG0134"
    title = "positional arguments come before named ones"
    fix = "write `{span.text}` before them"


class WrongEdition(ProblemAt):
    """An edition of the language that is unknown, repeated or not at the start of the file."""

    code = "XG0135"
    title = "{reason}"
    fix = "begin the file with `edition 1`"
    reason: str


class NumberedAxis(ProblemAt):
    """A number other than 1 in the place of an axis."""

    code = "XG0136"

    def diagnostic(self) -> Diagnostic:
        """Ask for a name."""
        size = self.span.text
        message = f"an axis of size {quoted(size)} needs a name: only 1 can do without"
        new, last = quoted(f"n={size}"), quoted("-1")
        help = (f"write {new} for a new axis, {last} for the last existing one",)
        node = re.search(r"(\w+) ?\[[^\[\]]*$", self.span.source.text[: self.span.start][-_BEFORE:])
        before = self.span.source.line_text(self.span.line)[: self.span.column - 1]
        if node and node[1] in ("pick", "slice"):
            what = f"pick[S]({size})" if node[1] == "pick" else "slice[S](0, 2)"
            behind = self.span.source.text[self.span.end :]
            help = (f"brackets name the axis, positions go in parentheses: {what}",)
            if re.match(r" *\] ?\(", behind):
                help = ("an axis without a name is counted from the end: -1 is the last",)
        elif declared := re.match(r"\s*(\w+) \[[^\]]*$", before):
            help = (f"declare a parameter with `param`: write `param {declared[1]} [{size}, …]`",)
        elif node and node[1] not in ("BC", "R", "T"):
            help = (
                *help,
                "this works for other axes too: -3 and -2 are the second and third of four",
            )
        if size.startswith("-"):
            message, help = (
                f"no axis is {quoted(size)}",
                ("-1 is the last axis, -2 the one before",),
            )
        return self.report(message, Label(self.span), help=help)


class InfiniteNumber(ProblemAt):
    """A number beyond the largest float."""

    code = "XG0137"
    title = "this number is too large for a float"


class FractionInPath(ProblemAt):
    """A path with a fraction or an exponent instead of a whole number."""

    code = "XG0138"
    title = "a path has only names and whole numbers"
    fix = "as in `layers.3.attn.W_Q`"
