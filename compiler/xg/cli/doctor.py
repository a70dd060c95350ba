"""`xg doctor`: what was found on this machine, and how to mend what is missing."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.cli.table import table

EXAMPLE = "xg doctor"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that xg uses; `fix` is empty where nothing is missing."""

    thing: str
    state: str  # "ok", "missing", "not needed"
    detail: str
    fix: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Only the form of the answer."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace, console: Console) -> int:
    """Look, and say; exit 1 if something is missing that xg needs."""
    found = [_python(), *_packages(), *_engines(), _pictures(), _library(), _torch()]
    missing = any(finding.state == "missing" for finding in found)
    if options.json:
        from xg.cli.json_text import json_text

        console.write(json_text({"findings": [asdict(finding) for finding in found]}))
    else:
        for line in table([(f.state, f.thing, f.detail) for f in found]):
            console.say(line)
        for finding in found:
            if finding.fix:
                console.say(f"fix: {finding.fix}")
        if not missing:
            console.say("everything that xg needs is here")
    return PROBLEM if missing else FINE


def _python() -> Finding:
    return Finding("Python", "ok", ".".join(map(str, sys.version_info[:3])))


def _packages() -> Iterator[Finding]:
    needed = {
        "numpy": "runs generated code",
        "lark": "builds the parse tables anew",
        "safetensors": "checkpoints",
    }
    for package, purpose in needed.items():
        try:
            yield Finding(package, "ok", f"{version(package)}: {purpose}")
        except PackageNotFoundError:
            yield Finding(package, "missing", purpose, f"pip install {package}")


def _engines() -> Iterator[Finding]:
    """The layout engines; one is enough."""
    from xg.backends.graphviz.layout import FIX, probe

    found = probe()
    usable = any(engine.usable for engine in found)
    for engine in found:
        state = "ok" if engine.usable else ("not needed" if usable else "missing")
        yield Finding(f"layout by {engine.engine}", state, engine.detail, "" if usable else FIX)


def _pictures() -> Finding:
    try:
        return Finding("resvg-py", "ok", f"{version('resvg-py')}: draws PNG")
    except PackageNotFoundError:
        return Finding("resvg-py", "missing", "draws PNG", "pip install resvg-py")


def _library() -> Finding:
    from xg.project.lookup import library

    count = len(list(library().glob("*.xg")))
    if count:
        return Finding("library", "ok", f"{count} diagrams to `use` by name")
    return Finding("library", "missing", "no diagrams", "install xg again")


def _torch() -> Finding:
    if find_spec("torch") is None:
        return Finding("torch", "not needed", "not installed")
    return Finding("torch", "not needed", f"{version('torch')}, not used in this edition")
