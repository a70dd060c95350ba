"""Measure whether a check grows linearly, and what a second one takes after an edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from bench.pairs import Action, Ratio, compare
from bench.programs import blocks, calls, chain
from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import CheckMemory, checked
from xg.frontend.project import read_for_editor

MODEL = Path("diagrams/models/transformer.xg")
GATE = "SwiGLU<-(X -> •<=W_up)"  # in one of its blocks

BEHIND = {  # where a step is added to each
    "the steps of Attention": "⊕<-BC(b_O)",
    "the steps of Layer": "-> ffn",
    "the steps of LM": "ids -> Emb(E)",
}
ROWS = 12  # of steps, one longer than the other: more than a check remembers


def measure(pairs: int) -> Iterator[Ratio]:
    """Programs ten times as long, and edits of a model with plans."""
    few = min(pairs, 3)
    for name, program, small in (
        ("operators", chain, 1_000),
        ("blocks", blocks, 100),
        ("calls in a row", calls, 64),
    ):
        many = f"check {10 * small:,} {name}"
        large = _first(program(10 * small))
        yield compare(many, large, f"{small:,} {name}", _first(program(small)), few, 12.5)
    text = MODEL.read_text(encoding="utf-8")
    first = _first(text)
    edits: tuple[tuple[str, Callable[[int], str], float], ...] = (
        ("a size", lambda n: text.replace(" V = 256", f" V = {256 + 2 * n}"), 0.3),
        ("a block", lambda n: text.replace(GATE, f"{GATE} -> DO(0.{n % 90 + 10})"), 0.4),
        *((block, partial(_more_steps, text, behind), 0.5) for block, behind in BEHIND.items()),
    )
    for what, edit, target in edits:
        yield compare(
            f"check after an edit of {what}",
            _again(text, edit),
            "first check",
            first,
            pairs,
            target,
        )


def _more_steps(text: str, behind: str, number: int) -> str:
    return text.replace(behind, behind + " -> DO(0.1)" * (number % ROWS + 1), 1)


def _first(text: str) -> Action:
    return lambda: _check(text, None)


def _again(text: str, edit: Callable[[int], str]) -> Action:
    """Check an edited text, each time another, with what the last check remembers."""
    memory, numbers = CheckMemory(), count()
    _check(text, memory)
    return lambda: _check(edit(next(numbers)), memory)


def _check(text: str, memory: CheckMemory | None) -> None:
    project = read_for_editor(None, Source("model.xg", text), {}).project
    assert project
    assert not any(d.severity == "error" for d in checked(project, memory=memory).diagnostics)
