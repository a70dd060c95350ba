"""From a program with numbers to a page: every step with what it takes, makes and means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import PurePath
from typing import Final

import numpy as np

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.views.backward import backward_drawn
from xg.figures.views.forward import forward_drawn
from xg.figures.views.steps import Drawn
from xg.ir.graph import Apply, Call, IRProgram, Value
from xg.ir.graph import Step as GraphStep
from xg.ir.parameters import param_specs
from xg.ir.prim import LAWS
from xg.ir.tensor import TensorType
from xg.verify.examples.claim_check import Array
from xg.verify.reference.interpret import Record
from xg_pages.explain import page as words
from xg_pages.explain.numbers import Bound, Said, spell_computation
from xg_pages.explain.page import (
    BlockNaming,
    ExplainedBlock,
    ExplainedPage,
    ExplainedPass,
    ExplainedStep,
    ShownTensor,
    label_axes,
    product_of,
)
from xg_pages.explorer.facts import BlockUse, block_uses

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
