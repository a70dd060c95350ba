"""The explorer: one page for a program, with its figures, its code, its costs and real numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xg.backends.graphviz import parts
from xg.backends.graphviz.mapping.backward import backward_drawn
from xg.backends.graphviz.mapping.forward import forward_drawn
from xg.backends.graphviz.mapping.steps import Drawn
from xg.backends.graphviz.style import DARK, LIGHT, Theme
from xg.backends.graphviz.svg_part import sheet
from xg.backends.html import write
from xg.backends.html.page import Face, Page, Pass, Section
from xg.cost import cost
from xg.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.explorer.code import Code, code
from xg.explorer.equation import Equations
from xg.explorer.facts import BlockFacts, Operators
from xg.explorer.formulas import Formulas, axis_rules, start_numbers
from xg.explorer.play import is_small, play
from xg.explorer.uses import BlockUse, block_uses
from xg.frontend import Settings, declared_dims
from xg.graph import Program as Graphs
from xg.proof.facts import size_facts
from xg.proof.sizes import verification_sizes

FORMAT = 1  # of the facts


@dataclass(frozen=True, slots=True)
class Explored:
    """A page, the engines that placed its figures, and what went less well than hoped."""

    page: bytes
    engines: frozenset[str]
    warnings: tuple[str, ...]


def explore(program: Program, settings: Settings) -> Explored:
    """The page of a program that was compiled with `settings`."""
    graphs = program.graphs
    uses = block_uses(graphs)
    written = code(graphs, uses)
    drawn = [_drawn(graphs, use) for use in uses]
    pictures = parts(one.figure for each in drawn for one in each.values())
    markup = iter(pictures.markup)
    page = Page(
        title=graphs.main.title or graphs.main.block,
        file=_file(graphs),
        sections=tuple(
            _section(title, use, each, written, markup)
            for title, use, each in zip(_titles(uses), uses, drawn, strict=True)
        ),
        facts=_facts(program, settings, uses, drawn, written),
        shared=pictures.shared,
        sheet=sheet(LIGHT),
        colors=(_colors(LIGHT), _colors(DARK)),
    )
    return Explored(write(page).encode("utf-8"), pictures.engines, pictures.warnings)


def _file(program: Graphs) -> str:
    """The name of the file without its folders; empty for standard input."""
    name = program.main.span.source.name
    return "" if name.startswith("<") else name.rsplit("/", 1)[-1]


def _colors(theme: Theme) -> dict[str, str]:
    return {str(color): value for color, value in theme.colors.items()}


def _drawn(program: Graphs, use: BlockUse) -> dict[Pass, Drawn]:
    """The figures of a block: a backward one where anything has a gradient."""
    found: dict[Pass, Drawn] = {"forward": forward_drawn(program, use.graph)}
    if use.backward.steps:
        found["backward"] = backward_drawn(program, use.backward)
    return found


def _titles(uses: Sequence[BlockUse]) -> list[str]:
    """What each block is called; of two that are called the same, with how they are called."""
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
    faces: dict[Pass, Face] = {view: Face(next(markup), lines[view]) for view in views}
    return Section(title, faces)


def _facts(
    program: Program,
    settings: Settings,
    uses: Sequence[BlockUse],
    drawn: Sequence[Mapping[Pass, Drawn]],
    written: Code,
) -> dict[str, object]:
    """What the script reads."""
    graphs, formulas = program.graphs, Formulas()
    costs = {each.graph.key: each for each in cost(graphs).blocks}
    places = {use.graph.key: use.place for use in uses}
    operators = Operators()
    blocks: list[object] = []
    for use, figures in zip(uses, drawn, strict=True):
        variables = written.blocks[use.graph.key].variables
        equations = Equations.of(graphs, use.backward, variables)
        facts = BlockFacts(graphs, use, places, equations, formulas, operators, figures)
        blocks.append(facts.data(costs[use.graph.key]))
    sizes = size_facts(graphs)
    proven = verification_sizes(graphs, {})
    rules = axis_rules(formulas, sizes)
    starts = start_numbers(graphs, formulas, sizes, proven)
    words = {name: word for name, word in settings.items() if isinstance(word, str)}
    return {
        "format": FORMAT,
        "sizes": [{"name": name, "value": value} for name, value in starts.items()],
        "blocks": blocks,
        "operators": operators.data(),
        "functions": dict(written.operators),
        "formulas": formulas.data(),
        **rules,
        "runs": list(_runs(program, words, proven, starts)),
    }


def _runs(
    program: Program,
    words: Mapping[str, str],
    proven: Mapping[str, int],
    starts: Mapping[str, int],
) -> Iterator[dict[str, object]]:
    """The program run at the sizes of its proof; where the file forbids these, at its own.

    Nothing if the file allows no small ones.
    """
    declared = declared_dims(program.project)
    free = [name for name in declared if name not in program.graphs.main.sizes.defaults]
    choices = (
        {name: proven[name] for name in declared if name in proven},
        {name: proven[name] for name in free if name in proven},
        {name: starts[name] for name in free if name in starts},
    )
    block = program.graphs.main.block
    for numbers in choices:
        try:
            small = compile_project(program.project, block, {**words, **numbers}).graphs
        except DiagnosticError:  # they do not go together
            continue
        if is_small(small):
            yield play(small, block_uses(small))
            return
