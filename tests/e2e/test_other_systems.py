"""Modules use nothing at import that only POSIX has: as near as Linux comes to Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from xg.packages import packages

ROOT = Path(__file__).parents[2]
OURS = ("xg", "xg_grammar", "xg_runtime", *(package.name for package in packages()))
PATHS = os.pathsep.join(str(ROOT / name) for name in ("compiler", "runtime", "grammar"))
# Packages of others look at the system when they are imported, so they come before it changes.
OTHERS = (
    "import jax, numpy, pygls.lsp.server, sphinx.application, tokenizers, torch, wasmtime, "
    "torch.distributed.checkpoint"
)
# Modules that the process which commands fork from has imported are imported once more.
AGAIN = f"""
import sys
OURS = {OURS}
for name in [*sys.modules]:
    if name.split(".")[0] in OURS:
        del sys.modules[name]
"""
TAKEN_AWAY = """
import os, signal, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
gone = {
    os: ("fork", "getpgid", "getuid", "killpg", "sched_getaffinity", "setsid", "uname"),
    signal: ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
}
for module, names in gone.items():
    for name in names:
        delattr(module, name)
"""
IMPORTED = f"""
OURS = {OURS}
from importlib import import_module
from pkgutil import walk_packages
count = 0
for package in map(import_module, OURS):
    for module in walk_packages(package.__path__, f"{{package.__name__}}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
            count += 1
print(count)
"""


def run(code: str, python: Sequence[str] = (sys.executable,)) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_module_is_imported_without_what_only_posix_has(warm_python: Sequence[str]) -> None:
    ran = run(OTHERS + AGAIN + TAKEN_AWAY + IMPORTED, warm_python)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 450


def test_what_is_taken_away_is_missed() -> None:
    assert "AttributeError" in run(f"{TAKEN_AWAY}\nos.fork()").stderr
    assert "ModuleNotFoundError" in run(f"{TAKEN_AWAY}\nimport fcntl").stderr
