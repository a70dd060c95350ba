"""`xg cost --timeline`: the schedules of a pipeline as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

FILE = str(DIAGRAMS / "models" / "transformer.xg")
TITLE = re.compile(r"<title>(?:stage|rank) (\d+), (\w+) pass of microbatch (\d+), (\d+) to (\d+)<")


def test_every_pass_has_a_box_where_it_runs(xg: Xg, folder: Path) -> None:
    words = ("cost", FILE, "--plan", "PP", "--set", "N_PP=4", "--microbatches", "3")
    said = xg(*words, "--timeline", "time.svg")
    assert said.code == 0, said.err
    found = TITLE.findall((folder / "time.svg").read_text(encoding="utf-8"))
    assert len(found) == 2 * 2 * 4 * 3  # schedules, passes, stages, microbatches
    (text,) = (each for each in said.out.split("\n\n") if each.startswith("1F1B"))
    chart = {stage: row.split() for stage, row in re.findall(r"  stage (\d)  (.+)", text)}
    for stage, way, part, start, end in found[: len(found) // 2]:
        for column in range(int(start), int(end)):
            assert chart[stage][column] == f"{way[0].upper()}{part}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--plan", "PP", "--timeline", "time.gif"), "time.gif: pictures end in .svg, .pdf, .png"),
        (("--plan", "TP", "--timeline", "time.svg"), "--timeline is of a pipeline"),
        (("--timeline", "time.svg"), "is of a pipeline: --plan NAME"),
    ],
)
def test_other_pictures_are_refused(
    xg: Xg, folder: Path, words: tuple[str, ...], message: str
) -> None:
    said = xg("cost", FILE, *words)
    assert said.code != 0
    assert message in said.err
    assert not list(folder.glob("time.*"))
