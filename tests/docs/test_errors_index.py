"""docs/errors.md lists every kind of error; `./dev docs` writes it from their classes."""

import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.limits import Limit
from xg.packages import packages

INDEX = Path(__file__).parents[2] / "docs" / "errors.md"

HEAD = """\
# Errors

This page lists every error that xg reports. Each kind has a code that never changes its meaning;
`--json` prints it, and programs can rely on it. `./dev docs` writes this page from the classes
themselves, and a test fails if it is out of date.
"""


def problem_classes() -> list[type[Problem]]:
    """Every kind of error once, by code."""
    for name in ("xg", *(package.name for package in packages())):
        for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    kinds = {kind.__qualname__: kind for kind in _below(Problem) if "code" in vars(kind)}
    return sorted(kinds.values(), key=lambda kind: kind.code)


def _below(kind: type[Problem]) -> Iterator[type[Problem]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _below(sub)


def _index() -> str:
    sections: dict[str, list[str]] = {}
    for kind in problem_classes():
        limit = f" At most {kind.maximum:,}." if issubclass(kind, Limit) else ""
        row = f"| {kind.code} | {kind.__name__} | {_first_paragraph(kind.__doc__)}{limit} |"
        sections.setdefault(kind.__module__, []).append(row)
    parts = [HEAD]
    for module, rows in sections.items():
        title = _first_paragraph(sys.modules[module].__doc__).split(":")[0].split(" (XG")[0]
        parts.append(
            "\n".join(
                [
                    f"## {title.rstrip('.')}",
                    "",
                    "| code | kind | meaning |",
                    "|---|---|---|",
                    *rows,
                    "",
                ]
            )
        )
    return "\n".join(parts)


def _first_paragraph(text: str | None) -> str:
    assert text
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return paragraph.replace("``", "`").replace("|", "\\|")


def test_the_index_is_complete(golden: Callable[[Path, str], None]) -> None:
    golden(INDEX, _index())


def test_no_code_is_given_twice() -> None:
    counts = Counter(kind.code for kind in problem_classes())
    assert [code for code, count in counts.items() if count > 1] == []


def test_codes_have_one_form() -> None:
    assert all(re.fullmatch(r"XG0\d{3}", kind.code) for kind in problem_classes())
