"""Finding and using what is on a page."""

from __future__ import annotations

from browser.chromium import script
from pages.explorer.pages import facts, page
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement


def one(driver: Chrome, selector: str) -> WebElement:
    """The first element."""
    return driver.find_element(By.CSS_SELECTOR, selector)


def texts(driver: Chrome, selector: str) -> list[str]:
    """The texts of the selected elements, visible or not."""
    code = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())"
    return [str(text) for text in script(driver, code, selector)]


def node(driver: Chrome, step: str) -> WebElement:
    """The operator of a step in the figure."""
    return one(driver, f'.figure:not([hidden]) [data-step="{step}"]')


def step_with(name: str, equation: str) -> str:
    """The id of a step of a diagram's entry block by its equation."""
    block = facts(page(name))["blocks"][0]
    return next(
        f"0.{view[0]}{place}"
        for view in ("forward", "backward")
        for place, step in enumerate(block[view])
        if step["equation"].startswith(equation)
    )


def point_at(driver: Chrome, element: WebElement) -> None:
    """Move the pointer there."""
    script(driver, "arguments[0].scrollIntoView({block: 'center'})", element)
    ActionChains(driver).move_to_element(element).perform()


def press(driver: Chrome, *keys: str) -> None:
    """Type keys, one after the other."""
    for key in keys:
        ActionChains(driver).send_keys(key).perform()
