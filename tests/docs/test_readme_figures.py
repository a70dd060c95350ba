"""The figures that README and docs/ show are those of their programs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from docs.markdown import blocks
from website.first_screen import first_screens

import xg
from xg.cli.pipeline import picture

ROOT = Path(__file__).parents[2]


def test_the_first_screen_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    """It is the picture of the program above it, on a screen and on a phone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, drawn in first_screens(ROOT).items():
        golden(ROOT / name, drawn)
        assert name in readme
        assert {"GPU 1", "Ranks, plan TP"} & set(re.findall(r">([^<>]+)</text>", drawn))
        width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', drawn)[0]
        assert f'<rect width="{width}" height="{height}" fill="#' in drawn.splitlines()[1]


PLANS = ("DP", "FSDP", "HSDP", "TP", "SP", "VP", "CP", "Ring", "Zigzag", "Ulysses", "KV")


@pytest.mark.parametrize("plan", PLANS)
def test_figures_of_dimensions_are_up_to_date(
    plan: str, golden: Callable[[Path, str], None]
) -> None:
    program = xg.compile(ROOT / "diagrams" / "models" / "transformer.xg", plan=plan)
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / f"lm_{plan.lower()}.svg", drawn)


def test_the_figure_of_experts_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    file = ROOT / "diagrams" / "models" / "mixtral.xg"
    program = xg.compile(file, plan="EP", mesh={"N_G": 1})
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "mixtral_ep.svg", drawn)


def test_every_dimension_has_its_rule_price_plan_and_figure() -> None:
    """Three lines of a rule; of a page with several plans, a figure for each."""
    page = (ROOT / "docs" / "dimensions.md").read_text(encoding="utf-8")
    sections = [part for part in page.split("\n## ")[1:] if not part.startswith("Recomputation")]
    assert len(sections) == 8
    shown: list[str] = []
    for section in sections:
        (rule,) = re.findall(r"^\| rule \|.*\n\|---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
        assert len(rule.splitlines()) == 3, section
        assert "- **Price**:" in section
        assert "- **Plan**:" in section
        shown += re.findall(r"\(figures/(\w+)\.svg\)", section)
        assert shown
    drawn = {"lm_pp", "mixtral_ep", *(f"lm_{plan.lower()}" for plan in PLANS)}
    assert sorted(shown) == sorted(drawn)


def test_the_picture_of_a_pipeline_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    file = ROOT / "diagrams" / "models" / "transformer.xg"
    program = xg.compile(file, plan="PP", mesh={"N_PP": 4})
    drawn = picture(program, 4, "svg", "auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "lm_pp.svg", drawn)


def test_the_figure_of_ranks_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    program = xg.compile(ROOT / "diagrams" / "notation" / "flow.xg", plan="TP")
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "flow_tp.svg", drawn)


PICTURE = re.compile(r"\(figures/(tutorial_(\w+?)(_backward)?\.svg)\)")


@pytest.mark.parametrize("page", ["start", "tutorial", "split"])
def test_the_figures_of_tutorials_are_up_to_date(
    page: str, tmp_path: Path, golden: Callable[[Path, str], None]
) -> None:
    """Each is the figure of the file that the page shows above it, and each file has one."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    files = {block.what: block.text for block in blocks(text) if block.what.endswith(".xg")}
    for name, source in files.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    shown = PICTURE.findall(text)
    for image, stem, backward in shown:
        plan = re.search(r"^plan (\w+)", files[f"{stem}.xg"], re.MULTILINE)
        program = xg.compile(tmp_path / f"{stem}.xg", plan=plan[1] if plan else None)
        view = "backward" if backward else "overview" if plan else "forward"
        drawn = program.render(view, "svg", theme="auto").decode("utf-8")
        golden(ROOT / "docs" / "figures" / image, drawn)
    assert {f"{stem}.xg" for _, stem, _ in shown} == {*files} - {"both.xg", "wrong.xg"}


def test_the_figure_of_a_batch_norm_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    """It is that of the file which the recipe has, and so is what is said beside it."""
    page = (ROOT / "docs" / "how-to" / "batch-norm.md").read_text(encoding="utf-8")
    (source,) = (block.text for block in blocks(page) if block.what == "normed.xg")
    program = xg.compile(source=source, plan="DP")
    drawn = program.render("overview", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "batch_norm.svg", drawn)
    assert "(../figures/batch_norm.svg)" in page


def test_the_figure_of_a_gradient_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    page = (ROOT / "docs" / "how-to" / "gradient-in-a-block.md").read_text(encoding="utf-8")
    program = xg.compile(ROOT / "diagrams" / "examples" / "pinn.xg")
    drawn = program.render("forward", "svg", theme="auto").decode("utf-8")
    golden(ROOT / "docs" / "figures" / "pinn.svg", drawn)
    assert "(../figures/pinn.svg)" in page
