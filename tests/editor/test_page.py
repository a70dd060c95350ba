"""The table of docs/editor.md says what the server says."""

import re
from pathlib import Path

import pytest

from xg.frontend.choices import typed_blocks
from xg.frontend.project import read_project
from xg_editor.explain import explain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editor.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([^`\n]*‸[^`\n]*)` \| (.*) \|$", PAGE, re.MULTILINE))
WORDS = re.compile(r"`[^`]+`|[\w=*]+")
ANNOUNCED = {"its", "signature", "meaning", "the", "block's", "block", "s", "head", "parameters"}


@pytest.mark.parametrize("place", ROWS)
def test_the_page_says_what_the_server_says(place: str) -> None:
    project = read_project(ROOT / "diagrams" / "notation" / "mlp.xg")
    text = project.main.span.source.text
    before, behind = place.split("‸")
    assert text.count(before + behind.rstrip()) >= 1, place
    offset = text.index(before + behind.rstrip()) + len(before)
    found = explain(project, typed_blocks(project), offset)
    assert found is not None
    said = re.findall(r"[^\s`,]+", found.text)
    wanted = [w for w in re.findall(r"[^\s`,]+", ROWS[place]) if w not in ANNOUNCED]
    missing = [word for word in wanted if word not in said and word not in ("and", "its")]
    assert missing == [], found.text


def test_the_page_has_such_a_table() -> None:
    assert len(ROWS) >= 6
