"""Docstrings, comments and documents are plain English: a few words are not used at all."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CODE = ("compiler", "runtime", "grammar", "tests", "bench", "examples", "website", "docs")
PAGES = (
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "grammar/README.md")
    ),
)
BANNED = {
    "told": "reported",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "anew": "again",
    "lies": "is, is placed",
    "stands": "is, means, comes",
    "held to": "checked against",
    "held against": "checked against",
    "comes along": "ships, is bundled",
    "come along": "ship, are bundled",
    "brings along": "ships, copies",
    "mistake": "error",
    "mistakes": "errors",
    "nobody": "no one, none",
    "alike": "the same, equal",
    "at hand": "available",
    "whoever": "the caller, the reader",
}
WORDS = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
WHAT = re.compile(r"(?:\A|\n\n|[.!?]\s)What\b(?![^.]*\?)")


def problems(text: str) -> Iterator[str]:
    """Yield what a text has to say otherwise."""
    for match in WORDS.finditer(text):
        yield f"{match[0]}: say {BANNED[match[0].lower()]}"
    if WHAT.search(text):
        yield "a sentence starts with What"


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield every docstring and comment of a module, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found_in_code(folder: str) -> list[str]:
    """Return what is wrong with the texts of a folder's modules."""
    return [
        f"{file.relative_to(ROOT).as_posix()}:{line}: {problem}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts_of(suspect(file.read_text(encoding="utf-8")))
        for problem in problems(text)
    ]


def suspect(source: str) -> str:
    """Return a module, or nothing where no line of it has what texts must not: that is quick."""
    return source if WORDS.search(source) or "What" in source else ""


def prose(markdown: str) -> str:
    """Return a page without its code, and without links to tests, which are called as the tests."""
    without_blocks = re.sub(r"(?ms)^```.*?^```$", "", markdown)
    without_tests = re.sub(r"\[[^\]]*\]\(\.\./tests/[^)]*\)", "", without_blocks)
    return re.sub(r"`[^`\n]*`", "", without_tests)


@pytest.mark.parametrize("folder", CODE)
def test_code_is_explained_in_plain_english(folder: str) -> None:
    assert found_in_code(folder) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_are_written_in_plain_english(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert list(problems(text)) == []


def test_no_module_is_read_too_quickly() -> None:
    """The control: whatever a docstring or a comment has that it must not is seen in the source."""
    for text in ("It lies there.", "What it takes.", "Short.\n\nWhat follows is long."):
        for source in (f'"""{text}"""\n', f"x = 1  # {text.splitlines()[-1]}\n"):
            assert suspect(source) == source
    assert suspect("x = 1  # one\n") == ""


@pytest.mark.parametrize(
    "text",
    [
        "Errors are told twice",
        "It lies there.",
        "What it takes.",
        "Short. What follows is long.",
        "Short.\nWhat is wrapped.",
    ],
)
def test_odd_english_is_found(text: str) -> None:
    assert list(problems(text))


def test_a_question_may_start_with_what() -> None:
    assert not list(problems("What does a plan do?"))
