"""`xg serve` in a real browser: the picture follows the file, and errors come and go over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from browser.chromium import complaints, script
from browser.elements import one
from cli.conftest import TINY
from cli.test_serve import SOON, saved, serving
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

# Whether the page in front is there, and has what is looked for.
FRONT = "document.querySelector('iframe:not(.coming)')?.contentDocument"
TITLE = f"return {FRONT}?.querySelector('h1')?.textContent ?? ''"
NUMBERS = (
    f"return {FRONT}?.getElementById('facts')?.textContent.includes('\"quick\":true') === false"
)
BACKWARD = f"return {FRONT}.getElementById('backward').checked"
KEPT = f"return {FRONT}.querySelector('.figure:not([hidden]) [aria-pressed=true]')?.ariaLabel"

CLICK = (
    f"{FRONT}.querySelector('.figure:not([hidden]) [aria-label*=dDO]')"
    ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
)


def wait(driver: Chrome, is_so: Callable[[], object]) -> None:
    WebDriverWait(driver, SOON, poll_frequency=0.05).until(lambda _: is_so())


def test_the_picture_follows_the_file(driver: Chrome, tmp_path: Path) -> None:
    saved(tmp_path, TINY)
    with serving(tmp_path, "tiny.xg") as served:
        driver.get(f"http://127.0.0.1:{served.client.port}/{served.client.secret}/")
        wait(driver, lambda: script(driver, TITLE) == "A tiny net")
        wait(driver, lambda: script(driver, NUMBERS))
        assert not one(driver, "#bar").is_displayed()

        # What a reader has chosen stays.
        driver.switch_to.frame(one(driver, "iframe"))
        one(driver, "#backward").click()
        driver.switch_to.default_content()
        script(driver, CLICK)
        kept = script(driver, KEPT)
        assert "dDO" in kept
        saved(tmp_path, TINY.replace("A tiny net", "Another net"))
        wait(driver, lambda: script(driver, TITLE) == "Another net")
        assert script(driver, BACKWARD)
        assert script(driver, KEPT) == kept

        saved(tmp_path, TINY.replace("A tiny net", "A third").replace("V [D_ff, D]", "V [D, D_ff]"))
        wait(driver, lambda: one(driver, "#said").is_displayed())
        assert one(driver, "#said pre").text.startswith("error[XG")
        assert "tiny.xg:8:" in one(driver, "#said pre").text
        assert script(driver, TITLE) == "Another net"
        assert driver.title == "✗ Net"
        one(driver, "#hide").click()
        assert not one(driver, "#said").is_displayed()

        saved(tmp_path, TINY.replace("A tiny net", "Mended"))
        wait(driver, lambda: script(driver, TITLE) == "Mended")
        assert not one(driver, "#said").is_displayed()
        assert driver.title == "Net"
        assert complaints(driver) == []
    wait(driver, lambda: one(driver, "#away").is_displayed())
    driver.get("about:blank")
    complaints(driver)  # that the server has ended


WATCHED = f"""
globalThis.seen = [];
const look = () => {{
  const page = {FRONT};
  const figure = page?.querySelector(".figure:not([hidden])");
  const drawn = figure?.querySelectorAll("text").length > 0;
  const now = [page?.querySelector("h1")?.textContent, figure?.dataset.shows, drawn].join(" | ");
  if (figure && seen.at(-1) !== now) seen.push(now);
  requestAnimationFrame(look);
}};
look();
"""


def test_who_looks_at_the_backward_pass_never_sees_an_empty_figure(
    driver: Chrome, tmp_path: Path
) -> None:
    """The begun page has the forward figure only: it is for those who look at that."""
    saved(tmp_path, TINY)
    with serving(tmp_path, "tiny.xg") as served:
        driver.get(f"http://127.0.0.1:{served.client.port}/{served.client.secret}/")
        wait(driver, lambda: script(driver, NUMBERS))
        driver.switch_to.frame(one(driver, "iframe"))
        one(driver, "#backward").click()
        driver.switch_to.default_content()
        script(driver, WATCHED)
        titles = ["A tiny net", *(f"Net {turn}" for turn in range(5))]
        for title in titles[1:]:
            saved(tmp_path, TINY.replace("A tiny net", title))
            wait(driver, lambda: script(driver, TITLE) == title)  # noqa: B023 - asked at once
        seen = script(driver, "return seen")
        assert seen == [f"{title} | 0.backward | true" for title in titles]
        assert complaints(driver) == []
    driver.get("about:blank")
    complaints(driver)  # that the server has ended


def test_several_files_have_an_index(driver: Chrome, tmp_path: Path) -> None:
    saved(tmp_path, TINY)
    saved(tmp_path, TINY.replace("A tiny net", "<img src=x>"), "other.xg")
    saved(tmp_path, "block (", "wrong.xg")
    with serving(tmp_path, "tiny.xg", "other.xg", "wrong.xg") as served:
        driver.get(f"http://127.0.0.1:{served.client.port}/{served.client.secret}/")
        wait(driver, lambda: one(driver, "#index").text.count("\n") == 2)
        assert "wrong.xg error[XG" in one(driver, "#index").text
        one(driver, "#index li:nth-of-type(2) a").click()
        wait(driver, lambda: script(driver, TITLE) == "<img src=x>")
        assert one(driver, "#bar").text == "all pages\nother.xg: Net"
        driver.back()
        wait(driver, lambda: one(driver, "#index").is_displayed())
        one(driver, "#index li:nth-of-type(3) a").click()
        wait(driver, lambda: one(driver, "#said").is_displayed())
        assert complaints(driver) == []
        driver.get("about:blank")
