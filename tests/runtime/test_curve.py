import io
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from xg_runtime.curve import draw
from xg_runtime.log import Progress, Record

RECORDS: list[Record] = [
    {"step": 0, "validation": 5.5},
    *({"step": step, "loss": 1 + 4 / step, "rate": 0.1, "norm": 1.0} for step in range(1, 101)),
    {"step": 100, "validation": 1.5},
]


def lines(svg: str, kind: str) -> list[list[tuple[float, float]]]:
    found = re.findall(rf'<polyline class="{kind}"[^>]* points="([^"]*)"', svg)
    pairs = [[pair.split(",") for pair in points.split()] for points in found]
    return [[(float(x), float(y)) for x, y in line] for line in pairs]


def test_the_curve_is_well_formed_and_shows_every_line() -> None:
    svg = draw(RECORDS, {"unigram <entropy> & co": 3.25})
    ElementTree.fromstring(svg)
    assert "unigram &lt;entropy&gt; &amp; co 3.250" in svg
    assert len(lines(svg, "raw")[0]) == len(lines(svg, "smooth")[0]) == 100
    assert len(lines(svg, "validation")[0]) == svg.count("<circle") == 2
    assert "loss 5.000 →" in svg
    assert "prefers-color-scheme: dark" in svg


def test_a_falling_loss_falls_on_the_page() -> None:
    (smooth,) = lines(draw(RECORDS, {}), "smooth")
    assert all(b[0] > a[0] and b[1] >= a[1] for a, b in pairwise(smooth))


def test_all_points_and_references_are_inside() -> None:
    svg = draw(RECORDS, {"far": 9.0})
    for x, y in [*lines(svg, "smooth")[0], *lines(svg, "validation")[0]]:
        assert 52 <= x <= 700
        assert 52 <= y <= 356
    (level,) = re.findall(r'class="reference" x1="52" y1="([\d.]+)"', svg)
    assert 52 <= float(level) <= 356


def test_a_long_run_keeps_its_spikes() -> None:
    records: list[Record] = [{"step": step, "loss": 1.0} for step in range(1, 50_001)]
    records[31_415]["loss"] = 7.0
    svg = draw(records, {})
    (raw,) = lines(svg, "raw")
    assert len(raw) < 1400
    assert min(y for _, y in raw) < min(y for _, y in lines(svg, "smooth")[0]) - 50


@pytest.mark.parametrize("records", [[], RECORDS[:1], RECORDS[1:2], RECORDS[1:3]])
def test_the_shortest_runs_are_drawn(records: list[Record]) -> None:
    ElementTree.fromstring(draw(records, {}))


def test_the_bytes_depend_on_the_records_only() -> None:
    assert draw(RECORDS, {"a": 1.0}) == draw(list(RECORDS), {"a": 1.0})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(stream: io.StringIO, steps: int = 100) -> Progress:
    return Progress(stream, 0, steps, 64, "tokens")


def test_without_a_terminal_ten_lines_are_written() -> None:
    stream = io.StringIO()
    shown = progress(stream)
    shown.validation = 2.5
    for step in range(1, 101):
        shown.evaluated = 100 if step == 100 else 0
        shown.show(step, 3.0)
    shown.close()
    written = stream.getvalue().splitlines()
    assert len(written) == 10
    assert "  validation 2.5000 at step 0  " in written[0]
    assert re.fullmatch(
        r"step 100/100  loss 3\.0000  validation 2\.5000  \S+ tokens/s  0:00 left", written[-1]
    )


def test_on_a_terminal_one_line_is_redrawn() -> None:
    stream = Terminal()
    shown = progress(stream)
    for step in range(1, 101):
        shown.show(step, 3.0)
    shown.close()
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\n")
    frames = written.split("\r")
    assert 2 <= len(frames) < 20
    assert "step 100/100  ━━━━━━━━━━━━━━━━━━━━  loss 3.0000" in frames[-1]


@pytest.mark.parametrize("columns", [12, 40, 60, 80, 100, 200])
def test_no_frame_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    shown = progress(stream, 100_000)
    shown.validation, shown.accuracy, shown.evaluated = 2.5, 0.5, 100_000
    shown.show(100_000, 3.0)
    frame = stream.getvalue().removeprefix("\r").removesuffix("\x1b[K")
    assert len(frame) < columns
    assert frame.startswith("step 100000"[: columns - 2])
    assert "━" in frame or columns < 200
    assert "━" not in frame or columns > 80


def test_accuracy_stands_below_along_the_same_steps() -> None:
    records: list[Record] = [
        {**record, "accuracy": 0.5 + record["step"] / 250} if "validation" in record else record
        for record in RECORDS
    ]
    svg = draw(records, {}, {"always the same": 0.5})
    ElementTree.fromstring(svg)
    loss, accuracy = lines(svg, "validation")
    assert [x for x, _ in loss] == [x for x, _ in accuracy]
    assert all(y < 400 for _, y in loss)
    assert accuracy[0][1] > accuracy[1][1] > 400
    assert "always the same 0.500" in svg
    assert "accuracy 0.900</title>" in svg
    assert svg.count('y="24"') == 1  # the title: no legend beside it, it is too long
    assert "accuracy" not in draw(RECORDS, {}, {"always the same": 0.5})
