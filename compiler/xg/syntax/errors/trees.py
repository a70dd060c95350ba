"""Errors that the grammar cannot see: text that is read and then refused."""

from __future__ import annotations

import re
from typing import Final

from xg.diagnostics.diagnostic import Diagnostic, Label, ProblemAt, quoted

_LINE: Final = 200  # characters before a number that are looked at


class NamelessResult(ProblemAt):
    """A chain whose last edge has no name, so that nothing could use it."""

    code = "XG0130"
    title = "the result of this chain has no name"
    node: str = ""
    axes: str = ""
    instance: str = ""

    def helps(self) -> tuple[str, ...]:
        """The label to write, with the shape that is behind the last node."""
        if self.axes:
            return (f"a shape stands behind a name: `-> {self.node} : NAME {self.axes}`",)
        if self.instance:
            return (f"`as` names a call: write `: {self.instance}` for the edge that leaves it",)
        named = f", or with `: {self.node}` if that is the name" if self.node else ""
        return (f"end the chain with `: NAME [shape]`{named}",)


class NamesInTheMiddle(ProblemAt):
    """A label with several names in the middle of a chain."""

    code = "XG0131"
    title = "a label with several names ends its chain"
    label = "which of them would go on?"
    fix = "begin the next chain with the ones that it takes: `A, B -> …`"


class MissingShape(ProblemAt):
    """A declared name without a shape, and none behind it to take."""

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
    title = "integers have no gradient, so `frozen` says nothing here"
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
        "`again`: the backward pass computes it again",
        "`keep`: it is kept for the backward pass",
        "`hold`: of a parameter, it is gathered once in a step",
        "`ring`: of keys and values, parts go round from rank to rank",
        "`zigzag`: of a sequence, a rank has two chunks, one from each end",
        "`pad`: of a parameter, zeros fill a size that ranks cannot share equally",
    )


class ArgumentOrder(ProblemAt):
    """A positional argument after a named one."""

    code = "XG0134"
    title = "positional arguments come before named ones"
    fix = "write `{span.text}` in front of them"


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
        message = f"an axis of size {quoted(size)} needs a name: only 1 may stand alone"
        new, last = quoted(f"n={size}"), quoted("-1")
        help = (f"write {new} for a new axis, {last} for the last of those that are there",)
        node = re.search(r"(\w+) ?\[[^\[\]]*$", self.span.source.text[: self.span.start][-_LINE:])
        before = self.span.source.line_text(self.span.line)[: self.span.column - 1]
        if node and node[1] in ("pick", "slice"):
            what = f"pick[S]({size})" if node[1] == "pick" else "slice[S](0, 2)"
            behind = self.span.source.text[self.span.end :]
            help = (f"brackets name the axis, positions stand in parentheses: {what}",)
            if re.match(r" *\] ?\(", behind):
                help = ("an axis without a name is counted from the end: -1 is the last",)
        elif declared := re.match(r"\s*(\w+) \[[^\]]*$", before):
            help = (f"a parameter is declared by `param`: write `param {declared[1]} [{size}, …]`",)
        elif node and node[1] not in ("BC", "R", "T"):
            help = (*help, "of the first axes too: -3 and -2 are the second and third of four")
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
    title = "a path goes through names and whole numbers"
    fix = "as in `layers.3.attn.W_Q`"
