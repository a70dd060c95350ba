"""The figures that README and docs/ show are those of their programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import xg

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("view", "stem"), [("forward", "mlp"), ("backward", "mlp_backward")])
def test_the_figure_is_up_to_date(
    theme: Literal["light", "dark"],
    view: Literal["forward", "backward"],
    stem: str,
    golden: Callable[[Path, str], None],
) -> None:
    program = xg.compile(ROOT / "diagrams" / "notation" / "mlp.xg")
    picture = program.render(view, "svg", theme=theme).decode("utf-8")
    golden(ROOT / "docs" / "figures" / f"{stem}_{theme}.svg", picture)


@pytest.mark.parametrize(("plan", "stem"), [("FSDP", "lm_fsdp"), ("CP", "lm_cp")])
def test_figures_of_dimensions_are_up_to_date(
    plan: str, stem: str, golden: Callable[[Path, str], None]
) -> None:
    program = xg.compile(ROOT / "diagrams" / "models" / "transformer.xg", plan=plan)
    picture = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / f"{stem}.svg", picture)


def test_the_figure_of_ranks_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    program = xg.compile(ROOT / "diagrams" / "notation" / "flow.xg", plan="TP")
    picture = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "flow_tp.svg", picture)
