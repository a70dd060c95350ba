"""Flaws of all figures that ship, in every option, and of random ones: `python -m figures.sweep`.

`--programs 100` looks at so many random programs, 2,000 where nothing is said.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path
from random import Random

from figures.flaws import flaws, flaws_halfway
from figures.layout_checks import dead_ends
from figures.shipped_figures import CASES, programs
from figures.test_flaws import random_figures

from xg.driver import Program
from xg.figures import paint_figure, step_by_step
from xg.figures.model.figure import Figure, NotTurned, TooNarrow
from xg.figures.views import View
from xg.figures.views import figure as figure_of
from xg.ir.graph import Call, Graph, Remark

Named = Iterator[tuple[str, Figure]]
POINTS = 72.0  # in an inch
WIDTHS = (3.3, 5.0)
DEPTHS = range(4)
# A page of some width may be no whole pixels, and its corners are as near as its scale is small.
OF_WIDTHS = ("broken pixel", "line at corner")
WORDS = ("ours", "a longer note here", "")


def of_options(figure: Figure) -> Named:
    """A figure in every option that changes where its parts are."""
    yield "as it is", figure
    yield "without a title", replace(figure, has_heading=False)
    yield "legend", replace(figure, legend=True)
    yield "to the right", replace(figure, rightward=True)
    yield "to the right, legend", replace(figure, rightward=True, legend=True, has_heading=False)
    for inches in WIDTHS:
        yield f"{inches} in wide", replace(figure, width=inches * POINTS)


def remarked(graph: Graph, choose: Random) -> Graph:
    """A graph with a third of its values, and half of its calls, noted or highlighted."""
    found = [
        Remark(name, is_edge, choose.choice(WORDS), choose.random() < 0.5)
        for name, _ in graph.names()
        for is_edge in (False, True)
        if choose.random() < 0.3
    ]
    calls = [step.path for step in graph.steps if isinstance(step, Call)]
    found += [Remark(call, False, "new", True) for call in calls if choose.random() < 0.5]
    return replace(graph, remarks=tuple(one for one in found if one.text or one.highlights))


def with_remarks(program: Program, view: View, name: str) -> Figure:
    """A view of a program that has remarks all over."""
    choose = Random(name)
    graphs, ranks = program.graphs, program.distributed
    graphs = replace(graphs, graphs={key: remarked(g, choose) for key, g in graphs.graphs.items()})
    if ranks is not None:
        ranks = replace(ranks, graphs={key: remarked(g, choose) for key, g in ranks.graphs.items()})
    return figure_of(graphs, view, placed=ranks)


def of_case(case: tuple[Path, str | None]) -> tuple[int, list[str]]:
    """How many pictures a file has under a plan, in every option, and what is wrong in them."""
    found: list[str] = []
    count = 0
    for name, program in programs(*case):
        for view in program.views:
            called = f"{name}.{view}"
            remarks = with_remarks(program, view, called)
            drawn = [*of_options(program.figure(view)), ("remarks", remarks)]
            drawn.append(("remarks, to the right", replace(remarks, rightward=True)))
            for depth in DEPTHS if view == "overview" else ():
                opened = program.figure(view, depth=depth)
                drawn.append((f"depth {depth}", opened))
                drawn.append((f"depth {depth}, to the right", replace(opened, rightward=True)))
                for inches in WIDTHS:
                    narrow = replace(opened, width=inches * POINTS)
                    drawn.append((f"depth {depth}, {inches} in wide", narrow))
            more, wrong = looked_at(called, iter(drawn))
            count, found = count + more, found + wrong
    return count, found


def of_seed(seed: int) -> tuple[int, list[str]]:
    """The same for a random program."""
    count, found = 0, list[str]()
    for number, figure in enumerate(random_figures(seed)):
        more, wrong = looked_at(f"seed {seed}, figure {number}", of_options(figure))
        count, found = count + more, found + wrong
    return count, found


def looked_at(name: str, figures: Named) -> tuple[int, list[str]]:
    """How many pictures were looked at, each once, and what is wrong in them."""
    seen: list[Figure] = []
    found: list[str] = []
    for option, figure in figures:
        if figure in seen or (figure.columns and figure.rightward):
            continue
        seen.append(figure)
        try:
            display, placed = paint_figure(figure)
        except (TooNarrow, NotTurned):
            continue
        flawed = flaws(display, figure.groups, rightward=figure.rightward)
        if option == "as it is":  # halfway, a branch has the line that it leaves
            steps = step_by_step(figure, display)
            flawed += flaws_halfway(steps[len(steps) // 2], display)
        wrong = [f"{one.kind}: {one.what} {one.other}" for one in flawed
                 if not (figure.width and one.kind in OF_WIDTHS)]  # fmt: skip
        wrong += [placed.warning] if placed.warning else []
        wrong += [f"leads nowhere: {node}" for node in dead_ends(figure)]
        found += [f"{name}, {option}: {each}" for each in wrong]
    return len(seen), found


def main() -> int:
    """Look at all; print what is wrong, and exit 1 if something is."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    programs_wanted: int = parser.parse_args().programs
    total, wrong = 0, 0
    with Pool() as pool:
        for several in (
            pool.imap(of_case, CASES),
            pool.imap(of_seed, range(programs_wanted), chunksize=8),
        ):
            for count, found in several:
                total, wrong = total + count, wrong + len(found)
                sys.stdout.writelines(f"{line}\n" for line in found)
                sys.stdout.flush()
    sys.stdout.write(f"{total:,} pictures, {wrong} flaws\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
