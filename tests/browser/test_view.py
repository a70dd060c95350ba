"""The explorer's figure at any size, its links, its formulas, its pages on paper."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

import pytest
from browser.chromium import command, script
from browser.conftest import Open
from browser.elements import node, one, point_at, press, step_with
from pages.explorer.pages import facts, page
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from xg.ops import table
from xg_pages.document import asset

# ---- size ---------------------------------------------------------------------------------------

BOXES = """
const box = (selector) => {
  const { left, top, right, bottom } = document.querySelector(selector).getBoundingClientRect();
  return [left, top, right, bottom];
};
return [box('#figures'), box('.figure:not([hidden]) svg'), box('#map'), box('#map i')];
"""


def test_a_large_figure_fits_zooms_and_has_a_map(opened: Open) -> None:
    driver = opened("mha", height=500)
    room, figure, small, seen = script(driver, BOXES)
    assert figure[3] > room[3]
    assert small[2] - small[0] == 120
    assert small[0] <= seen[0] < seen[2] <= small[2]
    script(driver, "document.getElementById('figures').scrollTop = 300")
    script(driver, "return new Promise(requestAnimationFrame)")
    assert script(driver, BOXES)[3][1] > seen[1]
    one(driver, "#fit").click()
    room, figure, *_ = script(driver, BOXES)
    assert room[0] <= figure[0] < figure[2] <= room[2]
    assert figure[3] <= room[3]
    assert not one(driver, "#map").is_displayed()
    small = figure[2] - figure[0]
    one(driver, "#larger").click()
    _, figure, *_ = script(driver, BOXES)
    assert figure[2] - figure[0] == pytest.approx(1.25 * small, rel=1e-3)


def test_wheel_and_keys_keep_what_is_under_the_pointer(opened: Open) -> None:
    driver = opened("mha", height=500)
    at = script(
        driver,
        "const b = document.querySelector('.figure:not([hidden]) .node.matmul')"
        ".getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]",
    )
    code = """const at = arguments[0];
        document.elementFromPoint(...at).dispatchEvent(new WheelEvent('wheel', { ctrlKey: true,
          deltaY: -200, clientX: at[0], clientY: at[1], bubbles: true, cancelable: true }));
        return document.elementFromPoint(...at).closest('.node').classList.contains('matmul')"""
    assert script(driver, code, at)
    larger = one(driver, "#scale").text
    script(driver, "arguments[0].focus({ preventScroll: true })", node(driver, "0.f0"))
    press(driver, "-")
    assert int(one(driver, "#scale").text[:-2]) < int(larger[:-2])
    top = script(driver, "return document.getElementById('figures').scrollTop")
    press(driver, "+", Keys.SHIFT + Keys.ARROW_DOWN)
    assert script(driver, "return document.getElementById('figures').scrollTop") > top
    press(driver, "0")
    assert not one(driver, "#map").is_displayed()


def test_ranks_stand_side_by_side_in_the_page(opened: Open) -> None:
    driver = opened(text=page("mlp", "DP × TP"))
    one(driver, "#overview").click()
    shown = one(driver, ".figure:not([hidden]) desc").get_attribute("textContent") or ""
    assert shown.startswith("Every rank has a column")
    assert one(driver, "#detail").text.startswith("Multi-Layer Perceptron\nboth passes")
    one(driver, "#backward").click()
    assert "backward pass" in one(driver, ".figure:not([hidden]) .title").text


# ---- links --------------------------------------------------------------------------------------


def state(driver: Chrome) -> Any:  # noqa: ANN401 - JSON
    """The choices that a reader sees, apart from the address."""
    code = """const text = (selector) => document.querySelector(selector)?.textContent ?? '';
        return ['.figure:not([hidden]) .title', '#detail .equation', '#rank', '#where',
          '[role=tab][aria-selected=true]', '#table tfoot'].map(text)"""
    return script(driver, code)


def choose(driver: Chrome, step: str) -> None:
    """Click an operator without a pointer, which would stay there and point at what comes after."""
    click = "arguments[0].dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    script(driver, click, node(driver, step))


def test_a_link_brings_every_state_back(opened: Open) -> None:
    driver = opened(text=page("transformer", "TP"))
    one(driver, 'nav [data-block="2"]').click()
    one(driver, "#backward").click()
    choose(driver, "2.b3")
    one(driver, '#axes [aria-label="N_T = 1"]').click()
    box = one(driver, 'input[type=number][aria-label^="D "]')
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("128")
    one(driver, "#tab-code").click()
    known, address = state(driver), driver.current_url
    block = facts(page("transformer", "TP"))["blocks"][2]
    said = f"block=Attention&pass=backward&step={len(block['forward']) + 4}&rank=1&tab=code"
    assert address.endswith(f"#{said}&size.D=128")
    driver.get("about:blank")
    driver.get(address)
    assert script(driver, "return started.then(() => 1)") == 1
    assert state(driver) == known
    driver.refresh()
    script(driver, "return started.then(() => 1)")
    assert state(driver) == known


def test_the_browser_goes_back(opened: Open) -> None:
    driver = opened("transformer")
    states = [state(driver)]
    one(driver, 'nav [data-block="1"]').click()
    states.append(state(driver))
    one(driver, "#backward").click()
    states.append(state(driver))
    choose(driver, "1.b2")
    for known in reversed(states):
        driver.back()
        assert state(driver) == known
    driver.forward()
    assert state(driver) == states[1]


# ---- formulas -----------------------------------------------------------------------------------

PARTS = """
return arguments[0].map((formula) => {
  const page = document.createElement('p');
  page.append(...formulaParts(formula));
  document.body.append(page);
  return [page.textContent, page.querySelectorAll('math').length,
    page.querySelectorAll('mfrac > :nth-child(3), msqrt > :nth-child(2), merror').length];
});
"""


def bare(text: str) -> str:
    """The signs of a formula, without those that lines, roots and heights stand for."""
    text = text.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹−", "0123456789-"))
    return re.sub(r"sqrt|[\s/_^()]", "", text)


def test_every_formula_is_set_sign_for_sign(opened: Open) -> None:
    driver = opened("mlp")
    formulas = [text for op in table().values() for text in (op.formula, op.gradient) if text]
    set_ = script(driver, asset("mathml.js") + PARTS, formulas)
    for formula, (text, runs, wrong) in zip(formulas, set_, strict=True):
        assert bare(text) == bare(formula)
        assert runs or not re.search("[=Σ]", formula)
        assert wrong == 0


def test_a_formula_has_fractions_and_roots(opened: Open) -> None:
    driver = opened("mlp")
    point_at(driver, node(driver, step_with("mlp", "H = LN")))
    fraction = one(driver, "#detail .formula mfrac")
    assert fraction.text.replace("\n", "") == "X−μσ2+ε"
    assert fraction.find_elements("css selector", ":scope > msqrt")


def test_a_number_of_a_call_shows_what_the_block_read_of_its_input(opened: Open) -> None:
    """Attention is causal: a row is made of itself and of those before it, whole."""
    driver = opened("transformer")
    one(driver, 'nav [data-block="1"]').click()
    steps = facts(page("transformer"))["blocks"][1]["forward"]
    (call,) = (n for n, step in enumerate(steps) if "Attention(" in step["equation"])
    choose(driver, f"1.f{call}")
    one(driver, "#tab-numbers").click()
    marked = """const [made, read] = document.querySelectorAll('#numbers figure');
        return [...made.querySelectorAll('tr')].map((row) => {
          row.cells[0].focus();
          return [...read.querySelectorAll('tr')].map((from) =>
            [...from.cells].map((cell) => cell.classList.contains('source')));
        });"""
    rows = script(driver, marked)
    assert len(rows) > 1
    for at, read in enumerate(rows):
        assert [set(row) for row in read] == [{place <= at} for place in range(len(read))]


# ---- paper --------------------------------------------------------------------------------------


def test_no_figure_is_cut_on_paper(opened: Open) -> None:
    """Each figure is on a page of its own, however it was shown, and light on dark screens too."""
    driver = opened("mha", scheme="dark", height=500)
    one(driver, "#larger").click()
    node(driver, "0.f3").click()
    paper = {"paperWidth": 8.27, "paperHeight": 11.69}  # A4, in inches
    data = b64decode(command(driver, "Page.printToPDF", printBackground=True, **paper)["data"])
    pages = len(re.findall(rb"/Type /Page\b", data))
    width, height = 186 / 25.4 * 96, 273 / 25.4 * 96  # without the margins of 12 mm
    metrics = {"width": int(width), "height": int(height), "deviceScaleFactor": 1, "mobile": False}
    command(driver, "Emulation.setDeviceMetricsOverride", **metrics)
    command(driver, "Emulation.setEmulatedMedia", media="print")
    try:
        sizes = script(
            driver,
            "return [...document.querySelectorAll('.figure svg')].map((svg) => {"
            "const { width, height } = svg.getBoundingClientRect(); return [width, height]})",
        )
        shade = script(driver, "return getComputedStyle(document.body).backgroundColor")
    finally:
        command(driver, "Emulation.setEmulatedMedia", media="")
    assert len(sizes) == 2
    assert all(0 < size[0] <= width and 0 < size[1] <= height for size in sizes)
    assert shade == "rgb(255, 255, 255)"
    assert pages >= 3
