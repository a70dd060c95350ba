"""Steps as equations that distinguish parts of a gradient from the whole: `dX = dX′ ⊕ dX″`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.views.notation import Notation
from xg.ir.graph import Backward, Program, Step, Value
from xg_pages.explorer.equation import Equations

PRIMES: Final = ("′", "″", "‴")


@dataclass(slots=True)
class BlockNaming:
    """Names and equations of one block."""

    equations: Equations

    @classmethod
    def of(cls, program: Program, backward: Backward) -> BlockNaming:
        """The naming of the steps of a block."""
        notation = Notation.of(backward.forward, backward)
        return cls(_WithParts(program, notation, {}, parts=parts(backward)))

    def equation(self, step: Step) -> str:
        """The equation of a step; those before it have been written. Two transposes cancel."""
        return self.equations.write(step).replace("⊤⊤", "")

    def name(self, value: Value) -> str:
        """The name of a value; empty for one without a name."""
        return self.equations.name(value)

    def operand(self, value: Value) -> str:
        """A value as an operand of a product."""
        return self.equations.text(value, factor=True)

    def dims(self, value: Value) -> list[str]:
        """A value's shape as the file would write it."""
        return self.equations.notation.dims(value)


def parts(backward: Backward) -> dict[Value, str]:
    """The marks of cotangents that are only part of a sum."""
    marks: dict[Value, str] = {}
    counts: dict[Value, int] = {}
    for part, primal in backward.of.items():
        if backward.totals.get(primal) is not part:
            counts[primal] = counts.get(primal, 0) + 1
            number = counts[primal]
            marks[part] = PRIMES[number - 1] if number <= len(PRIMES) else f"⁽{number}⁾"
    return marks


@dataclass(slots=True)
class _WithParts(Equations):
    """Equations that mark the parts of sums."""

    parts: Mapping[Value, str] = field(default_factory=dict[Value, str])

    def name(self, value: Value) -> str:
        """The name of a value, with its mark."""
        named = Equations.name(self, value)
        return f"{named}{self.parts.get(value, '')}" if named else ""
