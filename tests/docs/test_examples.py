"""The examples of the documents do what the documents say; `./dev docs` updates their outputs."""

import sys
from pathlib import Path

import pytest
from docs.markdown import blocks, matches
from docs.running import ROOT, checkout, follow

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/editor.md",
    "docs/dimensions.md",
    "docs/documents.md",
    "docs/explorer.md",
    "docs/importing.md",
    "docs/ir.md",
    "docs/models.md",
    "docs/parallel.md",
    "docs/questions.md",
    "docs/ranks.md",
    "docs/plans.md",
    "docs/split.md",
    "docs/start.md",
    "docs/tutorial.md",
    *(
        page.relative_to(ROOT).as_posix()
        for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))
        if page.stem != "notebook"  # test_notebooks.py runs its cells in a kernel
    ),
)
COLD = ("README.md", "docs/explorer.md", "docs/ir.md")  # start Python for every command
# tests/examples follows it, and goes on with the model that it trains.
ELSEWHERE = ("docs/how-to/classify-text.md",)
DRAWN_OR_RUN = ("console", "sh", "{xg} mlp")  # Sphinx draws the last one for the site


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in ELSEWHERE])
def test_examples(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    python = [sys.executable] if name in COLD else request.getfixturevalue("warm_python")
    checkout(tmp_path, python)
    follow(name, tmp_path, update=bool(request.config.getoption("--update-golden")))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_block_is_tested_somehow(name: str) -> None:
    for block in blocks((ROOT / name).read_text(encoding="utf-8")):
        assert block.how or block.language in DRAWN_OR_RUN, block.text


def test_a_wrong_output_is_found() -> None:
    assert matches("a\n…\nd 1.… s\n", "a\nb\nc\nd 1.25 s\n")
    assert matches("error 4.2e-10\n", "error 1.9e-12\n")
    assert matches("19,693 tokens/s\n", "7.5 tokens/s\n", numbers=False)
    assert not matches("19,693 tokens/s\n", "19,694 tokens/s\n")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("a\n", "a\nb\n")
    assert not matches("a.c\n", "abc\n")
