"""One browser for all tests of a process, and the pages that they open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser.chromium import chromium, complaints, open_file, script, view
from pages.explorer.pages import page
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

Open = Callable[..., Chrome]


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """The browser."""
    with chromium() as driver:
        yield driver


@pytest.fixture
def opened(driver: Chrome, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a diagram, or a text as a page; it must complain of nothing."""

    def open_page(
        name: str = "",
        *,
        text: str = "",
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
    ) -> Chrome:
        path = tmp_path / "page.html"
        path.write_text(text or page(name), encoding="utf-8")
        view(driver, width, height, scheme)
        open_file(driver, path)
        ready = "return !document.scripts.length || document.body.dataset.ready !== undefined"
        WebDriverWait(driver, 20, poll_frequency=0.01).until(lambda _: script(driver, ready))
        return driver

    yield open_page
    assert complaints(driver) == []
