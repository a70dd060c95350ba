"""Sentences that every form of a page shares."""

from __future__ import annotations

from typing import Final

from xg_pages.explain.page import (
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    Update,
)


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
