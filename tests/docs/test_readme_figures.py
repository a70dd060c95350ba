"""The figures that README and docs/ show are those of their programs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from website.first_screen import first_screens

import xg
from xg.cli.render.pipeline_figure import picture

ROOT = Path(__file__).parents[2]


def test_the_first_screen_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    """It is the picture of the program above it, on a screen and on a phone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, drawn in first_screens(ROOT).items():
        golden(ROOT / name, drawn)
        assert name in readme
        assert {"GPU 1", "Ranks, plan TP"} & set(re.findall(r">([^<>]+)</text>", drawn))


@pytest.mark.parametrize(("plan", "stem"), [("FSDP", "lm_fsdp"), ("CP", "lm_cp"), ("KV", "lm_kv")])
def test_figures_of_dimensions_are_up_to_date(
    plan: str, stem: str, golden: Callable[[Path, str], None]
) -> None:
    program = xg.compile(ROOT / "diagrams" / "models" / "transformer.xg", plan=plan)
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / f"{stem}.svg", drawn)


def test_the_picture_of_a_pipeline_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    file = ROOT / "diagrams" / "models" / "transformer.xg"
    program = xg.compile(file, plan="PP", mesh={"N_PP": 4})
    drawn = picture(program, 4, "svg", "auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "lm_pp.svg", drawn)


def test_the_figure_of_ranks_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    program = xg.compile(ROOT / "diagrams" / "notation" / "flow.xg", plan="TP")
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "flow_tp.svg", drawn)
