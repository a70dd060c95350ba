"""The explorer: one page for a program, with its figures, its code, its costs and real numbers.

A page is data and one script, without a framework, which would be larger than the page and age
faster. Text of users becomes markup only through `xg.diagnostics.escape`. Numbers are computed in
the page from a tape of primitives: a backend that writes JavaScript would be one more emitter, and
the page's policy forbids `eval`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.cost.cost import cost
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import FigureNodes
from xg.driver import Program
from xg.figures import Parts, joined, paint_figure, parts
from xg.figures.formats.svg import sheet
from xg.figures.model.figure import LIGHT, Figure
from xg.figures.model.structure import first_column
from xg.figures.views.backward import backward_drawn
from xg.figures.views.forward import forward_drawn
from xg.figures.views.steps import Drawn
from xg.frontend.typed import Settings
from xg.ir.graph import IRProgram
from xg.ir.labels import saved_names
from xg_pages.document import Page, Pass, PassFace, Section, document, packed_data
from xg_pages.explorer.facts import (
    BlockFacts,
    BlockUse,
    Code,
    Equations,
    FactTable,
    Formulas,
    OperatorRow,
    SendingData,
    ShapeRow,
    axis_rules,
    block_uses,
    code,
    start_numbers,
)
from xg_pages.explorer.play import (
    Planned,
    Played,
    at_small_sizes,
    compile_plans,
    facts_of,
    mesh_of,
    plans_data,
    play,
    proof_sizes,
)

FORMAT: Final = 5  # of the facts
SIZE_AT_MOST: Final = 300_000  # bytes
NOT_YET: Final = '<svg viewBox="0 0 1 1"></svg>'  # in the place of a figure


@dataclass(frozen=True, slots=True)
class Explored:
    """A page, the engines that placed its figures, and what went less well than hoped."""

    page: bytes
    engines: frozenset[str]
    warnings: tuple[str, ...]


def explore(
    program: Program,
    settings: Settings,
    *,
    quick: bool = False,
    plans: Sequence[Planned] | None = None,
) -> Explored:
    """The page of a program that was compiled with `settings`.

    A `quick` one has neither numbers nor other plans, which take longer than all the rest; `plans`
    are there where the caller has them already.
    """
    compared = () if quick else tuple(compile_plans(program, settings)) if plans is None else plans
    outline = _Outline.of(program)
    facts = _facts(program, settings, outline, compared, quick=quick)
    pictures = parts(outline.figures)
    written = _page(outline, facts, pictures)
    return Explored(written, pictures.engines, (*pictures.warnings, *_too_large(written)))


def explore_by_steps(program: Program, settings: Settings) -> Iterator[tuple[bytes, bool]]:
    """Yield the quick page, begun with the figure that is seen first, then with all of them.

    The second of each pair says whether figures are still missing. Raises DiagnosticError before
    the first page, or not at all.
    """
    outline = _Outline.of(program)
    for figure in outline.figures:
        FigureNodes.check(len(first_column(figure).nodes), None)
    facts = _facts(program, settings, outline, (), quick=True)
    first, *others = outline.figures
    drawn = paint_figure(first)
    if others:
        seen = joined([drawn])
        blank = len(others) * (NOT_YET,)
        yield _page(outline, facts, replace(seen, markup=seen.markup + blank)), True
    yield _page(outline, facts, joined([drawn, *map(paint_figure, others)])), False


@dataclass(frozen=True, slots=True)
class _Outline:
    """The content of a page before its figures are placed; the first is the forward one."""

    program: Program
    uses: Sequence[BlockUse]
    written: Code
    drawn: Sequence[Mapping[Pass, Drawn]]
    figures: Sequence[Figure]

    @classmethod
    def of(cls, program: Program) -> _Outline:
        """The outline of a program."""
        uses = block_uses(program.graphs)
        written = code(program.graphs, uses)
        drawn = [_drawn(program.graphs, use, written) for use in uses]
        figures = [one.figure for each in drawn for one in each.values()]
        if "overview" in program.views:
            figures.append(program.figure("overview"))
        return cls(program, uses, written, drawn, figures)


def _page(outline: _Outline, facts: Mapping[str, object], pictures: Parts) -> bytes:
    graphs, markup = outline.program.graphs, iter(pictures.markup)
    titled = zip(_titles(outline.uses), outline.uses, outline.drawn, strict=True)
    page = Page(
        title=graphs.main.title or graphs.main.block,
        file=_file(graphs),
        sections=tuple(
            _section(title, use, each, outline.written, markup) for title, use, each in titled
        ),
        facts=facts,
        overview=next(markup, ""),
        shared=pictures.shared,
        more=pictures.more,
        sheet=sheet(LIGHT),
    )
    return document(page).encode("utf-8")


def _too_large(written: bytes) -> Iterator[str]:
    if len(written) > SIZE_AT_MOST:
        advice = "that of one of its blocks is smaller: --block NAME"
        yield f"the page has {len(written):,} bytes, more than {SIZE_AT_MOST:,}; {advice}"


def _file(program: IRProgram) -> str:
    """The name of the file without its folders, none for standard input; and what plan it is."""
    name = program.main.span.source.name
    file = "" if name.startswith("<") else name.rsplit("/", 1)[-1]
    return ", ".join(filter(None, (file, program.plan and f"plan {program.plan.name}")))


def _drawn(program: IRProgram, use: BlockUse, written: Code) -> dict[Pass, Drawn]:
    """The figures of a block: a backward one where anything has a gradient.

    Values without a label are called as in the code beside them.
    """
    variables = written.blocks[use.graph.key].variables
    kept = {value: variables[value] for value in saved_names(program, use.graph.key)}
    drawings: dict[Pass, Drawn] = {"forward": forward_drawn(program, use.graph, kept=kept)}
    if use.backward.steps:
        drawings["backward"] = backward_drawn(program, use.backward, kept=kept)
    return drawings


def _titles(uses: Sequence[BlockUse]) -> list[str]:
    """The title of each block; blocks of one title are distinguished by their calls."""
    titles = [use.graph.title or use.graph.block for use in uses]
    return [
        f"{title} ({use.path})" if titles.count(title) > 1 and use.path else title
        for title, use in zip(titles, uses, strict=True)
    ]


def _section(
    title: str, use: BlockUse, views: Iterable[Pass], written: Code, markup: Iterator[str]
) -> Section:
    """A block's title, figures and code; its figures are the next ones of the markup."""
    lines = written.blocks[use.graph.key].lines
    faces: dict[Pass, PassFace] = {view: PassFace(next(markup), lines[view]) for view in views}
    return Section(title, faces)


