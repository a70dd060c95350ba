"""`xg cost --timeline`: the schedules of a pipeline as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

FILE = str(DIAGRAMS / "models" / "transformer.xg")
TITLE = re.compile(
    r"<title>(?:stage|rank) (\d+), (\w+) pass(?: for (\w+))? of microbatch (\d+), (\d+) to (\d+)<"
)


def test_every_pass_has_a_box_where_it_runs(xg: Xg, folder: Path) -> None:
    words = ("cost", FILE, "--plan", "PP", "--set", "N_PP=4", "--microbatches", "3")
    said = xg(*words, "--timeline", "time.svg")
    assert said.code == 0, said.err
    found = TITLE.findall((folder / "time.svg").read_text(encoding="utf-8"))
    # Passes of schedules, stages, microbatches; backward passes of ZBH1 have two halves.
    assert len(found) == (2 + 2 + 3) * 4 * 3
    charts = [each for each in said.out.split("\n\n") if "in flight per" in each]
    assert [each.split(",")[0] for each in charts] == ["1F1B", "GPipe", "ZBH1"]
    for text, boxes in zip(charts, (found[:24], found[24:48], found[48:]), strict=True):
        chart = {stage: row.split() for stage, row in re.findall(r"  stage (\d)  (.+)", text)}
        for stage, way, half, part, start, end in boxes:
            letter = "W" if half == "weights" else way[0].upper()
            for column in range(int(start), int(end)):
                assert chart[stage][column] == f"{letter}{part}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--plan", "PP", "--timeline", "time.gif"),
            "time.gif: a picture must end in .svg, .pdf, .png",
        ),
        (("--plan", "TP", "--timeline", "time.svg"), "--timeline needs stages"),
        (("--timeline", "time.svg"), "needs a pipeline: add --plan NAME"),
    ],
)
def test_other_pictures_are_refused(
    xg: Xg, folder: Path, words: tuple[str, ...], message: str
) -> None:
    said = xg("cost", FILE, *words)
    assert said.code != 0
    assert message in said.err
    assert not list(folder.glob("time.*"))
