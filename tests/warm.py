"""Commands that begin in a process which has imported what they would import.

Python and its packages take seconds to start; the commands of the documents are hundreds. A server
imports once and forks for each command: the command then has arguments, folder, environment and
streams of its own, as if a shell had started Python. The start itself is tested elsewhere.
Processes that a command starts by `sys.executable`, such as its ranks, are forked likewise where
WARM_PYTHON names the program that is Python to them. Who kills the command kills its fork.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

STARTED = 120  # seconds, in which a server has started on the slowest machine
# What commands import: a package that imports lazily is named with what is used of it.
IMPORTED = (
    "numpy",
    "xg.driver",
    "torch",
    "torch.export",
    "torch._dynamo",
    "torch.distributed",
    "torch.distributed.checkpoint",
    "torch.distributed.elastic.rendezvous.dynamic_rendezvous",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch._export.serde.serialize",
    "torch.utils._sympy.functions",
    "safetensors.torch",
    "networkx",  # which torch.export imports when it is called, as torch.onnx.export the next two
    "onnxscript.function_libs.torch_lib.ops",
    "torch.onnx._internal.exporter._core",
    "tokenizers",
    "transformers",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "wasmtime",
)
# And all modules of these packages but those of JAX, which is not to be forked, and the one that
# `python -m` runs, which warns where it is imported already.
WHOLE = (
    *("xg.cli", "xg.codegen", "xg.figures", "xg.frontend", "xg.ops", "xg.verify", "xg_runtime"),
    *("xg_editor", "xg_generate", "xg_kernels", "xg_pages", "xg_testing", "xg_torch", "xg_train"),
)
RENDEZVOUS = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
# `CLIENT SOCKET WORD...` is `python WORD...`; it imports little, since it starts for every command.
CLIENT = """\
import os, sys
from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, SCM_RIGHTS, socket
import json
server = socket(AF_UNIX, SOCK_STREAM)
server.connect(sys.argv[1])
request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
streams = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
server.sendmsg([len(request).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, streams)])
server.send(request) == len(request) or sys.exit("too long a command")
sys.exit((server.recv(1) or b"\\1")[0])
"""


def shared_python(folder: Path, environment: Mapping[str, str], owner: int) -> Sequence[str]:
    """The words that are `python`, with a server that all who name this folder share.

    The first of them starts it; it ends when the process `owner` has.
    """
    client, listening = folder / "client.py", folder / "socket"
    with suppress(FileExistsError):
        folder.mkdir()
        client.write_text(CLIENT, encoding="utf-8")
        words = [sys.executable, "-P", str(Path(__file__)), str(listening), str(owner)]
        null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1)]
        os.posix_spawn(sys.executable, words, environment, file_actions=null)
    end = time.monotonic() + STARTED
    while not listening.exists():
        assert time.monotonic() < end, "the server of commands did not start"
        time.sleep(0.05)
    return [sys.executable, "-I", "-S", str(client), str(listening)]


def _serve(path: str, owner: int) -> tuple[socket.socket, Sequence[str]]:
    """Fork for each request; what returns is the fork, with its connection and its words."""
    for name in (*IMPORTED, *_modules()):
        importlib.import_module(name)
    for end in [*weakref.finalize._registry]:  # pyright: ignore # what torch would take apart
        end.atexit = False
    # Its launcher reads the sources of a whole stack for each line of a log that is not kept.
    sys.modules[RENDEZVOUS].__dict__["get_method_name"] = _caller
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 10)  # as in the tests themselves
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen()
    listening.settimeout(1)
    Path(f"{path}.new").rename(path)  # now it answers
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            _end_without(owner)
            continue
        if os.fork() == 0:
            listening.close()
            return connection, _become(connection)
        connection.close()


def _caller(depth: int = 2) -> str:
    """The name of a function that is called, as torch finds it among the frames."""
    return sys._getframe(depth).f_code.co_name  # pyright: ignore[reportPrivateUsage]


def _modules() -> Iterator[str]:
    """The modules of whole packages."""
    for package in map(importlib.import_module, WHOLE):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "jax" not in found.name and not found.name.endswith(".worker"):
                yield found.name


def _end_without(owner: int) -> None:
    """End this process where the one that it works for has ended."""
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        os._exit(0)


def _become(connection: socket.socket) -> Sequence[str]:
    """Take over the streams, the folder and the environment of a command; returns its words."""
    length, streams, _, _ = socket.recv_fds(connection, 4, 3)
    words, folder, environment = json.loads(
        connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    )
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(connection, fcntl.F_GETFL)
    fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_ASYNC)  # from now on it only hangs up
    for stream, number in zip(streams, (0, 1, 2), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = os.environ.pop("WARM_PYTHON", sys.executable)
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in named if path and path not in sys.path]
    return words


def _run(words: Sequence[str]) -> None:
    """Do what `python WORD...` does; output is written at once anyway, as `-u` asks for."""
    safe = "-P" in words[:2]
    option, *rest = words[sum(word in ("-P", "-u") for word in words[:2]) :]
    folder = str(Path(option).parent) if option not in {"-m", "-c"} else ""
    sys.path[:0] = [] if safe else [folder]
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [option, *rest]
        runpy.run_path(option, run_name="__main__")


def _status(words: Sequence[str]) -> int:
    """Run a command and say how it ended."""
    try:
        _run(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    asked, command = _serve(sys.argv[1], int(sys.argv[2]))
    status = _status(command)
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for printed in (sys.stdout, sys.stderr):
        with suppress(OSError):
            printed.flush()
    asked.send(bytes([status & 255]))
    os._exit(status)
