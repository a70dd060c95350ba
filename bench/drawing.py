"""How long a figure takes: against compiling what it shows, the layout engine, and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

import xg
from bench.pairs import Ratio, compare, summary
from bench.programs import layers
from xg.figures import written
from xg.figures.draw.paint import paint
from xg.figures.layout.engines import Engine
from xg.figures.layout.run_engine import ENGINES, layout
from xg.figures.model.figure import Figure
from xg.figures.views import View

MODELS: Final = Path(__file__).parents[1] / "diagrams" / "models"
LARGE: Final[Mapping[View, int]] = {"forward": 22, "backward": 9}  # layers, for some 500 nodes
OF_ENGINE: Final = 1.2  # times what the layout engine takes a large figure may take,
BESIDE: Final = 0.5  # and so many seconds more
FOLDED: Final = 0.3  # seconds that the picture of a model of 12 layers may take


def measure(pairs: int) -> Iterator[Ratio]:
    """Figures of a transformer layer, of 500 nodes, and of a model whose layers are folded."""
    file = MODELS / "transformer.xg"
    program = xg.compile(file, block="Layer")
    forward, backward = program.figure("forward"), program.figure("backward")
    yield compare(
        "draw the backward figure of a layer",
        lambda: draw(backward),
        "its forward figure",
        lambda: draw(forward),
        pairs,
        None,
    )
    yield compare(
        "draw the forward figure of a layer",
        lambda: draw(forward),
        "compiling it",
        lambda: xg.compile(file, block="Layer").source("numpy"),
        pairs,
        None,
    )
    for view, count in LARGE.items():
        yield large(written_out(count).figure(view), view, pairs)
    yield summary(
        "draw a model of 12 layers, folded",
        f"{FOLDED:g} s",
        [(_seconds(_folded), FOLDED) for _ in range(pairs)],
        1.0,
    )


def draw(figure: Figure, engines: Sequence[Engine] = ENGINES) -> bytes:
    """Lay a figure out, paint it and write it as SVG; `xg.figures` would remember it."""
    return written(paint(layout(figure, engines)), "svg", "light")


def large(figure: Figure, view: View, pairs: int) -> Ratio:
    """Compare drawing a figure with what it may take beside the layout engine."""
    spent: list[float] = []

    def run(problem: str) -> str:
        start = process_time()
        answer = ENGINES[0].run(problem)
        spent.append(process_time() - start)
        return answer

    engine = replace(ENGINES[0], run=run)
    draw(figure, [engine])
    times: list[tuple[float, float]] = []
    for _ in range(pairs):
        spent.clear()
        seconds = _seconds(lambda: draw(figure, [engine]))
        times.append((seconds, OF_ENGINE * sum(spent) + BESIDE))
    return summary(f"draw {len(figure.nodes)} nodes, {view}", "its limit", times, 1.0)


def written_out(count: int) -> xg.Program:
    """Return a program of one block with so many layers in it."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "layers.xg"
        file.write_text(layers(count), encoding="utf-8")
        return xg.compile(file)


def _folded() -> bytes:
    return draw(xg.compile(MODELS / "gpt2.xg").figure("overview"))


def _seconds(action: Callable[[], object]) -> float:
    start = process_time()
    action()
    return process_time() - start
