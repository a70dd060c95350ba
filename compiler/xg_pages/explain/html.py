"""Write an explained page as Markdown, or as one HTML file without scripts or network access.

All text goes through `xg.diagnostics.escape`. The policy lets nothing load, and of styles only the
one sheet by its hash. Beside every step is its place in the figure: the figure itself, shown again
through a small window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import PurePath
from string import Template
from typing import Final

import numpy as np

from xg.diagnostics import escape
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures import Parts, parts
from xg.figures.formats.svg import sheet
from xg.figures.model.figure import LIGHT, Box
from xg.figures.model.richtext import split_name
from xg.figures.views.backward import backward_drawn
from xg.figures.views.forward import forward_drawn
from xg.figures.views.steps import Drawn
from xg.ir.graph import Apply, Call, IRProgram, Value
from xg.ir.graph import Step as GraphStep
from xg.ir.prim import LAWS
from xg.ir.tensor import TensorType
from xg.ir.walk import param_specs
from xg.verify.claim_check import Array
from xg.verify.reference.interpret import Record
from xg_pages.document import asset, color_variables, digest
from xg_pages.explain import page as words
from xg_pages.explain.numbers import Bound, Rows, Said, rows, shape, spell_computation
from xg_pages.explain.page import (
    FRAMES,
    SIGNS,
    BlockNaming,
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    ShownTensor,
    Update,
    label_axes,
    product_of,
)
from xg_pages.explorer.facts import BlockUse, block_uses

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
    yield f"{escape.markdown(step.operator)}{formula}. It {words.neighbors(step, steps)}."
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
    product: Sequence[ShownTensor], signs: Sequence[str] = SIGNS, frames: Sequence[str] = FRAMES
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
    near = _link_steps(words.neighbors(step, one.steps))
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
    shown: Sequence[ShownTensor], signs: Sequence[str] = SIGNS, frames: Sequence[str] = FRAMES
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


# From a program with numbers to a page: every step with what it takes, makes and means.


SIZES: Final = 6  # of a file are named


def compose(bound: Bound) -> ExplainedPage:
    """The page of a program with numbers: the block itself first, then what it calls."""
    main = bound.program.main
    counter = count(1)
    records = bound.record.by_path()
    uses = [(use, _run_of(use, records)) for use in block_uses(bound.program)]
    sections = tuple(
        _SectionWriter(bound, replace(use, path=run.path), run, counter).section()
        for use, run in uses
        if run is not None
    )
    page = ExplainedPage(
        title=main.title or main.block,
        example=bound.title,
        file=PurePath(main.span.source.name).name,
        block=main.block,
        sizes=dict(sorted(bound.sizes.items())),
        seed=bound.seed,
        invented="" if bound.seed is None else _substitution_note(bound),
        off=_off(bound.program),
        sections=sections,
        update=bound.update,
    )
    return label_axes(page, bound.axes)


def _run_of(use: BlockUse, records: Mapping[str, Record]) -> Record | None:
    """The run of a block's first use, or of one at which a gradient arrives; None without any."""
    first = records.get(use.path)
    if first is None or first.reverse:
        return first
    same = (run for run in records.values() if run.graph.key == use.graph.key)
    return next((run for run in same if run.reverse), first)


def _substitution_note(bound: Bound) -> str:
    """Say which sizes and parameters of the file are replaced here; empty if all are kept."""
    has: list[str] = []
    here: list[str] = []
    sizes = [f"{n} = {number}" for n, number in bound.written.items() if bound.sizes[n] != number]
    if sizes:
        has.append(", ".join([*sizes[:SIZES], *["…"] * (len(sizes) > SIZES)]))
        here.append("sizes are small")
    starts = {param.start for _, param, *_ in param_specs(bound.program)}
    if kinds := [word for word in ("zeros", "ones") if word in starts]:
        has.append(f"parameters that begin as {' or '.join(kinds)}")
        here.append("every parameter is drawn")
    text = f"The file has {' and '.join(has)}; here {' and '.join(here)}"
    return f"{text}, so that the numbers can be followed." if has else ""


def _off(program: IRProgram) -> str:
    """The note that nothing is left to chance, were the numbers not to be followed."""
    steps = [step for graph in program.graphs.values() for step in graph.steps]
    names = {step.op.name for step in steps if isinstance(step, Apply)}
    dropout = "Dropout is off." if "dropout" in names else ""
    sources = "Random sources give their mean." if names & LAWS else ""
    return " ".join(filter(None, (dropout, sources)))


