"""Errors in lines: several in one, lines outside of their block, and lines of `use`."""

from __future__ import annotations

import re
from typing import Final

from xg.diagnostics.diagnostic import Fix, ProblemAt
from xg.diagnostics.source import Span


class LinesInOne(ProblemAt):
    """Several lines of a plan written as one."""

    code = "XG0148"
    title = "a line of a plan says one shape"

    def helps(self) -> tuple[str, ...]:
        """The lines that are meant."""
        comma = ", without a comma" if self.span.text == "," else ""
        return (f"write each tensor with its shape in a line of its own{comma}",)

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
        return Fix("begin a line here", ((between, f"\n{depth}"),))


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
    help: str
