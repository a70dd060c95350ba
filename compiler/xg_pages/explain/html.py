"""Write an explained page as Markdown, or as one HTML file without scripts or network access.

All text goes through `xg.diagnostics.escape`. The policy lets nothing load, and of styles only the
one sheet by its hash. Beside every step is its place in the figure: the figure itself, shown again
through a small window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Template
from typing import Final

import numpy as np

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures import Parts, parts
from xg.figures.formats.svg import sheet
from xg.figures.model.figure import LIGHT, Box
from xg.figures.model.richtext import split_name
from xg_pages.explain import page as words
from xg_pages.explain.numbers import Rows, rows, shape
from xg_pages.explain.page import (
    FRAMES,
    SIGNS,
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    ShownTensor,
    Update,
)
from xg_pages.html.document import asset, color_variables, digest

# A page as Markdown that reads well as it is, and as anything makes of it.


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
        yield from (escape.code_block("\n".join(_product_lines(step.product))), "")
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
    beside = _product_lines(update.shown, words.UPDATE_SIGNS, ("cell",) * 3)
    yield from (f"## {words.UPDATE}", "", escape.markdown(words.rule_of(update)), "")
    yield from (escape.code_block("\n".join(beside)), "")
    yield from (f"First number: {escape.code_span(update.worked)}", "")
    yield from (escape.markdown(words.losses(update)), "")


def _product_lines(
    product: Sequence[ShownTensor],
    signs: Sequence[str] = SIGNS,
    frames: Sequence[str] = FRAMES,
) -> Iterator[str]:
    """Yield the lines of a product, with brackets around its first number's row and column."""
    pieces = [
        [f"{tensor.name} {tensor.type}".strip(), *_frame_rows(rows(tensor.array), tensor, frame)]
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


def _frame_rows(shown: Rows, tensor: ShownTensor, frame: str) -> Iterator[str]:
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
    """Align numbers at the right, label rows and columns, and mark wrong numbers."""
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


ASSETS: Final = "xg_pages.explain"  # the package of the page's own files
WINDOW: Final = (210.0, 120.0)  # points of the figure that are seen beside a step
POLICY: Final = ("base-uri 'none'", "form-action 'none'")
AROUND: Final = 4.0  # between a node and the line around it
_ABOVE: Final = 8.0  # over the first node, less than to the title
_UPDATE_ENTRY: Final = f'<li><a href="#update">{words.UPDATE}</a></li>'
_NAME: Final = re.compile(r"[^\W\d_]+_\w+")
_SIZE: Final = re.compile(r"\b[^\W_]+_\w+(?= = )")


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A document, and what went less well than hoped with its figures."""

    text: str
    warnings: tuple[str, ...]


def html(page: ExplainedPage) -> WrittenPage:
    """The whole document."""
    passes = list(_passes(page))
    drawn = parts((one.steps.figure for one in passes), (one.name for one in passes))
    style = f"{color_variables()}\n{sheet(LIGHT)}\n{asset('page.css', ASSETS)}"
    policy = ("default-src 'none'", f"style-src {digest(style)}", *POLICY)
    text = Template(asset("page.html", ASSETS)).substitute(
        title=escape.xml(words.heading(page)),
        policy="; ".join(policy),
        style=style,
        origin=_SIZE.sub(_set_name, escape.xml(words.origin(page))),
        promise=escape.xml(words.promise(page)),
        contents="".join(map(_entry, passes)) + (_UPDATE_ENTRY if page.update else ""),
        shared=drawn.shared + drawn.more,
        body="\n".join((*_body(passes, drawn), *_update_html(page.update))),
    )
    return WrittenPage(text, drawn.warnings)


@dataclass(frozen=True, slots=True)
class _OnePass:
    """A pass of a section; `name` is the id of its figure, `view` forward or backward."""

    name: str
    view: str
    section: ExplainedBlock
    steps: ExplainedPass


def _passes(page: ExplainedPage) -> Iterator[_OnePass]:
    for place, section in enumerate(page.sections):
        yield _OnePass(f"figure-{place}-forward", "forward", section, section.forward)
        if section.backward:
            yield _OnePass(f"figure-{place}-backward", "backward", section, section.backward)


def _entry(one: _OnePass) -> str:
    title = escape.xml(f"{words.name(one.section)}, {one.view}")
    return f'<li><a href="#{one.name}-steps">{title}</a></li>'


# ---- sections -----------------------------------------------------------------------------------


def _body(passes: list[_OnePass], drawn: Parts) -> Iterator[str]:
    shown: set[int] = set()
    for one, markup, nodes in zip(passes, drawn.markup, drawn.nodes, strict=True):
        if id(one.section) not in shown:
            shown.add(id(one.section))
            yield f"<h2>{escape.xml(words.name(one.section))}</h2>"
            yield f"<pre>{_lines(one.section.source)}</pre>"
        yield from _pass_html(one, markup, nodes)


def _pass_html(one: _OnePass, markup: str, nodes: Mapping[str, Box]) -> Iterator[str]:
    title = f"{one.section.title}, {one.view}"
    yield f'<section id="{one.name}-steps"><h3>{escape.xml(title)}</h3>'
    yield f'<div class="figure" tabindex="0">{markup}</div>'
    yield f"<h4>{words.begins(one.view, one.section)}</h4>"
    yield f'<div class="given">{"".join(map(_tensor_html, one.steps.begins))}</div>'
    top = min((box.top for box in nodes.values()), default=0.0) - _ABOVE
    for step in one.steps.steps:
        yield from _step_html(step, one, nodes.get(step.node), top)
    yield "</section>"


def _step_html(step: ExplainedStep, one: _OnePass, at: Box | None, top: float) -> Iterator[str]:
    yield f'<article id="step-{step.number}">'
    yield f'<h4><a href="#step-{step.number}">{step.number}</a> {equation(step.equation)}</h4>'
    yield '<div class="row">'
    if at is not None:
        yield _window(one.name, at, step, top)
    yield '<div class="told">'
    formula = f": <code>{escape.xml(step.formula)}</code>" if step.formula else ""
    near = _link_steps(words.neighbours(step, one.steps))
    yield f"<p>{escape.xml(step.operator)}{formula}. It {near}.</p>"
    if step.why:
        yield f"<p>{_reason(step.why)}</p>"
    if step.source:
        yield f'<p class="quiet">Line {step.line}: <code>{escape.xml(step.source)}</code></p>'
    yield _product(step.product) if step.product else "".join(map(_tensor_html, step.tensors))
    if step.worked:
        yield f"<p>First number: <code>{escape.xml(step.worked)}</code></p>"
    yield from map(_tensor_html, step.printed)
    yield from (f'<p class="remark">{escape.xml(remark)}</p>' for remark in step.remarks)
    yield "</div></div></article>"


def _link_steps(sentence: str) -> str:
    """Turn the step numbers of a sentence into links; the sentence is one of `words`."""
    return re.sub(r"\d+", r'<a href="#step-\g<0>">\g<0></a>', sentence)


def _reason(why: str) -> str:
    """A reason with its words of the language as code, and the step that it names as a link."""
    written = re.sub("`([^`]+)`", r"<code>\1</code>", escape.xml(why))
    return re.sub(words.THROUGH, r'\1<a href="#step-\2">\2</a>', written)


def _window(figure: str, at: Box, step: ExplainedStep, top: float) -> str:
    """The part of the figure around a node, below its title, and a line around the node."""
    width, height = WINDOW
    seen = Box.around(at.center, max(width, at.width + 20), max(height, at.height + 20))
    seen = seen.moved(0.0, max(top - seen.top, 0.0))
    line = at.grown(AROUND)
    return (
        f'<svg class="xg-figure window" viewBox="{_box(seen)}" role="img"'
        f' aria-label="Step {step.number} in the figure"><use href="#{figure}"/>'
        f'<rect class="here" rx="5" {_sides(line)}/></svg>'
    )


def _box(box: Box) -> str:
    return " ".join(f"{side:.1f}" for side in (box.left, box.top, box.width, box.height))


def _sides(box: Box) -> str:
    pairs = (("x", box.left), ("y", box.top), ("width", box.width), ("height", box.height))
    return " ".join(f'{name}="{value:.1f}"' for name, value in pairs)


def _update_html(update: Update | None) -> Iterator[str]:
    if update:
        yield f'<section id="update"><h2>{words.UPDATE}</h2>'
        yield f"<p>{escape.xml(words.rule_of(update))}</p>"
        yield _product(update.shown, words.UPDATE_SIGNS, ("cell",) * 3)
        yield f"<p>First number: <code>{escape.xml(update.worked)}</code></p>"
        yield f"<p>{escape.xml(words.losses(update))}</p></section>"


# ---- tensors and formulas -----------------------------------------------------------------------


def _product(
    shown: Sequence[ShownTensor],
    signs: Sequence[str] = SIGNS,
    frames: Sequence[str] = FRAMES,
) -> str:
    parts = zip(shown, signs, frames, strict=True)
    written = (
        f"<div>{sign and f'<span>{sign}</span>'}{_tensor_html(tensor, frame)}</div>"
        for tensor, sign, frame in parts
    )
    return f'<div class="product">{"".join(written)}</div>'


def _tensor_html(tensor: ShownTensor, frame: str = "") -> str:
    shown = rows(tensor.array)
    cut = f", {shown.cut}" if shown.cut else ""
    name = f"<b>{equation(tensor.name)}</b> " if tensor.name else ""
    written = f"{equation(tensor.type)}, " if tensor.array.shape and tensor.type else ""
    caption = f"{name}{written}{escape.xml(shape(tensor.array))}{escape.xml(cut)}"
    framed = frame and f' class="{frame}-framed"'
    table = f"<table{framed}>{''.join(_rows(shown.rows, tensor))}</table>"
    return f"<figure><figcaption>{caption}</figcaption>{table}</figure>"


def _rows(rows: Sequence[Sequence[str]], tensor: ShownTensor) -> Iterator[str]:
    """The rows of a table, with the words that they and the columns are about."""
    corner = "<td></td>" if tensor.rows else ""
    if tensor.columns and rows:
        heads = (f'<th scope="col">{escape.xml(word)}</th>' for word in tensor.columns)
        yield f"<thead><tr>{corner}{''.join([*heads][: len(rows[0])])}</tr></thead>"
    wrong = None if tensor.wrong is None else np.atleast_2d(tensor.wrong)
    yield "<tbody>"
    for y, row in enumerate(rows):
        head = f'<th scope="row">{escape.xml(tensor.rows[y])}</th>' if tensor.rows else ""
        off = ["" if wrong is None or not wrong[y, x] else " class=off" for x in range(len(row))]
        cells = (f"<td{o}>{escape.xml(text)}</td>" for o, text in zip(off, row, strict=True))
        yield f"<tr>{head}{''.join(cells)}</tr>"
    yield "</tbody>"


def equation(text: str) -> str:
    """An equation with its subscripts set below the line.

    >>> equation("dW_2 = H⊤ • dz")
    'dW<sub>2</sub> = H⊤ • dz'
    >>> equation("last_hidden_state_1 = H")
    'last_hidden_state<sub>1</sub> = H'
    """
    return _NAME.sub(_set_name, escape.xml(text))


def _set_name(name: re.Match[str]) -> str:
    base, sub = split_name(name[0])
    return f"{base}<sub>{sub}</sub>" if sub else base


def _lines(text: str) -> str:
    return "\n".join(map(escape.xml, text.split("\n")))
