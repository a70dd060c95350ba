"""A page as Markdown that reads well as it is, and as anything makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xg.diagnostics import escape
from xg_pages.explain import words
from xg_pages.explain.numbers import Rows, rows, shape
from xg_pages.explain.page import (
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    ShownTensor,
    Update,
)
from xg_pages.explain.words import FRAMES, SIGNS


def markdown(page: ExplainedPage) -> str:
    """The whole page; ends in a newline."""
    lines = [
        f"# {escape.markdown(words.heading(page))}",
        "",
        escape.markdown(words.origin(page)),
        "",
    ]
    lines += [words.promise(page), ""]
    for section in page.sections:
        lines += _section(section)
    if page.update:
        lines += _update(page.update)
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(section: ExplainedBlock) -> Iterator[str]:
    yield from (
        f"## {escape.markdown(words.name(section))}",
        "",
        escape.code_block(section.source),
        "",
    )
    yield from _pass("forward", section, section.forward)
    if section.backward:
        yield from _pass("backward", section, section.backward)


def _pass(view: str, section: ExplainedBlock, steps: ExplainedPass) -> Iterator[str]:
    title = f"{section.title}, {view}"
    yield from (f"## {escape.markdown(title)}", "", f"### {words.begins(view, section)}", "")
    for tensor in steps.begins:
        yield from _tensor(tensor)
    for step in steps.steps:
        yield from _step(step, steps)


def _step(step: ExplainedStep, steps: ExplainedPass) -> Iterator[str]:
    yield from (f"### {step.number}. {escape.code_span(step.equation)}", "")
    formula = f": {escape.code_span(step.formula)}" if step.formula else ""
    yield f"{escape.markdown(step.operator)}{formula}. It {words.neighbours(step, steps)}."
    if step.source:
        yield f"Line {step.line}: {escape.code_span(step.source)}."
    yield ""
    if step.why:
        yield from (escape.markdown(step.why), "")
    for tensor in () if step.product else step.tensors:
        yield from _tensor(tensor)
    if step.product:
        yield from (escape.code_block("\n".join(_beside(step.product))), "")
    if step.worked:
        yield from (f"First number: {escape.code_span(step.worked)}", "")
    for tensor in step.printed:
        yield from _tensor(tensor)
    for remark in step.remarks:
        yield from (escape.markdown(remark), "")


def _tensor(tensor: ShownTensor) -> Iterator[str]:
    shown = rows(tensor.array)
    title = f"{tensor.name} {tensor.type}".strip() if tensor.array.shape else tensor.name
    cut = f", {shown.cut}" if shown.cut else ""
    yield from (f"{escape.code_span(title or '[]')}, {shape(tensor.array)}{cut}:", "")
    yield from (escape.code_block(_grid(shown, tensor)), "")


def _update(update: Update) -> Iterator[str]:
    beside = _beside(update.shown, words.UPDATE_SIGNS, ("cell",) * 3)
    yield from (f"## {words.UPDATE}", "", escape.markdown(words.rule_of(update)), "")
    yield from (escape.code_block("\n".join(beside)), "")
    yield from (f"First number: {escape.code_span(update.worked)}", "")
    yield from (escape.markdown(words.losses(update)), "")


def _beside(
    product: Sequence[ShownTensor],
    signs: Sequence[str] = SIGNS,
    frames: Sequence[str] = FRAMES,
) -> Iterator[str]:
    """A product in one line, its first number's row and column in brackets."""
    pieces = [
        [f"{tensor.name} {tensor.type}".strip(), *_framed(rows(tensor.array), tensor, frame)]
        for tensor, frame in zip(product, frames, strict=True)
    ]
    widths = [max(map(len, piece)) for piece in pieces]
    height = max(map(len, pieces))
    for line in range(height):
        written = ""
        for piece, width, sign in zip(pieces, widths, signs, strict=True):
            between = sign if line == height // 2 else " " * len(sign)
            text = piece[line] if line < len(piece) else ""
            written += f"  {between}  {text.ljust(width)}" if sign else text.ljust(width)
        yield written.rstrip()


def _framed(shown: Rows, tensor: ShownTensor, frame: str) -> Iterator[str]:
    """Rows of numbers with brackets around the framed part of the first matrix."""
    longest = max(map(len, tensor.rows), default=0)
    width = max((len(text) for row in shown.rows for text in row), default=0)
    for place, row in enumerate(shown.rows):
        count = 0 if place and frame != "column" else len(row) if frame == "row" else 1
        texts = [text.rjust(width) for text in row]
        label = f"{tensor.rows[place].ljust(longest)}  " if tensor.rows else ""
        if count:
            yield f"{label}[{'  '.join(texts[:count])}] {'  '.join(texts[count:])}".rstrip()
        else:
            yield f"{label} {'  '.join(texts)}"


def _grid(shown: Rows, tensor: ShownTensor) -> str:
    """Rows of numbers, aligned at the right, with their words; behind wrong ones is a sign."""
    bad = np.atleast_2d(tensor.wrong) if tensor.wrong is not None else None
    lines = [
        [text + ("" if bad is None else "≠" if bad[y, x] else " ") for x, text in enumerate(row)]
        for y, row in enumerate(shown.rows)
    ]
    above = [*tensor.columns][: len(lines[0]) if lines else 0]
    width = max((len(text) for row in [above, *lines] for text in row), default=0)
    longest = max(map(len, tensor.rows), default=-2)
    labels = [*([""] if above else []), *tensor.rows]
    written = ["  ".join(text.rjust(width) for text in row) for row in [above, *lines] if row]
    if longest < 0:
        return "\n".join(line.rstrip() for line in written)
    pairs = zip(labels, written, strict=False)
    return "\n".join(f"{label.ljust(longest)}  {line}".rstrip() for label, line in pairs)
