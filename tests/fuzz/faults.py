"""Faults of disk and process at every step of a write: nothing is torn, nothing is left behind.

A process forked for it writes over what an earlier one wrote, and its n-th step on the disk fails:
the disk is full, read-only or broken, somebody presses Ctrl-C, or the process is killed.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from xg.cli import main
from xg_runtime import checkpoint
from xg_runtime.checkpoint import Checkpoint
from xg_runtime.errors import XgRuntimeError

_STEPS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "fsync")
FAULTS: Mapping[str, int] = {
    "full": errno.ENOSPC,
    "read-only": errno.EROFS,
    "broken": errno.EIO,
    "denied": errno.EACCES,
    "interrupted": 0,
    "killed": 0,
}
CODES = (0, 4, 5, 130)  # fine, a run or a file failed, interrupted
KILLED = 137
_FORKING = multiprocessing.get_context("forkserver")  # tests have threads, of JAX and others
_FORKING.set_forkserver_preload(["pytest", "fuzz.faults", "xg.cli.outputs"])
OLD = "dim B=2,D=3\nblock A(x [B,D]) -> y [B,D] {\nx -> tanh : y\n}\n"
NEW = OLD.replace("tanh", "GELU").replace("block A", 'block A "new"')
NEXT = OLD.replace("tanh", "ReLU").replace("block A", 'block A "next"')


@dataclass
class _Disk:
    """Counts the steps that change a folder; from the chosen one on a fault happens once."""

    folder: str = ""
    fault: str = ""
    countdown: int = 0
    happened: bool = False
    sync: Callable[[int], None] = field(default=os.fsync)

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if self.folder and event in _STEPS and self._changes(event, args):
            self.step()

    def _changes(self, event: str, args: tuple[object, ...]) -> bool:
        path = os.fspath(args[0]) if isinstance(args[0], str | os.PathLike) else ""  # pyright: ignore
        writes = event != "open" or (isinstance(args[1], str) and args[1][:1] in "wxa")
        return writes and str(path).startswith(self.folder)  # pyright: ignore

    def step(self) -> None:
        self.countdown -= 1
        if self.countdown != 0:
            return
        self.happened = True
        if self.fault == "killed":
            os._exit(KILLED)
        if self.fault == "interrupted":
            raise KeyboardInterrupt
        code = FAULTS[self.fault]
        raise OSError(code, os.strerror(code), self.folder)

    def fsync(self, descriptor: int) -> None:
        self.step()
        self.sync(descriptor)


def _build(folder: Path, text: str) -> int:
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return _quietly(["build", f"{folder}/net.xg", "-o", f"{folder}/out", "--only", "numpy,dot"])


def _fmt(folder: Path, text: str) -> int:
    if text != NEW:
        (folder / "net.xg").write_text(text, encoding="utf-8")
    return 0 if text == OLD else _quietly(["fmt", f"{folder}/net.xg"])


def _save(folder: Path, text: str) -> int:
    step = 1 + (OLD, NEW, NEXT).index(text)
    arrays = {"W": np.full((2, 3), step / 7), "b": np.arange(3.0) * step}
    try:
        checkpoint.save(folder, Checkpoint(step, arrays, {"m/W": arrays["W"]}, {}))
    except XgRuntimeError as error:
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _quietly(words: list[str]) -> int:
    with Path(os.devnull).open("w", encoding="utf-8") as sink:
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = sink
        try:
            return main(words)
        finally:
            sys.stdout, sys.stderr = before


WRITERS: Mapping[str, Callable[[Path, str], int]] = {"build": _build, "fmt": _fmt, "save": _save}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for the diagram that a build reads."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def fault_failure(seed: int) -> str:
    """The traces of a fault; empty if all is well."""
    random = Random(seed)
    name, fault = random.choice(list(WRITERS)), random.choice(list(FAULTS))
    return tried(name, fault, random.randint(1, 24))


def tried(name: str, fault: str, place: int) -> str:
    """The same for one writer, one fault and the number of the step at which it happens."""
    write = WRITERS[name]
    case = f"{name}, {fault} at step {place}"
    folder = Path(tempfile.mkdtemp(prefix="xg-faults-"))
    try:
        write(folder, OLD)
        before = contents(folder)
        code = _forked(write, folder, fault, place)
        after = contents(folder)
        write(folder, NEW)
        complete = contents(folder)
        if write(folder, NEXT):
            return f"{case}: the next write fails"
        left = [name for name in contents(folder) if ".xg-" in name]
        if left:
            return f"{case}: left for ever: {left}"
        return _judged(case, code, before, after, complete)
    finally:
        shutil.rmtree(folder)


def _judged(
    case: str,
    code: int,
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    complete: Mapping[str, bytes],
) -> str:
    whole = {*before.items(), *complete.items()}
    if code == KILLED:
        torn = [each for each in after.items() if each not in whole and ".xg-" not in each[0]]
        gone = [each for each in before if each not in after and each in complete]
        return f"{case}: torn {[name for name, _ in torn]}, gone {gone}" if torn or gone else ""
    if code not in CODES:
        return f"{case}: exit code {code}"
    stray = [name for name in after if ".xg-" in name]
    if len(stray) > 1:  # one, if it is just its removal that failed
        return f"{case}: left: {stray}"
    strange = [n for n, data in after.items() if (n, data) not in whole and n not in stray]
    if strange:
        return f"{case}: neither old nor new: {strange}"
    if code and _changed(before, after) and _changed(complete, after):
        return f"{case}: some files are old and some new"
    return ""


def _changed(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> bool:
    """Whether files differ, but for the diagram itself, which is written beforehand."""
    names = {name for name in (*one, *other) if name != "net.xg" and ".xg-" not in name}
    return any(one.get(name) != other.get(name) for name in names)


def _forked(write: Callable[[Path, str], int], folder: Path, fault: str, place: int) -> int:
    """The exit code of a write, in a process forked from one without threads."""
    child = _FORKING.Process(target=_write, args=(write, folder, fault, place))
    child.start()
    child.join()
    return child.exitcode or 0


def _write(write: Callable[[Path, str], int], folder: Path, fault: str, place: int) -> None:
    code = 98
    try:
        disk = _Disk(str(folder), fault, place)
        if write is _build:  # the diagram itself is not what is tested
            (folder / "net.xg").write_text(NEW, encoding="utf-8")
            disk.countdown += 1
        os.fsync = disk.fsync
        sys.addaudithook(disk.hook)
        code = write(folder, NEW)
    finally:
        os._exit(code)
