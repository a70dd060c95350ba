"""Errors in calls of blocks, before any shape is known (XG02xx)."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, ProblemAt
from xg.diagnostics.source import Span
from xg.passes.resolve.errors_of_names import nearest

# The place of a call: behind an arrow, where a chain begins, or inside a node or another call.
CallPlace: TypeAlias = Literal["node", "chain", "operand"]


class UnnamedTwice(ProblemAt):
    """Two calls that have the same name: unnamed calls of one block, or both named so by `as`."""

    code = "XG0210"
    title = "two calls are named {name}"
    label = "second call"
    also = (("first", "first call"),)
    name: str
    first: Span
    is_named: bool
    stands: CallPlace = "node"

    def helps(self) -> tuple[str, ...]:
        if self.is_named:
            again = f"to share the parameters, call it again by its name alone: {self.name}"
            return (f"give it a name of its own: as {self.name}_2", again)
        first = " ".join(self.first.text.split())
        first = first if re.fullmatch(r"\w+ over \w+( reversed)?", first) else self.name
        written = f"{' '.join(self.span.text.split())} as second_{self.name.lower()}"
        own = {
            "node": f"give each its own name: {first} as first_{self.name.lower()}",
            "chain": f"give it a name of its own: {written}",
            "operand": f"write it as a chain of its own, with a name: {written} : …",
        }[self.stands]
        return (own, "to share the parameters, name the first call and call that name again")


class CallsItself(Problem):
    """A block that contains itself."""

    code = "XG0211"
    ring: tuple[tuple[str, Span], ...]  # every block on the way, with its call of the next one

    def diagnostic(self) -> Diagnostic:
        names = [name for name, _ in self.ring]
        message = f"{names[0]} calls itself"
        if len(names) > 1:
            message = f"blocks call each other in a ring: {' → '.join([*names, names[0]])}"
        (name, first), *rest = self.ring
        others = [Label(span, f"in {name}", primary=False) for name, span in rest]
        help = ("a row of calls repeats a block: N × Block",)
        return self.report(message, Label(first, f"in {name}"), *others, help=help)


class SeveralOutputs(ProblemAt):
    """A node with several results in the middle of a chain."""

    code = "XG0217"
    title = "{node} gives {count} values: they must be named where they leave"
    node: str
    count: int
    stands: CallPlace = "node"

    def helps(self) -> tuple[str, ...]:
        if self.stands == "operand":
            written = " ".join(self.span.text.split())
            return (f"write it as a chain of its own, `{written} : A, B`, and take A or B here",)
        return ("end the chain with `: A, B` and go on with `A, B -> …`",)


class RowOfSeveral(ProblemAt):
    """A row of a block with several results, of which one alone can go from round to round."""

    code = "XG0229"
    title = "a row hands one value on, and {node} gives {count}"
    node: str
    count: int

    def helps(self) -> tuple[str, ...]:
        cut = f"cut them apart in {self.node} by split, and join its results by C"
        return (f"join the values before the row, `A, B -> C`, {cut}",)


class CalledAgain(ProblemAt):
    """A second call by one name that is not like the first."""

    code = "XG0221"
    name: str
    what: Literal["a row", "repeated", "given arguments"]
    first: Span

    def diagnostic(self) -> Diagnostic:
        name = self.name
        message, help = {
            "a row": (
                f"{name} is a row of calls: it cannot be called again",
                "put the row into a block, and call that block again by its name",
            ),
            "repeated": (
                f"{name} is one call: it cannot be repeated",
                "each round of a row has its own parameters: repeat the block itself; "
                "rounds that share them are a loop with a state: -> Cell over S",
            ),
            "given arguments": (
                f"{name} is called again: its arguments stand where it is called first",
                "for other arguments, call the block itself under another name with `as`",
            ),
        }[self.what]
        return self.report(
            message,
            Label(self.span, "again here"),
            Label(self.first, "first call", primary=False),
            help=(help,),
        )


class ParamOfRow(ProblemAt):
    """A parameter of a row of calls, which is another one in each round."""

    code = "XG0222"
    title = "{name} is a row of calls: {span.text} is another one in each round"
    also = (("row", "the row"),)
    fix = "a parameter that several nodes share belongs to the block that holds them all"
    name: str
    row: Span


class NoBlock(Problem):
    """A file without the block that was asked for."""

    code = "XG0220"
    title = "{file} has no block {wanted}"
    file: str
    name: str | None
    known: tuple[str, ...]

    @property
    def wanted(self) -> str:
        return self.name or "of its own to compile"

    def helps(self) -> tuple[str, ...]:
        if self.name is None:
            return (f"it takes {', '.join(self.known)}: say --block NAME",) if self.known else ()
        return nearest(self.name, self.known) or (f"it has {', '.join(self.known)}",)
