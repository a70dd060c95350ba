"""Every limit of the compiler: the amount that is counted, its maximum, and the error beyond it.

A limit is generous for programs that people write and keeps a hostile one from taking the machine.
"""

from __future__ import annotations

from typing import ClassVar

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span


class Limit(Problem):
    """More of something than is allowed; `span` is where, or None where no file is to blame."""

    span: Span | None
    found: int

    title = "{finding}; at most {maximum:,} are allowed"
    maximum: ClassVar[int]
    said: ClassVar[str]

    @classmethod
    def check(cls, found: int, span: Span | None) -> None:
        """Raise Beyond when `found` is more than the maximum."""
        if found > cls.maximum:
            raise Beyond(cls(span, found))

    def at(self, span: Span | None) -> Limit:
        """The same with a place, where it has none yet."""
        return self if self.span else type(self)(span, self.found)

    @property
    def finding(self) -> str:
        """The amount that was found, in words."""
        return self.said.format(spell_count(self.found))


class Beyond(DiagnosticError):
    """A limit is passed; who knows the place better than who counts puts the limit `at` it."""

    def __init__(self, limit: Limit) -> None:
        super().__init__((limit.diagnostic(),))
        self.limit = limit


def spell_count(count: int) -> str:
    """A count for people; of a very large one only the number of digits."""
    if abs(count) < 10**NumberDigits.maximum:
        return f"{count:,}"
    return f"about 10^{int(abs(count).bit_length() * 0.30103)}"  # Python spells 4,300 digits


class SourceBytes(Limit):
    """Length of one file."""

    code = "XG0001"
    maximum = 2**20
    said = "this file has {} bytes"
    fix = "move blocks into other files, and import them with `use`"


class Nesting(Limit):
    """The number of brackets open at once, which bounds the depth of the syntax tree."""

    code = "XG0002"
    maximum = 64
    said = "{} brackets are open here"
    fix = "give the inner parts names of their own"


class Files(Limit):
    """Files of one program: the main file, and every file that `use` imports."""

    code = "XG0003"
    maximum = 64
    said = "this program has {} files"


class Rank(Limit):
    """Axes of one tensor."""

    code = "XG0004"
    maximum = 8
    said = "this shape has {} axes"


class DimSize(Limit):
    """Length of one axis: sizes fit in 32 bits with sign."""

    code = "XG0005"
    maximum = 2**31 - 1
    said = "this axis has {} positions"


class ExpandedOperators(Limit):
    """Operators after all calls are expanded, counted before the expansion."""

    code = "XG0006"
    maximum = 100_000
    said = "this program has {} operators when its calls are expanded"
    fix = "repeat a block with `N × Block`: a repetition counts once"


class DimTerms(Limit):
    """Terms of one size in normal form: powers of sums grow quickly."""

    code = "XG0007"
    maximum = 256
    said = "this size has {} terms"
    fix = "give a part of it a name with `dim`"


class SizeFactors(Limit):
    """Factors in one term of a size; `D^3` counts as three."""

    code = "XG0015"
    maximum = 64
    said = "this size has a term with {} factors"


class NumberParts(Limit):
    """Operations in one symbolic number such as ``1/sqrt(D_h)``, calls written out."""

    code = "XG0017"
    maximum = 256
    said = "this number has {} parts"


class Blocks(Limit):
    """Blocks of one program, all its files together."""

    code = "XG0018"
    maximum = 3_000
    said = "this program has {} blocks"
    fix = "repeat a block with `N × Block`, or give it options"


class CheckedOperators(Limit):
    """Operators that `check` types in all choices of options together."""

    code = "XG0016"
    maximum = 100_000
    said = "{} operators were checked in the choices of options so far"
    fix = "choose some options with --set, or check one block with --block NAME"


class FigureNodes(Limit):
    """Nodes of one figure."""

    code = "XG0008"
    maximum = 4_000
    said = "this figure has {} nodes"
    fix = "draw one of its blocks with `--block NAME`"


class LabelLength(Limit):
    """Characters of a name, a title or a label in a figure."""

    code = "XG0009"
    maximum = 200
    said = "this name has {} characters"


class NumberDigits(Limit):
    """Characters of one number."""

    code = "XG0010"
    maximum = 40
    said = "this number has {} characters"


class LayoutSeconds(Limit):
    """Time the layout engine gets for one figure."""

    code = "XG0011"
    maximum = 30
    said = "the layout of this figure took {} seconds"
    fix = "draw one of its blocks with `--block NAME`"


class LayoutMebibytes(Limit):
    """Memory the layout engine gets for one figure."""

    code = "XG0012"
    maximum = 1_024
    said = "the layout of this figure took {} MiB"
    fix = "draw one of its blocks with `--block NAME`"


class ListedRounds(Limit):
    """Parameters or states that a command lists one by one, in every round of every repeat."""

    code = "XG0019"
    maximum = 1_000_000
    said = "the repeats of this block make {} parameters or states"
    fix = "repeat less often, for example with `--set N=4`"


class Executions(Limit):
    """Calls of blocks in one run, every round of every repeat."""

    code = "XG0020"
    maximum = 10_000_000
    said = "one run of this block executes blocks {} times"
    fix = "repeat less often, for example with `--set N=4`"


class Processes(Limit):
    """Processes that one command starts, one for each rank."""

    code = "XG0013"
    maximum = 64
    said = "this mesh has {} ranks, each a process on this machine"
    fix = "start ranks on several machines with torchrun, or simulate them with `--on simulated`"


class SimulatedRanks(Limit):
    """Ranks that one process simulates."""

    code = "XG0014"
    maximum = 1_024
    said = "this mesh has {} ranks, all in one process"
    fix = "give the mesh fewer: --set N_T=2"