@dataclass(slots=True)
class _SectionWriter:
    """Writes the section of one block."""

    bound: Bound
    use: BlockUse
    record: Record
    counter: Iterator[int]  # of the steps of a page
    naming: BlockNaming = field(init=False)
    values: Mapping[Value, Array] = field(init=False)
    makers: dict[Value, int] = field(default_factory=dict[Value, int])

    def __post_init__(self) -> None:
        """Every value of the passes that have run has its numbers."""
        self.naming = BlockNaming.of(self.bound.program, self.use.backward)
        self.values = self.record.reverse or self.record.values

    def section(self) -> ExplainedBlock:
        """The block's title, both passes, and its lines in the file."""
        graph, backward = self.use.graph, self.use.backward
        values = [value for value in (*graph.inputs, *graph.param_values()) if value in self.values]
        drawn = forward_drawn(self.bound.program, graph)
        forward = ExplainedPass(
            drawn.figure, self._tensors(values), self._steps(graph.steps, drawn)
        )
        behind: ExplainedPass | None = None
        if backward.steps and self.record.reverse:  # else no gradient arrives here
            reverse = backward_drawn(self.bound.program, backward)
            seeds = self._tensors(backward.cotangents.values())
            behind = ExplainedPass(reverse.figure, seeds, self._steps(backward.steps, reverse))
        return ExplainedBlock(
            title=graph.title or graph.block,
            path=self.use.path,
            source=graph.span.text.rstrip(),
            forward=forward,
            backward=behind,
        )

    # ---- steps ----------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[GraphStep], drawn: Drawn) -> tuple[ExplainedStep, ...]:
        numbers = {step: next(self.counter) for step in steps}
        readers: dict[Value, list[int]] = {}
        for step, number in numbers.items():
            self.makers.update((value, number) for value in step.outputs)
            for value in step.inputs:
                readers.setdefault(value, []).append(number)
        return tuple(self._step(step, number, readers, drawn) for step, number in numbers.items())

    def _step(
        self, step: GraphStep, number: int, readers: Mapping[Value, Sequence[int]], drawn: Drawn
    ) -> ExplainedStep:
        values = [v for v in step.outputs if v.role != "cache"]
        takes = (self.makers[value] for value in step.inputs if value in self.makers)
        goes_to = (each for value in values for each in readers.get(value, ()))
        operator, formula = self._operator(step)
        span = _span(step)
        return ExplainedStep(
            number=number,
            equation=self.naming.equation(step),
            operator=operator,
            formula=formula,
            line=span.line if span else 0,
            source=" ".join(span.source.line_text(span.line).split()) if span else "",
            tensors=self._tensors(values),
            takes=tuple(dict.fromkeys(takes)),
            goes_to=tuple(dict.fromkeys(goes_to)),
            node=drawn.nodes.get(step, ""),
            why=self._why(step),
            worked=self._spell_step(step) if isinstance(step, Apply) else "",
            product=product_of(step, self.naming, self.values) if isinstance(step, Apply) else (),
            printed=tuple(self._misprints(values)),
            remarks=tuple(self._remarks(values)),
        )

    def _spell_step(self, step: Apply) -> str:
        types = {**self.use.backward.types, **self.use.graph.types}
        return spell_computation(step, types, self.values, self.record.sizes)

    def _operator(self, step: GraphStep) -> tuple[str, str]:
        """The name of a step, and its formula."""
        match step:
            case Apply():
                return _operator_title(step), step.op.description(step.attrs).formula
            case Call():
                what = "The backward pass of the block" if step.origin else "The block"
                return f"{what} {self.bound.program.graphs[step.callee].block}", ""

    def _why(self, step: GraphStep) -> str:
        """Explain a step by its operator's description; a backward step by its origin's."""
        origin = step.origin
        if origin is not None:
            text = words.chain_rule(self.makers.get(origin.outputs[0], 0))
            if isinstance(step, Apply) and isinstance(origin, Apply):
                known = origin.op.description(origin.attrs)
                derived = step.op.glyph.startswith("d")
                text += words.aside(known.meaning) if derived else words.rule(known.gradient)
            return f"{text}."
        if isinstance(step, Call):
            callee = self.bound.program.graphs[step.callee]
            return words.sentence(callee.title if callee.title != callee.block else "")
        if step.op.family == "add" and all(value.role == "cotangent" for value in step.outputs):
            return words.GRADIENTS_ADD
        return words.sentence(step.op.description(step.attrs).meaning)

    def _tensors(self, values: Iterable[Value]) -> tuple[ShownTensor, ...]:
        shown = [value for value in values if value in self.values]
        return tuple(
            ShownTensor(self.naming.name(value), self._type(value), np.asarray(self.values[value]))
            for value in shown
        )

    def _type(self, value: Value) -> str:
        """The shape as the file writes it, and for integers their range."""
        dims = ", ".join(self.naming.dims(value))
        type_: TensorType | None = self.use.graph.types.get(value)
        within = f" in {self.use.graph.sizes.fold(type_.range)}" if type_ and type_.range else ""
        return f"[{dims}]{within}"

    # ---- claims ---------------------------------------------------------------------------------

    def _misprints(self, made: Sequence[Value]) -> Iterator[ShownTensor]:
        """Yield the numbers that a document prints for these values, if some are wrong."""
        for value in made:
            for said in self.bound.said.get((self.record.path, value), ()):
                if not said.holds.all():
                    shape = np.shape(self.values[value])
                    numbers, wrong = said.printed.reshape(shape), ~said.holds.reshape(shape)
                    place = said.claim.place or "document"
                    name = f"{self.naming.name(value)} in {place}"
                    yield ShownTensor(name, self._type(value), numbers, wrong=wrong)

    def _remarks(self, made: Sequence[Value]) -> Iterator[str]:
        """Remarks on the numbers that a document prints for these values."""
        for value in made:
            for said in self.bound.said.get((self.record.path, value), ()):
                yield _remark(said)


def _remark(said: Said) -> str:
    claim, numbers, holding = said.claim, said.holds.size, int(said.holds.sum())
    where = f"{claim.place} of the document" if claim.place else "The document"
    if holding == numbers:
        return f"{where} prints this, and it is right."
    counted = f"{holding or 'none'} of {numbers} numbers {'are' if holding > 1 else 'is'}"
    why = f": {claim.wrong}" if claim.wrong else ""
    return f"{where} prints something else; {counted} right{why}."


def _operator_title(step: Apply) -> str:
    """Return an operator's sign and name; only the sign if they are the same word."""
    glyph, name = step.op.glyph, step.op.name.replace("_", " ")
    if glyph.casefold() == name.casefold():
        return glyph
    return f"{glyph}{', ' if glyph.startswith('d') else ' '}{name}"


def _span(step: GraphStep) -> Span | None:
    """Where a step, or the one that it differentiates, was written."""
    match step:
        case Apply() if step.origin is None and all(v.role == "cotangent" for v in step.outputs):
            return None
        case Apply():
            return (step.origin or step).span
        case Call():
            return step.span
