"""The examples of the documents do what the documents say; `./dev docs` updates their outputs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from docs.markdown import Block, blocks, commands, matches, pieces

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/comparing.md",
    "docs/editor.md",
    "docs/dimensions.md",
    "docs/documents.md",
    "docs/explorer.md",
    "docs/generation.md",
    "docs/importing.md",
    "docs/ir.md",
    "docs/jax.md",
    "docs/models.md",
    "docs/overview.md",
    "docs/parallel.md",
    "docs/ranks.md",
    "docs/plans.md",
    "docs/how-to.md",
    "docs/sentiment.md",
    "docs/torch.md",
    "docs/tutorial.md",
)
DRAWN_OR_RUN = ("console", "sh", "{xg} mlp")  # Sphinx draws the last one for the site
SOURCE_ROOTS = ("compiler", "runtime", "grammar")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a fresh checkout: `./xg`, its environment, the diagrams."""
    for name, arguments in (("xg", " -P -m xg"), (".venv/bin/python", "")):
        launcher = tmp_path / name
        launcher.parent.mkdir(parents=True, exist_ok=True)
        text = f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n'
        launcher.write_text(text, encoding="utf-8")
        launcher.chmod(0o755)
    for name in ("diagrams", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.fixture(scope="module")
def environment() -> Mapping[str, str]:
    paths = os.pathsep.join(str(ROOT / name) for name in SOURCE_ROOTS)
    fixed = {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    fixed["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # it warns where no names are resolved
    return {**os.environ, **fixed, "PYTHONPATH": paths}


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of a command, as a terminal shows it."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    return done.stdout


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples(
    name: str, folder: Path, environment: Mapping[str, str], request: pytest.FixtureRequest
) -> None:
    document = (ROOT / name).read_text(encoding="utf-8")
    update = bool(request.config.getoption("--update-golden"))
    wrong: dict[Block, str] = {}
    for block in blocks(document):
        if block.how == "file":
            (folder / block.what).write_text(block.text, encoding="utf-8")
        elif block.how == "part of":
            printed = _run(block.what, folder, environment)
            missing = [piece for piece in pieces(block.text) if piece not in printed]
            assert missing == [], printed
        elif block.language == "console":
            shown = [(c, _run(c.text, folder, environment)) for c in commands(block.text)]
            exact = block.how != "numbers vary"
            if not all(matches(c.output, output, numbers=exact) for c, output in shown):
                wrong[block] = "".join(f"$ {command.text}\n{output}" for command, output in shown)
    if update:
        for block, text in reversed(wrong.items()):
            end = block.start + len(block.text)
            document = document[: block.start] + text + document[end:]
        (ROOT / name).write_text(document, encoding="utf-8", newline="\n")
    assert [text for block, text in wrong.items() if block.text != text and not update] == []


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
