"""The part of a backward pass that only gradients of parameters need: a pipeline may run it later.

In a stage the functions of the backward pass first send back what the stage before waits for. The
rest of each is a function within it, which `_later` calls at once, or leaves in a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from xg.codegen.emit.free_saved import add_at_once, free_saved
from xg.codegen.emit.line_breaks import bracketed, indented
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, Program, Step

BACKWARD: Final = "Gradients of all parameters and float inputs by name; no cotangent means zero."
IN_PARTS: Final = (
    '"""The gradients of `backward`: those of inputs, and the others now or later.',
    "",
    "The parts in `later` are called in their order, and fill what was returned. The gradients",
    "of parameters are added to those of `earlier`, which an earlier call has returned.",
    '"""',
)
KIND: Final = "later: list[Any] | None"
EARLIER: Final = "earlier: Params | None"
LATER: Final = "def weights() -> None:"
TAKEN: Final = "_later(later, weights)"


@dataclass(frozen=True, slots=True)
class TwoParts:
    """The steps of a backward pass: those that a cotangent of an input needs, and the rest."""

    first: tuple[Step, ...]
    rest: tuple[Step, ...]

    @classmethod
    def of(cls, steps: Sequence[Step], backward: Backward) -> TwoParts:
        """Calls are among the first: their functions have two parts of their own."""
        inputs = [v for v in backward.forward.inputs if v in backward.gradients]
        needed = {backward.gradients[value] for value in inputs}
        needed |= {value for value, _ in backward.rows}
        first: set[Step] = set()
        for step in reversed(steps):
            if isinstance(step, Call) or any(value in needed for value in step.outputs):
                first.add(step)
                needed.update(step.inputs)
        return cls(
            tuple(step for step in steps if step in first),
            tuple(step for step in steps if step not in first),
        )


def is_in_parts(program: Program) -> bool:
    """Whether the backward functions of a module can leave a part for later: those of stages."""
    return program.stage is not None


def weights_function(lines: Sequence[str]) -> list[str]:
    """The lines as a function within the backward function, which is called or left for later."""
    return ["", LATER, *indented(lines), "", TAKEN] if lines else []


def freeing(lines: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The lines with those that free what was saved: within the later part what that part reads."""
    if TAKEN not in lines:
        return free_saved(lines, fields)
    start, end = lines.index(LATER), lines.index(TAKEN)
    inner = [line[4:] for line in lines[start + 1 : end] if line]
    words = set(re.findall(r"\bsaved\.(\w+)", "\n".join(inner)))
    early = free_saved(lines[: start - 1], [name for name in fields if name not in words])
    inner = free_saved(add_at_once(inner), [name for name in fields if name in words])
    late = weights_function(inner)
    return [*early, *late, *lines[end + 1 :]]


def whole_backward(saved_class: str) -> list[str]:
    """The public function that takes the backward pass of a stage at once."""
    arguments = ["params: Params", f"saved: {saved_class}", "d_outputs: Mapping[str, Array]"]
    body = [f'"""{BACKWARD}"""', "return backward_in_parts(params, saved, d_outputs, None)"]
    return [*bracketed("def backward(", arguments, ") -> Params:"), *indented(body)]
