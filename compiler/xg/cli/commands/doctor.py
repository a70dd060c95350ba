"""`xg doctor`: the state of this machine, and how to fix what is missing."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from tempfile import TemporaryFile
from typing import Any

from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM
from xg.codegen.backend import Backend, backends
from xg.cost.table import Column, Table
from xg.frontend.project import library_files
from xg.packages import Finding, load, packages

EXAMPLE = "xg doctor"


def add_arguments(parser: ArgumentParser) -> None:
    """Only the form of the answer."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


_COLUMNS: tuple[Column[Finding], ...] = (
    Column("", "state", lambda finding: finding.state),
    Column("", "thing", lambda finding: finding.thing),
    Column("", "detail", lambda finding: finding.detail),
    Column(None, "fix", lambda finding: finding.fix),
)


def run(options: Namespace, console: Console) -> int:
    """Look, and say; exit 1 if something is missing that xg needs."""
    findings = [
        _python(),
        *_packages(),
        _blas(),
        *_engines(),
        _pictures(),
        _fonts(),
        _library(),
        _temporary(),
        *(_backend(each) for each in backends().values() if each.runs.extra),
        *(finding for each in packages() if each.probe for finding in load(each.probe)()),
    ]
    table = Table(_COLUMNS, findings)
    missing = any(finding.state == "missing" for finding in findings)
    if options.json:
        console.write(json_text({"findings": table.data()}))
    else:
        console.judge_lines(table.lines())
        for finding in findings:
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
        "lark": "parses files",
        "safetensors": "checkpoints",
    }
    for package, purpose in needed.items():
        try:
            yield Finding(package, "ok", f"{version(package)}: {purpose}")
        except PackageNotFoundError:
            yield Finding(package, "missing", purpose, f"pip install {package}")


def _blas() -> Finding:
    """The library of NumPy's matrix products: without a BLAS training is many times slower."""
    try:
        import numpy  # it may be missing
    except ImportError:
        return Finding("BLAS", "not needed", "comes with numpy")
    config: Any = numpy.show_config(mode="dicts")
    blas: dict[str, str] = config.get("Build Dependencies", {}).get("blas", {})
    name = blas.get("name", "")
    if name in ("", "none"):
        fix = "pip install --force-reinstall numpy, for one with OpenBLAS"
        return Finding("BLAS", "not needed", "none: training is slow", fix)
    return Finding("BLAS", "ok", f"{name} {blas.get('version', '')}: multiplies matrices")


def _engines() -> Iterator[Finding]:
    """The layout engines; one is enough."""
    from xg.figures.layout.run_engine import FIX, probe

    engine_states = probe()
    usable = any(engine.usable for engine in engine_states)
    for engine in engine_states:
        state = "ok" if engine.usable else ("not needed" if usable else "missing")
        yield Finding(f"layout by {engine.engine}", state, engine.detail, "" if usable else FIX)


def _pictures() -> Finding:
    try:
        return Finding("resvg-py", "ok", f"{version('resvg-py')}: draws PNG")
    except PackageNotFoundError:
        return Finding("resvg-py", "missing", "draws PNG", "pip install resvg-py")


def _fonts() -> Finding:
    from xg.figures.draw.font import FAMILY, FILES

    missing = [path.name for path in FILES.values() if not path.is_file()]
    if missing:
        return Finding("font", "missing", ", ".join(missing), "install xg again")
    return Finding("font", "ok", f"{FAMILY}, {len(FILES)} faces: measures and draws text")


def _temporary() -> Finding:
    """Check that temporary files can be written: `pip` and the tests need them, not xg itself."""
    try:
        with TemporaryFile():
            return Finding("temporary files", "ok", "can be written")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        fix = "set TMPDIR to a folder that you may write to"
        return Finding("temporary files", "not needed", reason, fix)


def _library() -> Finding:
    count = len(library_files())
    if count:
        detail = f"{count} diagrams to `use` by name, listed by xg show --help"
        return Finding("library", "ok", detail)
    return Finding("library", "missing", "no diagrams", "install xg again")


def _backend(backend: Backend) -> Finding:
    """Whether the code of a backend can be run here; writing it takes nothing."""
    library, code = backend.runs.library, f"{backend.title} code"
    if not backend.has_library:
        fix = f"pip install 'xg[{backend.runs.extra}]', to run {code}"
        return Finding(library, "not needed", f"not installed: {code} is written, not run", fix)
    return Finding(library, "ok", f"{version(library)}: runs {code}, --backend {backend.name}")
