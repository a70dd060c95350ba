"""Write the equations, products and sentences that every form of a page shares."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.views.notation import Notation, is_transposed
from xg.ir.graph import Apply, Backward, IRProgram, Step, Value
from xg.verify.examples.claim_check import Array
from xg_pages.explain.page import (
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    ShownTensor,
    Update,
)
from xg_pages.explorer.facts import Equations

# Steps as equations that distinguish parts of a gradient from the whole: `dX = dX′ ⊕ dX″`.


PRIMES: Final = ("′", "″", "‴")


@dataclass(slots=True)
class BlockNaming:
    """Names and equations of one block."""

    equations: Equations

    @classmethod
    def of(cls, program: IRProgram, backward: Backward) -> BlockNaming:
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


# A matrix product as three matrices: a row, the column that it meets, and the number they make.


SIGNS: Final = ("", "•", "=")  # before each of the three
FRAMES: Final = ("row", "column", "cell")  # the parts that the first number concerns


def product_of(
    step: Apply, naming: BlockNaming, values: Mapping[Value, Array]
) -> tuple[ShownTensor, ...]:
    """The operands as the equation writes them, and the result; empty where it is no product.

    Axes that are summed together become one, as in ``[D_ff, B·S] • [B·S, D]``.
    """
    if step.op.name != "matmul":
        return ()
    letters, result = str(step.attrs["spec"]).split("->")
    operands = letters.split(",")
    summed = [letter for letter in operands[0] if letter not in result]
    shown: list[ShownTensor] = []
    for place, (own, value) in enumerate(zip(operands, step.inputs, strict=True)):
        kept = [[letter] for letter in result if letter in own]
        kept.insert(len(kept) - place, summed)
        axes = [[own.index(letter) for letter in group] for group in kept]
        dims = naming.dims(value)
        type_ = ", ".join("·".join(dims[axis] for axis in group) for group in axes)
        array = values[value]
        lengths = [prod(array.shape[axis] for axis in group) for group in axes]
        moved = array.transpose([axis for group in axes for axis in group]).reshape(lengths)
        mark = "⊤" if is_transposed(step, place) else ""
        name = f"{naming.operand(value)}{mark}".replace("⊤⊤", "")
        shown.append(ShownTensor(name, f"[{type_}]", moved))
    (made,) = step.outputs
    name, type_ = naming.name(made), ", ".join(naming.dims(made))
    return (*shown, ShownTensor(name, f"[{type_}]", values[made]))


def heading(page: ExplainedPage) -> str:
    """The subject of the page."""
    return f"{page.title}: {page.example}" if page.example else page.title


def origin(page: ExplainedPage) -> str:
    """Where its numbers are from."""
    sizes = ", ".join(f"{name} = {size}" for name, size in page.sizes.items())
    at = f" at {sizes}" if sizes else ""
    if page.seed is None:
        return (
            f"The block {page.block} of {page.file}{at}, with the numbers that its example gives."
        )
    drawn = f"The block {page.block} of {page.file}{at}, with numbers drawn from seed {page.seed}."
    return f"{drawn} {page.invented}".rstrip()


def promise(page: ExplainedPage) -> str:
    """How the numbers are made."""
    source_note = (
        "Nothing below is typed in: every number is computed in float64 from those that are given, "
        "and every gradient is derived from the diagram."
    )
    return f"{source_note} {page.off}".rstrip()


def name(section: ExplainedBlock) -> str:
    """A section's title, and whose numbers it shows."""
    return f"{section.title} (as {section.path})" if section.path else section.title


def begins(view: str, section: ExplainedBlock) -> str:
    """The inputs of a pass."""
    if view == "forward":
        return "What goes in"
    several = len(section.backward.begins) != 1 if section.backward else True
    return "The gradients that come in" if several else "The gradient that comes in"


GRADIENTS_ADD: Final = "Several steps take this value; the gradients that they send back add up."
THROUGH: Final = r"^(The chain rule through step )(\d+)"  # how such a reason begins


def chain_rule(number: int) -> str:
    """The beginning of the reason of a step of the backward pass."""
    return f"The chain rule through step {number}" if number else "The chain rule"


def aside(meaning: str) -> str:
    """An operator's meaning inside a sentence."""
    return f": {meaning}" if meaning else ""


def rule(gradient: str) -> str:
    """An operator's gradient inside a sentence, where it is a formula."""
    return f", where {gradient}" if " = " in gradient else ""


def sentence(text: str) -> str:
    """A meaning as a sentence.

    >>> sentence("matrix product")
    'Matrix product.'
    """
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def neighbours(step: ExplainedStep, steps: ExplainedPass) -> str:
    """The neighbours of a step: the steps it takes from and those that take its result."""
    own = {each.number for each in steps.steps}
    takes = _listed([number for number in step.takes if number in own])
    saved = _listed([number for number in step.takes if number not in own])
    parts = [f"takes what {takes} made" if takes else ""]
    parts.append(f"takes what {saved} saved" if saved else "")
    goes_to = _listed(list(step.goes_to))
    parts.append(f"goes to {goes_to}" if goes_to else "leaves the block")
    return ", ".join(filter(None, parts))


def _listed(numbers: list[int]) -> str:
    """``step 3``, ``steps 3 and 5``."""
    if not numbers:
        return ""
    *others, last = map(str, numbers)
    return f"steps {', '.join(others)} and {last}" if others else f"step {last}"


UPDATE: Final = "One step of learning"
UPDATE_SIGNS: Final = ("", "with", "→")


def rule_of(update: Update) -> str:
    """The optimizer, and the gradients that it gets."""
    clipped = (
        f" The gradients together have norm {update.norm:.4g}, so all are scaled down to norm 1."
        if update.clipped
        else ""
    )
    return (
        "The first step of AdamW, the optimizer of xg train, at its full rate η = "
        f"{update.rate:g}: θ becomes θ·(1 - η·0.01) - η·dθ/(sqrt(dθ²) + ε); biases, scales and "
        f"shifts do not shrink.{clipped}"
    )


def losses(update: Update) -> str:
    """The loss before and after, both computed."""
    before, after = (f"{loss:.8g}" for loss in update.losses)
    return f"All parameters changed like this, {update.loss} goes from {before} to {after}."
