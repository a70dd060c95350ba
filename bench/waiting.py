"""How long people wait: for the playground's first picture, after a key, and after a save."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from browser.chromium import chromium, script
from browser.playground import served, written
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from bench.pairs import Ratio, summary

ROOT = Path(__file__).parents[1]
DIAGRAMS = ROOT / "diagrams"
FIRST, KEY, LARGE_KEY, SAVE = 5.0, 0.3, 0.7, 0.3  # seconds that a person may wait
SECONDS = 60  # for what has not come until then
THOUGHT = 0.5  # seconds between two saves
# A name of the program becomes longer by a letter, and shorter again; both are drawn.
TYPED = """
const [name, other, done] = arguments;
const text = document.getElementById("text"), picture = document.getElementById("picture");
const begun = performance.now();
picture.addEventListener("load", () => done((performance.now() - begun) / 1000), { once: true });
text.value = text.value.replace(name, other);
text.dispatchEvent(new Event("input"));
"""
OPENED = """
const text = document.getElementById("text");
text.value = arguments[0];
text.dispatchEvent(new Event("input"));
"""
NAMES = {
    DIAGRAMS / "notation" / "mha.xg": (": AS [", ": AS2 [", KEY),
    DIAGRAMS / "models" / "transformer.xg": (": X  [", ": X2 [", LARGE_KEY),
}


def is_there() -> bool:
    """Whether there is a browser to measure with."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


def measure(pairs: int) -> Iterator[Ratio]:
    """The playground in Chromium, started afresh each time, and `xg serve` without a browser."""
    with TemporaryDirectory() as folder:
        site = written(Path(folder) / "site")
        with served(site) as address:
            colds = [_first_picture(address) for _ in range(max(3, pairs // 7))]
            yield _within("playground, first picture", colds, FIRST)
            with chromium() as driver:
                driver.set_script_timeout(SECONDS)
                _wait(driver, address)
                for file, (name, other, limit) in NAMES.items():
                    _open(driver, file)
                    keys = [_key(driver, name, other, turn) for turn in range(pairs + 1)]
                    yield _within(f"playground, a key in {file.name}", keys[1:], limit)
        yield _within("xg serve, a save of mha.xg", list(saves(Path(folder), pairs)), SAVE)


def _within(what: str, seconds: list[float], limit: float) -> Ratio:
    return summary(what, "the limit", [(each, limit) for each in seconds], 1)


def _first_picture(address: str) -> float:
    """Seconds from the address to the picture, in a browser that has seen nothing yet."""
    with chromium() as driver:
        begun = time.perf_counter()
        _wait(driver, address)
        return time.perf_counter() - begun


def _wait(driver: Chrome, address: str) -> None:
    driver.get(address)
    _until(driver, "return document.getElementById('state').textContent.includes('.svg')")
    _until(driver, "return document.getElementById('picture').complete")


def _until(driver: Chrome, code: str) -> None:
    WebDriverWait(driver, SECONDS, poll_frequency=0.02).until(lambda _: script(driver, code))


def _open(driver: Chrome, file: Path) -> None:
    """Show a file as if it were typed, and wait until nothing is left to do."""
    script(driver, OPENED, file.read_text(encoding="utf-8"))
    time.sleep(3)
    _until(driver, "return document.getElementById('right').ariaBusy === 'false'")


def _key(driver: Chrome, name: str, other: str, turn: int) -> float:
    """Seconds until the picture of a changed text is there; then the page comes to rest."""
    words = (other, name) if turn % 2 else (name, other)
    seconds = driver.execute_async_script(TYPED, *words)  # pyright: ignore[reportUnknownMemberType]
    _until(driver, "return document.getElementById('right').ariaBusy === 'false'")
    return float(seconds)


def saves(folder: Path, pairs: int) -> Iterator[float]:
    """Seconds from each save of a file until a client has a page with its picture.

    Between two saves the server makes the page with numbers, which the next save ends.
    """
    diagram = DIAGRAMS / "notation" / "mha.xg"
    text = diagram.read_text(encoding="utf-8")
    file = folder / diagram.name
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "xg", "serve", str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        pages = _pages(address)
        next(pages)
        for turn in range(pairs):
            time.sleep(THOUGHT)
            begun = time.perf_counter()
            _save(file, text.replace("AS", f"A{turn}"))
            while f">A{turn}<" not in next(pages):
                pass
            yield time.perf_counter() - begun
        process.terminate()


def _pages(address: str) -> Iterator[str]:
    """The page of a file as somebody gets it who looks at it, and each new one."""
    seen = ""
    with urlopen(f"{address}state", timeout=SECONDS) as stream:
        for line in stream:
            state: Any = json.loads(line[5:]) if line.startswith(b"data:") else None
            if state and state[0]["pages"] and state[0]["pages"][0]["version"] != seen:
                seen = str(state[0]["pages"][0]["version"])
                with urlopen(f"{address}page/0/0?{seen}", timeout=SECONDS) as page:
                    yield page.read().decode("utf-8")


def _save(file: Path, text: str) -> None:
    """Put a file in the place of the old one, as editors do."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)