def _facts(
    program: Program,
    settings: Settings,
    outline: _Outline,
    plans: Sequence[Planned],
    *,
    quick: bool,
) -> dict[str, object]:
    """The data of the script."""
    graphs, formulas = program.graphs, Formulas()
    blocks = _blocks(outline, formulas)
    plans = plans if len(plans) > 1 else ()
    compared = plans_data(plans, formulas)
    mesh = mesh_of(program, *(each.program for each in plans))
    sizes = facts_of(graphs)
    proven: Mapping[str, int] = {} if quick else proof_sizes(program, settings)
    rules = axis_rules(graphs, formulas, sizes)
    starts = start_numbers(graphs, formulas, sizes, mesh, proven)
    small = None if quick else at_small_sizes(program, settings, proven, starts)
    played = play(small, block_uses(small.graphs)) if small else Played()
    return {
        "format": FORMAT,
        "plan": graphs.plan.name if graphs.plan else "",
        "ranks": list(graphs.mesh),
        "mesh": [{"name": name, "value": size} for name, size in mesh.items()],
        "sizes": [{"name": n, "value": value} for n, value in starts.items() if n not in mesh],
        **blocks,
        "functions": dict(outline.written.operators),
        "formulas": packed_data(formulas.data()),
        **rules,
        "plans": compared,
        "quick": quick,
        **played.data(),
    }


def _blocks(outline: _Outline, formulas: Formulas) -> dict[str, object]:
    """The data of every block, and the tables that it refers to."""
    program, uses, graphs = outline.program, outline.uses, outline.program.graphs
    costs = {each.graph.key: each for each in cost(graphs).blocks}
    places = {use.graph.key: use.place for use in uses}
    sending = program.distributed and SendingData.of(program.distributed, graphs, formulas, uses)
    operators, shapes = FactTable[OperatorRow](), FactTable[ShapeRow]()
    blocks: list[object] = []
    for use, figures in zip(uses, outline.drawn, strict=True):
        variables = outline.written.blocks[use.graph.key].variables
        equations = Equations.of(graphs, use.backward, variables)
        facts = BlockFacts(graphs, use, places, equations, formulas, shapes, operators, figures)
        sent = sending.data(use) if sending else []
        blocks.append({**facts.data(costs[use.graph.key]), "sent": sent})
    return {"blocks": blocks, "operators": list(operators.rows), "shapes": list(shapes.rows)}
