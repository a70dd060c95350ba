"""One mutant against its tests, in a process forked before anything of xg is imported."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Literal

import pytest
from mutants.plant import Mutant
from mutants.rooms import ROOT

SECONDS = 90  # of CPU; a mutant that needs more is taken to be in an endless loop
Verdict = Literal["killed", "slow", "survived"]


class _Planted(MetaPathFinder, SourceLoader):
    """Finds one module, with its change."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[1:])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != self.name:
            return None
        return spec_from_loader(fullname, self, origin=str(self.mutant.path))

    def get_filename(self, fullname: str) -> str:
        return str(self.mutant.path)

    def get_data(self, path: str) -> bytes:
        return self.mutant.text.encode()


def judge(mutant: Mutant | None, tests: Sequence[str]) -> tuple[Verdict, float]:
    """Whether the tests see a mutant (None is none), and the seconds that they took."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = _tested(mutant, tests)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    if os.WIFSIGNALED(status):
        return ("slow" if os.WTERMSIG(status) == signal.SIGXCPU else "killed"), seconds
    return ("survived" if os.WEXITSTATUS(status) == 0 else "killed"), seconds


def _tested(mutant: Mutant | None, tests: Sequence[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir(ROOT)
    os.environ["XG_VERIFY"] = "1"
    if mutant is not None:
        sys.meta_path.insert(0, _Planted(mutant))
    sys.dont_write_bytecode = True
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]))


def paths() -> list[str]:
    """The folders that packages of this project are imported from."""
    return [str(ROOT / name) for name in ("compiler", "runtime", "grammar", "tests", ".")]
