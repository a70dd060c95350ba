"""Accessibility of explorer pages: keyboard, names of controls, phones, dark mode, no requests."""

from __future__ import annotations

import pytest
from browser.chromium import command, complaints, script
from browser.conftest import Open
from browser.elements import node, one, press
from browser.looks import TO_THE_TOP
from pages.explorer.pages import HOSTILE, HOSTILE_TITLE, page, page_of
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tier import THOROUGH

# ---- everybody ----------------------------------------------------------------------------------


def test_everything_goes_without_a_pointer(opened: Open) -> None:
    driver = opened("mlp")
    focused = lambda: driver.switch_to.active_element  # noqa: E731
    for _ in range(12):
        press(driver, Keys.TAB)
        if focused().get_attribute("data-step"):
            break
    assert focused().get_attribute("data-step") == "0.f0"
    assert "H = LN(X; γ, β, 1e-05)" in one(driver, "#detail").text
    press(driver, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ENTER)
    assert focused().get_attribute("aria-pressed") == "true"
    kept = one(driver, "#detail .equation").text
    press(driver, Keys.TAB)
    assert one(driver, "#detail .equation").text == kept
    driver.execute_script("arguments[0].focus()", node(driver, "0.f0"))  # pyright: ignore[reportUnknownMemberType]
    press(driver, "b")
    assert one(driver, "#backward").is_selected()
    press(driver, "n", "n")
    assert one(driver, "#where").text == "12 of 20"  # the second of the pass that is shown
    one(driver, "#tab-costs").send_keys(Keys.ARROW_RIGHT)
    assert one(driver, "#tab-code").get_attribute("aria-selected") == "true"
    assert focused().get_attribute("id") == "tab-code"


def test_lines_of_code_go_without_a_pointer(opened: Open) -> None:
    driver = opened("mlp")
    one(driver, "#tab-code").send_keys(Keys.ENTER, Keys.TAB)
    assert one(driver, "#detail .equation").text.startswith("H = LN(X")
    press(driver, Keys.ARROW_DOWN)
    lit = one(driver, ".figure:not([hidden]) .node.on").get_attribute("data-step")
    line = driver.switch_to.active_element.get_attribute("data-steps") or ""
    assert lit == line.split()[-1]
    kept = one(driver, "#detail .equation").text
    press(driver, Keys.ENTER, Keys.TAB)
    assert one(driver, "#detail .equation").text.startswith("dZ = dDO")  # the other listing
    script(driver, "document.activeElement.blur()")
    assert one(driver, "#detail .equation").text == kept


@pytest.mark.parametrize(
    ("name", "plan"), [("mlp", "TP"), ("transformer" if THOROUGH else "mha", None)]
)
def test_everything_that_can_be_reached_has_a_name(
    opened: Open, name: str, plan: str | None
) -> None:
    driver = opened(text=page(name, plan))
    command(driver, "Accessibility.enable")
    nodes = command(driver, "Accessibility.getFullAXTree")["nodes"]
    command(driver, "Accessibility.disable")  # else the browser goes on for all tests that follow
    roles: set[str] = set()
    for each in nodes:
        properties = {p["name"]: p["value"].get("value") for p in each.get("properties", [])}
        role = each.get("role", {}).get("value")
        if each["ignored"] or not properties.get("focusable") or role == "RootWebArea":
            continue
        roles.add(role)
        assert each["name"]["value"].strip(), each
    assert {"button", "checkbox", "slider", "spinbutton", "tab"} <= roles


# Whether what has the focus is under something that is no part of it and does not contain it.
COVERED = """
const hidden = [];
const focusable = 'a[href], button, input, select, summary, [tabindex]';
for (const one of document.querySelectorAll(focusable)) {
  if (!one.checkVisibility({ visibilityProperty: true }) || one.tabIndex < 0) continue;
  one.focus();
  const box = one.getBoundingClientRect();
  if (!box.width || !box.height) continue;
  const [x, y] = [box.left + Math.min(box.width, 8) / 2, box.top + Math.min(box.height, 8) / 2];
  const top = document.elementFromPoint(x, y);
  const own = top?.closest('label')?.control === one;
  const seen = top && (own || one.contains(top) || top.contains(one));
  if (!seen) hidden.push(`${one.outerHTML.slice(0, 60)} under ${top?.outerHTML.slice(0, 60)}`);
}
return hidden;"""
COVER = """
const cover = document.createElement('div');
Object.assign(cover.style, { position: 'fixed', inset: 0, zIndex: 9 });
document.body.append(cover);"""
UNCOVER = "document.body.lastElementChild.remove();"


WIDTH = "return document.scrollingElement.scrollWidth"
TABS = ("code", "numbers", "costs")
widths = pytest.mark.parametrize("width", [375, 768, 1400])


@widths
def test_no_part_that_stays_covers_what_has_the_focus(opened: Open, width: int) -> None:
    driver = opened("mlp", width=width, height=700)
    for tab in TABS:
        one(driver, f"#tab-{tab}").click()
        assert script(driver, WIDTH) <= width
        assert script(driver, COVERED) == [], tab
        script(driver, COVER)
        assert script(driver, COVERED) != [], tab
        script(driver, UNCOVER + TO_THE_TOP)


@widths
@pytest.mark.parametrize("name", ["mha", *(["transformer"] if THOROUGH else [])])
def test_no_window_needs_sideways_scrolling(opened: Open, name: str, width: int) -> None:
    driver = opened(name, width=width, height=844)
    for tab in TABS:
        one(driver, f"#tab-{tab}").click()
        assert script(driver, WIDTH) <= width


def test_dark_is_dark_and_light_is_light(opened: Open) -> None:
    shade = "return getComputedStyle(document.body).backgroundColor"
    assert script(opened("mlp"), shade) == "rgb(255, 255, 255)"
    assert script(opened("mlp", scheme="dark"), shade) == "rgb(20, 24, 31)"


# ---- what it never does -------------------------------------------------------------------------


def test_nothing_is_fetched(opened: Open) -> None:
    driver = opened("transformer")
    one(driver, "#next").click()
    assert script(driver, "return performance.getEntriesByType('resource').length") == 0


def test_a_hostile_title_is_shown_as_text(opened: Open) -> None:
    driver = opened(text=page_of(HOSTILE))
    assert driver.title == HOSTILE_TITLE
    assert one(driver, "h1").text == HOSTILE_TITLE
    assert driver.find_elements(By.CSS_SELECTOR, "img") == []


def test_another_script_does_not_run(opened: Open) -> None:
    """The policy is in force: what is planted into a page stays dead."""
    planted = page("mlp").replace("</body>", "<script>document.title = 'broken'</script></body>")
    driver = opened(text=planted)
    assert driver.title == "Multi-Layer Perceptron"
    (complaint,) = complaints(driver)
    assert "Content Security Policy" in complaint
