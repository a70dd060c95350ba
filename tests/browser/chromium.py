"""Debian's Chromium without a window, driven through its own driver."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Generator[Chrome]:
    """A fresh browser with a profile of its own."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        try:
            yield driver
        finally:
            driver.quit()


def command(driver: Chrome, name: str, **arguments: object) -> dict[str, Any]:
    """A command of Chromium's own protocol."""
    return cast("dict[str, Any]", driver.execute_cdp_cmd(name, arguments))  # pyright: ignore[reportUnknownMemberType]


def script(driver: Chrome, code: str, *arguments: object) -> Any:  # noqa: ANN401 - JSON
    """The value that a piece of code returns in the page."""
    return driver.execute_script(code, *arguments)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def view(driver: Chrome, width: int, height: int, scheme: str = "light") -> None:
    """A window of a size, of a reader who likes light or dark pages."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    command(driver, "Emulation.setDeviceMetricsOverride", **metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    command(driver, "Emulation.setEmulatedMedia", features=features)


def complaints(driver: Chrome) -> list[str]:
    """The messages that the page has logged since the last call."""
    entries = cast("list[dict[str, Any]]", driver.get_log("browser"))  # pyright: ignore[reportUnknownMemberType]
    return [str(entry["message"]) for entry in entries]


def open_file(driver: Chrome, path: Path) -> None:
    """A page from the disk."""
    driver.get(path.as_uri())
