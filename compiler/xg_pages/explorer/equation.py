"""Steps as equations in the author's names: `P = S(Z)`, `dW_up = H⊤ • dU`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.model.richtext import characters
from xg.figures.views.notation import Notation, is_transposed
from xg.figures.views.steps import own_tensors
from xg.ir.graph import Apply, Backward, Call, Program, Step, Value
from xg.ir.scalar import Scalar

_INFIX: Final = ("•", "⊕", "⊙")
_LONGEST: Final = 40  # of values without a name


@dataclass(slots=True)
class Equations:
    """Writes the steps of one block. `variables` are what its code calls values."""

    program: Program
    notation: Notation
    variables: Mapping[Value, str]
    made: dict[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def of(cls, program: Program, backward: Backward, variables: Mapping[Value, str]) -> Equations:
        """The names needed to write the steps of a block."""
        return cls(program, Notation.of(backward.forward, backward), variables)

    def write(self, step: Step) -> str:
        """A step; those before it have been written."""
        match step:
            case Apply():
                right = self._applied(step)
                shown = [value for value in step.outputs if value.role != "cache"]
            case Call():
                right = self._called(step, [self.text(value) for value in step.inputs])
                right = f"d{right}" if step.origin else right
                shown = list(step.outputs)
        self.made.update((value, right) for value in shown)
        left = ", ".join(name for value in shown if (name := self.name(value)))
        return f"{left} = {right}" if left else right

    def name(self, value: Value) -> str:
        """The name of a value in figure or code; empty for one without a name."""
        if value.role == "cache" and value in self.variables:
            return self.variables[value]
        if name := characters(self.notation.symbol(value)).replace("^⊤", "⊤"):
            return name
        primal = self.notation.backward and self.notation.backward.of.get(value)
        if primal is not None and (named := self.name(primal)):
            return f"d{named}"
        return self.variables.get(value, "")

    def text(self, value: Value, *, factor: bool = False) -> str:
        """A value as an operand: its name, or how it is made; a `factor` holds together."""
        if name := self.name(value):
            return name
        equation = self.made.get(value, "…")
        if len(equation) > _LONGEST:
            return "…"
        return f"({equation})" if factor and " " in equation else equation

    def _applied(self, step: Apply) -> str:
        sign = step.op.glyph
        infix = len(step.inputs) > 1 and sign in _INFIX
        operands = [
            self.text(value, factor=infix and sign != "⊕")
            + ("⊤" if is_transposed(step, place) else "")
            for place, value in enumerate(step.inputs)
        ]
        if infix:
            return f" {sign} ".join(operands)
        own = own_tensors(step)
        data = [o for o, value in zip(operands, step.inputs, strict=True) if value not in own]
        rest = [o for o, value in zip(operands, step.inputs, strict=True) if value in own]
        return f"{sign}({'; '.join(filter(None, (', '.join(data), ', '.join(rest + _own(step)))))})"

    def _called(self, call: Call, operands: Sequence[str]) -> str:
        callee = self.program.graphs[call.callee]
        name = f"{callee.block}({', '.join(dict.fromkeys(operands))})"
        if call.loop is not None:
            return f"{name} over {self.notation.graph.sizes.fold(call.loop.length)}"
        if call.count is None:
            return name
        return f"{self.notation.graph.sizes.fold(call.count)} × {name}"


def _own(step: Apply) -> list[str]:
    """The numbers and words that a node is made of, as far as they say something.

    Of a collective it is the mesh axis.
    """
    if "across" in step.attrs:
        return [str(step.attrs["across"])]
    values = [step.attrs.get(own.name) for own in step.op.own]
    numbers = [str(value) for value in values if isinstance(value, Scalar)]
    words = [value for value in values if isinstance(value, str) and value != "none"]
    return [*numbers, *words]
