"""Find the errors of a file for `xg check`, and print them as review tools read them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from xg import __version__
from xg.cli.arguments import settings_of
from xg.cli.console import json_text
from xg.cli.opening import open_project
from xg.diagnostics.diagnostic import (
    MISTAKES_AT_MOST,
    Diagnostic,
    DiagnosticData,
    DiagnosticError,
    as_data,
)
from xg.diagnostics.terminal import counted
from xg.frontend.choices import check_choices
from xg.frontend.project import Project


def diagnostics_of(file: str, options: Namespace) -> tuple[Diagnostic, ...]:
    """The errors and warnings of a file, in every choice of options."""
    try:
        return findings(open_project(file, options.stdin_filename), options)
    except DiagnosticError as error:
        return error.diagnostics


def findings(project: Project, options: Namespace) -> tuple[Diagnostic, ...]:
    """The errors and warnings of a file that was read, in every choice of options."""
    try:
        return check_choices(project, options.block, settings_of(options), options.plan)
    except DiagnosticError as error:
        return error.diagnostics


def errors(diagnostics: Iterable[Diagnostic]) -> int:
    """How many of them are errors."""
    return sum(diagnostic.severity == "error" for diagnostic in diagnostics)


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """How many there are, in words."""
    mistakes = errors(diagnostics)
    warnings = len(diagnostics) - mistakes
    least = "at least " if mistakes >= MISTAKES_AT_MOST else ""
    said = least + counted(mistakes, "error") if mistakes else "ok"
    return f"{said}, {counted(warnings, 'warning')}" if warnings else said


# Errors and warnings as the tools of reviews read them: GitHub's commands, and SARIF.


Render = Callable[[Sequence[Diagnostic]], str]

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def _json(found: Sequence[Diagnostic]) -> str:
    return json_text({"diagnostics": [as_data(each) for each in found]})


def _github(found: Sequence[Diagnostic]) -> str:
    """A line for each, which a workflow's run shows at its line of the pull request."""
    return "".join(f"{_command(as_data(each))}\n" for each in found)


def _command(found: DiagnosticData) -> str:
    """`::error file=mlp.xg,line=3,col=8,title=XG0110::message`; a warning likewise."""
    last = found["end_column"]
    places: Mapping[str, object] = {
        "file": found["file"],
        "line": found["line"],
        "col": found["column"],
        "endColumn": last and last - 1,  # the last column, not the one behind it
        "title": found["code"],
    }
    given = (f"{name}={_property(str(place))}" for name, place in places.items() if place)
    return f"::{found['severity']} {','.join(given)}::{_escape(_message_text(found))}"


def _message_text(found: DiagnosticData) -> str:
    """The message, and what helps against it."""
    return "\n".join([found["message"], *(f"help: {help}" for help in found["help"])])


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _sarif(found: Sequence[Diagnostic]) -> str:
    """One run of a log in SARIF 2.1.0."""
    driver = {
        "name": "xg",
        "version": __version__,
        "rules": [{"id": code} for code in sorted({each.code for each in found})],
    }
    results = [_result(as_data(each)) for each in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(found: DiagnosticData) -> Mapping[str, object]:
    result = {
        "ruleId": found["code"],
        "level": found["severity"],
        "message": {"text": _message_text(found)},
    }
    if found["file"] is None:
        return result
    region = {
        "startLine": found["line"],
        "startColumn": found["column"],
        "endColumn": found["end_column"],
    }
    place = {
        "artifactLocation": {"uri": quote(found["file"])},
        "region": {name: number for name, number in region.items() if number},
    }
    return {**result, "locations": [{"physicalLocation": place}]}


FORMATS: Final[Mapping[str, Render]] = {"json": _json, "github": _github, "sarif": _sarif}
