"""Errors and warnings as the tools of reviews read them: GitHub's commands, and SARIF."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from xg import __version__
from xg.cli.render.json_text import json_text
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticData, as_data

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
    return f"::{found['severity']} {','.join(given)}::{_escaped(_said(found))}"


def _said(found: DiagnosticData) -> str:
    """The message, and what helps against it."""
    return "\n".join([found["message"], *(f"help: {help}" for help in found["help"])])


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


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
        "message": {"text": _said(found)},
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
