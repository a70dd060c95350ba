"""Compiled WebAssembly kept between processes: to compile it takes longer than to build.

An entry is machine code, so it is used only if it is whole and no other user could have written it:
its digest precedes it, and it belongs to the user. If anything is wrong with the folder or with an
entry, the module is compiled as if there were none. wasmtime's cache of its own has no digest: it
runs an entry in which a bit has changed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wasmtime import Engine, Module

_DIGEST = 32  # bytes
_OTHERS_MAY_WRITE = 0o022


def compiled(runtime: Engine, code: bytes, settings: str) -> Module:
    """The module of some code, from an earlier process if one has left it.

    `settings` is what the runtime was made with: machine code depends on it.
    """
    from wasmtime import Module, WasmtimeError  # a large library, for drawing only

    folder = _folder()
    if folder is None:
        return Module(runtime, code)
    key = sha256(f"{version('wasmtime')} {settings} ".encode() + code).hexdigest()
    entry = folder / f"{key[:32]}.module"
    machine_code = _read(entry)
    if machine_code is not None:
        with suppress(WasmtimeError):  # of another processor
            return Module.deserialize(runtime, machine_code)
    module = Module(runtime, code)
    with suppress(OSError):  # a folder that cannot be written, a full disk
        _write(entry, bytes(module.serialize()))
    return module


def _folder() -> Path | None:
    """The user's folder for what can be made again; None where there is no home."""
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    with suppress(RuntimeError):
        parent = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
        return parent / "xg"
    return None


def _read(entry: Path) -> bytes | None:
    try:
        with entry.open("rb") as file:
            if not _is_ours(os.fstat(file.fileno())):
                return None
            data = file.read()
    except OSError:
        return None
    machine_code = data[_DIGEST:]
    return machine_code if sha256(machine_code).digest() == data[:_DIGEST] else None


def _is_ours(state: os.stat_result) -> bool:
    if sys.platform == "win32":
        return True
    return state.st_uid == os.getuid() and not state.st_mode & _OTHERS_MAY_WRITE


def _write(entry: Path, machine_code: bytes) -> None:
    """Put an entry in its place at once: another process sees none of it, or all."""
    entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=entry.parent, delete=False) as file:
        try:
            file.write(sha256(machine_code).digest() + machine_code)
            file.close()
            Path(file.name).replace(entry)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise
