"""Published runs in their published layouts: written, drawn, priced, and found by a search.

The table of docs/plans.md is checked against what is computed here.
"""

from __future__ import annotations

import re
import time
from math import prod
from pathlib import Path

import pytest
from cost.published import MEASURES, ROOT, RUNS, cluster_of, compiled, priced, text_of
from tier import THOROUGH, some

from xg.cli.opening import open_project
from xg.cli.plan_search import PlanSearch, Wish
from xg.passes.pipelines import VERIFY

PAGE = ROOT / "docs" / "plans.md"
MEMORY = 80e9  # bytes of an A100 and of an H100
MINUTE = 60.0
# A routed model has the plans of dense ones too.
SEARCHED: list[str] = [name for name in RUNS if THOROUGH or RUNS[name].block == "Mixtral"]


def test_ten_runs_are_published_and_one_is_routed() -> None:
    assert len(RUNS) == 10
    assert any(run.block == "Mixtral" for run in RUNS.values())


# Of each block and plan one size of a model: that which is a measure, where one is.
PRICED = some(
    sorted(RUNS, key=lambda name: name not in MEASURES),
    lambda name: (RUNS[name].block, RUNS[name].plan),
)


@pytest.mark.parametrize("name", PRICED)
def test_a_published_step_is_priced_within_a_quarter(name: str) -> None:
    seconds = priced(name).seconds
    assert seconds == pytest.approx(RUNS[name].seconds, rel=0.02 if name in MEASURES else 0.25)


@pytest.mark.parametrize("name", PRICED)
def test_the_page_says_what_is_computed(name: str) -> None:
    run = RUNS[name]
    (row,) = re.findall(rf"^\| {re.escape(name)} \|.*$", PAGE.read_text("utf-8"), re.MULTILINE)
    seconds = priced(name).seconds
    off = round(100 * (seconds / run.seconds - 1))
    assert row.endswith(f"| {run.seconds:.2f} s | {seconds:.2f} s | {off:+d} % |")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("GPT-3 175B, 64 A100", ("AG", "RS")),
        ("Llama 3 405B, 16,384 H100", ("AG", "RS")),
        ("Mixtral 8x7B, 64 H100", ("A2A",)),
    ],
)
def test_a_published_layout_is_drawn(name: str, kinds: tuple[str, ...]) -> None:
    stages = compiled(name).stages
    assert len(stages) == RUNS[name].mesh["N_PP"] * RUNS[name].turns
    drawn = stages[0].render("overview", "svg").decode("utf-8")
    assert all(kind in drawn for kind in kinds)


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_finds_a_plan_as_quick_as_the_published_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On as many ranks, with the memory of the machine or what the published layout takes here.

    As for users, passes are not verified.
    """
    monkeypatch.delenv(VERIFY, raising=False)
    run, published = RUNS[name], priced(name)
    file = tmp_path / "run.xg"
    file.write_text(text_of(run), encoding="utf-8")
    sizes = {**run.sizes, "B": run.sizes["B"] * run.parts}
    ranks = prod(run.mesh.values())
    memory = max(MEMORY, published.memory)
    project = open_project(str(file))
    begin = time.process_time()
    wish = Wish(project, run.block, sizes, "bfloat16", ranks, memory, cluster_of(name))
    best = PlanSearch(wish).run().best[0]
    assert time.process_time() - begin < MINUTE
    assert best.ranks == ranks
    assert best.price.memory <= memory
    assert best.price.seconds <= published.seconds * (1 + 1e-9)
