"""Keys that are pressed in a VS Code in Chromium, and what its window shows then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from browser.chromium import script, view
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 120  # for anything that has not come until then
ANSWERED = 5  # longer than any answer takes, shorter than a person would wait
PAUSE = 0.06  # between two keys of somebody who types quickly: lists open between them
SQUIGGLES = "return document.querySelectorAll('.squiggly-error').length"
LINES = """
const lines = [...document.querySelectorAll('.editor-instance .view-lines .view-line')];
lines.sort((one, other) => parseInt(one.style.top) - parseInt(other.style.top));
return lines.map((line) => line.textContent.replaceAll('\\u00a0', ' ')).join('\\n');
"""
TITLE = "return document.querySelector('.tab.active')?.textContent ?? ''"
WRITING = "return document.activeElement.closest('.editor-instance') !== null"
FOLDER = "return document.querySelector('.explorer-folders-view') !== null"
BOX = "return document.querySelector('.quick-input-widget input') !== null"
ASKED = "return document.activeElement.closest('.quick-input-box')?.querySelector('input').value"
ROW = "return document.querySelector('.quick-input-list .monaco-list-row')?.textContent ?? ''"
MENU = "return document.querySelector('.action-widget .focused')?.textContent ?? ''"
TOLD = "return document.querySelector('.notification-list-item-message')?.textContent ?? ''"
TABS = "return [...document.querySelectorAll('.tab')].map((tab) => tab.textContent).join('\\n')"
PAGE = """
const { scrollHeight, clientHeight, scrollWidth, clientWidth } = document.querySelector('#figures');
const whole = scrollHeight <= clientHeight && scrollWidth <= clientWidth;
return [document.title, whole && document.querySelectorAll('.figure svg .node').length];
"""


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutException("it did not come")
        time.sleep(0.2)


def press(driver: Chrome, *keys: str, control: str = "") -> None:
    """Press keys at once, after one that is held with Ctrl."""
    chain = ActionChains(driver)
    if control:
        chain = chain.key_down(Keys.CONTROL).send_keys(control).key_up(Keys.CONTROL)
    chain.send_keys(*keys).perform()


def typed(driver: Chrome, *words: str) -> None:
    """Type as a person does, one key after the other."""
    chain = ActionChains(driver)
    for key in "".join(words):
        chain = chain.send_keys(key).pause(PAUSE)
    chain.perform()


def shown(driver: Chrome, code: str, is_so: Callable[[object], bool]) -> object:
    """The value that a piece of code has in the window, once it is as wanted."""
    found: list[object] = []

    def looked(_: Chrome) -> bool:
        found[:] = [script(driver, code)]
        return is_so(found[0])

    WebDriverWait(driver, SECONDS, poll_frequency=0.2).until(looked)
    return found[0]


def opened(driver: Chrome, address: str) -> None:
    """The window, once its folder is there."""
    view(driver, 1400, 900)
    driver.get(address)
    shown(driver, FOLDER, bool)


def chosen(driver: Chrome, words: str, row: str) -> None:
    """Type into the box at the top, and take its first row once that is the one that is meant."""
    shown(driver, BOX, bool)
    press(driver, words)
    shown(driver, ROW, lambda text: row in str(text))
    press(driver, Keys.ENTER)


def previewed(driver: Chrome, title: str) -> object:
    """The number of nodes in the figures of the preview, once it shows a whole one of a title.

    Its frame is another one with each page, and previews of a window before may be beside it.
    """
    found: list[object] = []

    def looked() -> bool:
        driver.switch_to.default_content()
        for frame in driver.find_elements(By.CSS_SELECTOR, "iframe.webview"):
            driver.switch_to.default_content()
            try:
                driver.switch_to.frame(frame)
                driver.switch_to.frame("active-frame")
                found[:] = script(driver, PAGE)
            except WebDriverException:
                continue
            if found[0] == title and found[1]:
                return True
        return False

    until(looked)
    driver.switch_to.default_content()
    return found[1]


def say(what: str, is_so: object) -> None:
    """Print what was seen; end where it was not."""
    if not is_so:
        raise SystemExit(f"VS Code: not so: {what}")
    sys.stdout.write(f"VS Code: {what}\n")
    sys.stdout.flush()
