"""The pytest plugin: every example, proof and lock of an `.xg` file is a test.

Off by default. These turn it on for a file: `pytest --xg`, `xg = true` in pytest's configuration,
naming the file on the command line, or an `xg.lock` in its folder.

pytest's cache remembers which proofs have passed, and which texts they were about. A proof whose
texts are the same passes at once: pytest starts without importing the compiler.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import xg

if TYPE_CHECKING:
    from xg.frontend.project import Project

LOCK: Final = "xg.lock"


class ProofCase(NamedTuple):
    """One test of a file: the kind of proof, its block, and the plan or the title of an example.

    `line` is where the file has the block, the plan or the example.
    """

    kind: str
    block: str = ""
    detail: str = ""
    line: int = 1

    @property
    def name(self) -> str:
        """The name of the test, ``MLP::plan[TP]``."""
        about = f"[{self.detail or 'as written'}]" if self.kind in ("plan", "example") else ""
        return f"{self.block}::{self.kind}{about}" if self.block else self.kind


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--xg`, `--xg-update` and the setting `xg`."""
    group = parser.getgroup("xg", "diagrams (.xg)")
    group.addoption(
        "--xg", action="store_true", help="collect .xg files: examples, proofs and locks"
    )
    group.addoption(
        "--xg-update", action="store_true", help="accept what changed: write xg.lock again"
    )
    parser.addini("xg", "collect .xg files in every run", type="bool", default=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> DiagramFile | None:
    """Collect an `.xg` file if something asks for it."""
    if file_path.suffix != ".xg":
        return None
    config = parent.config
    named = parent.session.isinitpath(file_path)
    asked = config.getoption("--xg") or config.getoption("--xg-update") or config.getini("xg")
    if not (asked or named or (file_path.parent / LOCK).exists()):
        return None
    file: Any = DiagramFile  # pytest leaves the arguments of `from_parent` untyped
    return file.from_parent(parent, path=file_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - of pytest
    """In a GitHub workflow, mark each failure at its line of the pull request."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for report in terminalreporter.stats.get("failed", []):
        file, line, name = report.location
        if file.endswith(".xg"):
            text = report.longreprtext.replace("%", "%25").replace("\n", "%0A")
            terminalreporter.write_line(f"::error file={file},line={line + 1},title={name}::{text}")


class DiagramFile(pytest.File):
    """One diagram file."""

    def collect(self) -> Iterator[ProofItem]:
        """Yield its examples, the gradients of each block, the plans, and the lock."""
        cases = self._known_cases()
        if cases is None:
            cases = self._find_cases()
        if (self.path.parent / LOCK).exists() or self.config.getoption("--xg-update"):
            cases = [*cases, ProofCase("lock")]
        test: Any = ProofItem
        for case in cases:
            item = test.from_parent(self, name=case.name)
            item.case = case
            yield item

    @cached_property
    def project(self) -> Project:
        """The parsed file; raises DiagnosticError."""
        return compiler().read_project(self.path)

    @cached_property
    def texts(self) -> dict[str, str]:
        """A hash of this file and of every file that it needs, by path."""
        known = self._last_run()
        return _hashes(known["texts"] if known else map(str, self.project.files))

    def _find_cases(self) -> Sequence[ProofCase]:
        proofs = compiler()
        try:
            cases = [ProofCase(*each) for each in proofs.proof_cases(self.project)]
        except proofs.DiagnosticError as error:
            raise self.CollectError(str(error)) from None
        texts = _hashes(map(str, self.project.files))
        PassedProofs(self.config).keep(self._key, {"xg": release(), "texts": texts, "cases": cases})
        return cases

    def _known_cases(self) -> Sequence[ProofCase] | None:
        """Return the tests of the last run, if the file and all that it uses are the same."""
        known = self._last_run()
        if known is None or _hashes(known["texts"]) != known["texts"]:
            return None
        return [ProofCase(*each) for each in known["cases"]]

    def _last_run(self) -> Mapping[str, Any] | None:
        known = PassedProofs(self.config).find(self._key)
        return known if known and known["xg"] == release() else None

    @property
    def _key(self) -> str:
        return f"xg/files/{sha256(str(self.path).encode()).hexdigest()[:24]}"


class PassedProofs:
    """pytest's cache, which a run may be without (`-p no:cacheprovider`)."""

    def __init__(self, config: pytest.Config) -> None:
        """Find the cache of this run."""
        self._cache: Any = getattr(config, "cache", None)

    def find(self, key: str) -> Any:  # noqa: ANN401 - what JSON has
        """Return what was kept, or None."""
        return None if self._cache is None else self._cache.get(key, None)

    def keep(self, key: str, value: object) -> None:
        """Keep a value for later runs."""
        if self._cache is not None:
            self._cache.set(key, value)


class ProofItem(pytest.Item):
    """One proof of a file."""

    case: ProofCase

    @property
    def file(self) -> DiagramFile:
        """The file that it is a proof of."""
        assert isinstance(self.parent, DiagramFile)
        return self.parent

    def runtest(self) -> None:
        """Prove, unless this proof of the same texts has passed before; raises ProofFailed."""
        memory = PassedProofs(self.config)
        if memory.find(self._key()):
            return
        prove(self)
        memory.keep(self._key(), True)

    def _key(self) -> str:
        """Name everything that the result depends on."""
        lock = self.path.parent / LOCK if self.case.kind == "lock" else None
        texts = self.file.texts | (_hashes([str(lock)]) if lock else {})
        parts = [release(), self.case.name, *sorted(texts.items())]
        return f"xg/proofs/{sha256(repr(parts).encode()).hexdigest()[:24]}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401 - as pytest declares it
        """Show what differs; a traceback only for what is no failure of a proof."""
        text = compiler().failure_text(excinfo.value)
        return super().repr_failure(excinfo, style) if text is None else text

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a failure is reported, and under which name."""
        return self.path, self.case.line - 1, f"{self.path.name}::{self.name}"


def release() -> str:
    """Name the releases that a proof depends on."""
    return f"xg {xg.__version__}, numpy {version('numpy')}"


def _hashes(paths: Iterable[str]) -> dict[str, str]:
    """Hash files; one that is not there has an empty hash."""
    files = {path: Path(path) for path in paths}
    return {
        path: sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        for path, file in files.items()
    }


def prove(item: ProofItem) -> None:
    """Run one proof; raises ProofFailed with its report, and DiagnosticError."""
    update = bool(item.config.getoption("--xg-update"))
    compiler().run_proof(item.file.project, item.path, item.case[:3], update=update)


def compiler() -> Any:  # noqa: ANN401 - the module
    """Import the proofs, and the compiler with them: a run without changes needs neither."""
    return import_module("xg_testing.proofs")
