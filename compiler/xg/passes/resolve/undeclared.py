"""The line that declares a parameter that is used and not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.ir.use import Tensor
from xg.passes.resolve.errors import Refused, UnknownValue
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast

FOLLOWED: Final = 20  # nodes back from a use, in search of a shape
WINDOW: Final = 3  # positions of a kernel


@dataclass(frozen=True, slots=True)
class Beside:
    """A node, what arrives there, and the shapes of the labels behind it."""

    scope: BlockScope
    use: ast.NodeUse
    arriving: Sequence[Value]
    targets: Sequence[Shape | None]

    @property
    def shape(self) -> Shape | None:
        """The shape of the first operand, where the text says it."""
        return _shape(self.scope, self.arriving[0]) if self.arriving else None

    @property
    def target(self) -> Shape | None:
        """The shape of the result, where the text says it."""
        return self.targets[0] if len(self.targets) == 1 else None


def own_declared(place: Beside, own: Tensor, refused: Refused) -> Refused:
    """An unknown parameter in parentheses with the line that declares it."""
    shape = tuple(part for word in own.shape for part in _part(place, word))
    if None in shape:
        return refused
    written = f"[{', '.join(map(str, shape))}]" + (f" = {own.start}" if own.start else "")
    return Refused(*(_declared(problem, written, is_own=True) for problem in refused.problems))


def operand_declared(place: Beside, op: Op, refused: Refused) -> Refused:
    """An unknown operand with the line that declares it as a parameter."""
    shape, beside = place.shape, [attached.operand for attached in place.use.attachments]
    if not shape or len(beside) != 1 or isinstance(beside[0], ast.Chain):
        return refused
    around = beside[0].operator.name if isinstance(beside[0], ast.Call) else ""
    then = ""
    if op.family == "matmul" and around in ("", "T"):
        sizes = [shape[-1], (place.target or shape)[-1]]
        first, second = reversed(sizes) if around else sizes
        written = f"[{first}, {second}]"
    elif op.family in ("add", "multiply") and around in ("", "BC"):
        written = f"[{shape[-1]}] = {'zeros' if op.family == 'add' else 'ones'}"
        if not around and len(shape) > 1:
            then = f", and write {op.glyph}<-BC({{name}})"
    else:
        return refused
    return Refused(*(_declared(problem, written, then) for problem in refused.problems))


def _declared(problem: Problem, written: str, then: str = "", *, is_own: bool = False) -> Problem:
    if not isinstance(problem, UnknownValue) or problem.declaration:
        return problem
    line = f"param {problem.name} {written}{then.format(name=problem.name)}"
    return replace(problem, declaration=line, is_own=is_own)


def _part(place: Beside, word: str) -> list[Dim | None]:
    """The axes that a word of `Tensor.shape` means; None where the text does not say it."""
    shape, target = place.shape or (None,), place.target or place.shape or (None,)
    axes = place.use.axes
    listed = [axis for axis in axes.source if isinstance(axis, ast.Axis)] if axes else []
    match word:
        case "axis" if listed:
            return [place.scope.reader.dim(ast.Path(listed[0].span, (listed[0].name,)))]
        case "windows":
            return [number(WINDOW)] * len(listed)
        case "range":
            declared = place.arriving[0].declared if place.arriving else None
            return [declared.range if declared else None]
        case "target":
            return [target[-1]]
        case _:
            return [shape[-1]]


def _shape(scope: BlockScope, value: Value, steps: int = FOLLOWED) -> Shape | None:
    """The shape of a value as the text says it, also by nodes that keep it, and by matmuls."""
    if value.declared:
        return value.declared.shape
    made = next((step for step in scope.steps if value in step.outputs), None)
    if not steps or not isinstance(made, Apply) or not made.inputs:
        return None
    first = _shape(scope, made.inputs[0], steps - 1)
    if made.op.keeps_shape:
        return first
    second = _shape(scope, made.inputs[-1], steps - 1)
    if made.op.family == "matmul" and first and second:
        return (*first[:-1], second[-1])
    return None
