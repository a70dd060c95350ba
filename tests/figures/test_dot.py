"""DOT text: goldens, attributes from the list only, names that stay inside their labels."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from figures.hand_made import gated_mlp, mha_backward, mha_forward, mlp_backward, overview
from figures.hostile import HOSTILE, hostile_figure

from xg.figures import ThemeName, dot
from xg.figures.formats.dot_text import Attribute
from xg.figures.layout.engines import WASM
from xg.figures.model.figure import Figure

GOLDEN = Path(__file__).parent / "golden"
FIGURES: dict[str, tuple[Figure, ThemeName]] = {
    "mha_forward": (mha_forward(), "light"),
    "mha_backward": (mha_backward(), "light"),
    "mlp_backward": (mlp_backward(), "dark"),
    "gated_mlp": (gated_mlp(), "print"),
    "overview": (overview(), "light"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_text_is_the_golden(name: str, request: pytest.FixtureRequest) -> None:
    figure, theme = FIGURES[name]
    path = GOLDEN / f"{name}.dot"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(dot(figure, theme), encoding="utf-8", newline="\n")
    assert dot(figure, theme) == path.read_text(encoding="utf-8")


def test_every_golden_has_a_figure() -> None:
    assert {path.stem for path in GOLDEN.glob("*.dot")} == set(FIGURES)


def attribute_names(text: str) -> set[str]:
    """Return the names before `=` outside quoted strings and HTML labels."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    depth, outside = 0, ""
    for match in re.finditer(r"->|.", bare, re.DOTALL):
        sign = match.group()
        depth += (sign == "<") - (sign == ">")
        outside += sign if depth == 0 else ""
    return set(re.findall(r"(\w+)=", outside))


@pytest.mark.parametrize("name", FIGURES)
def test_attributes_are_from_the_list(name: str) -> None:
    names = attribute_names(dot(*FIGURES[name]))
    assert "fillcolor" in names
    assert names <= set(get_args(Attribute))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_inside(text: str) -> None:
    written = dot(hostile_figure(text))
    assert attribute_names(written) <= set(get_args(Attribute))
    answer = json.loads(WASM.run(written))  # Graphviz reads it, and finds the nodes
    assert len(answer["edges"]) == len(hostile_figure(text).edges)
    assert len([o for o in answer["objects"] if "nodes" not in o and "pos" in o]) == 5


def test_the_attribute_check_can_fail() -> None:
    assert "URL" in attribute_names('a [label="x=1", URL="y"]')


def test_dashed_edges_run_with_the_rows() -> None:
    written = dot(overview())
    assert '"output" -> "embedding"' not in written
    assert re.search(r'"mlp" -> "output" \[style=dashed.*dir=back', written)
