"""The page to explore in the frame that a notebook shows: closed in, and it works all the same."""

from __future__ import annotations

from browser.chromium import script
from browser.conftest import Open
from browser.elements import node, one, point_at, step_with
from pages.explorer.pages import program

from xg_pages.notebook import explorer


def test_a_frame_in_a_notebook_is_explored(opened: Open) -> None:
    frame = explorer(program("mlp"))._repr_html_()  # pyright: ignore[reportPrivateUsage]
    driver = opened(text=f"<!doctype html><title>notebook</title>{frame}")
    driver.switch_to.frame(one(driver, "iframe"))
    point_at(driver, node(driver, step_with("mlp", "U")))
    assert one(driver, "#detail").text
    driver.switch_to.default_content()
    assert script(driver, "return document.querySelector('iframe').contentDocument") is None
