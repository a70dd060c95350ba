"""The explorer in a real browser: what pointer, keys and sliders do, and what it never does."""

from __future__ import annotations

import re

from browser.chromium import script
from browser.conftest import Open
from browser.elements import node, one, point_at, press, step_with, texts
from pages.explorer.pages import facts, page, program
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from xg.cost.cost import cost
from xg.ir.dim import number as size

NOTHING = 1e-9  # what is smaller is the rounding error of a zero

# ---- linked both ways ---------------------------------------------------------------------------


def test_an_operator_tells_its_formula_shapes_costs_and_lines(opened: Open) -> None:
    driver = opened("mha")
    point_at(driver, node(driver, step_with("mha", "A = Q • K⊤")))
    said = one(driver, "#detail").text
    assert "A = Q • K⊤" in said
    assert "[B, N_H, S, D_h] × [B, N_H, D_h, S] → [B, N_H, S, S]" in said.replace("\n", "").replace(
        "NH", "N_H"
    ).replace("Dh", "D_h")
    assert "2·B·D·S² = 4.194 MFLOP" in said
    assert re.search(r"A = Q @ KT +# \[B, N_H, S, S\]\ndQ = ", said)
    assert [text.split(" #")[0].strip() for text in texts(driver, "#code .on")] == ["A = Q @ KT"]
    assert [text.split(" =")[0] for text in texts(driver, "#code .also")] == ["dQ", "dKT"]


def test_a_line_of_code_lights_up_its_operator(opened: Open) -> None:
    driver = opened("mha")
    softmax = step_with("mha", "P = S(Z)")
    one(driver, "#tab-code").click()
    point_at(driver, one(driver, f'#code [data-steps~="{softmax}"]'))
    (lit,) = driver.find_elements(By.CSS_SELECTOR, ".figure:not([hidden]) .node.on")
    assert lit.get_attribute("data-step") == softmax
    assert (lit.get_attribute("aria-label") or "").startswith("softmax: P = S(Z)")
    backward = one(driver, '.listing[data-of="0.backward"] [data-steps]')
    point_at(driver, backward)
    step = (backward.get_attribute("data-steps") or "").split()[-1]
    origin = facts(page("mha"))["blocks"][0]["backward"][int(step[3:])]["of"]
    (lit,) = driver.find_elements(By.CSS_SELECTOR, ".figure:not([hidden]) .node.on")
    assert lit.get_attribute("data-step") == f"0.f{origin}"


def test_backward_swaps_the_figure_and_keeps_the_operator(opened: Open) -> None:
    driver = opened("mha")
    node(driver, step_with("mha", "P = S(Z)")).click()
    one(driver, "#backward").click()
    assert one(driver, ".figure:not([hidden]) desc").get_attribute("textContent") != ""
    assert "backward pass" in one(driver, ".figure:not([hidden]) .title").text
    assert "dZ = dS(" in one(driver, "#detail .equation").text
    one(driver, "#backward").click()
    assert one(driver, "#detail .equation").text == "P = S(Z)"


def test_a_block_opens_and_one_comes_back(opened: Open) -> None:
    driver = opened("transformer")
    node(driver, step_with("transformer", "layers_out = N_L × Layer")).click()
    one(driver, "#detail .open").click()
    assert "Transformer Layer" in one(driver, ".figure:not([hidden]) .title").text
    assert one(driver, "#detail h2").text != "Language Model"
    press(driver, Keys.ESCAPE)
    press(driver, Keys.ESCAPE)
    assert "Language Model" in one(driver, ".figure:not([hidden]) .title").text


# ---- sizes --------------------------------------------------------------------------------------


def set_size(driver: Chrome, name: str, value: int) -> None:
    """Type a number."""
    box = one(driver, f'input[type=number][aria-label^="{name} "]')
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(str(value))


def test_the_table_is_exact_at_every_size(opened: Open) -> None:
    driver = opened("mha")
    for sizes in ({"B": 8, "S": 1024, "D": 768, "N_H": 12}, {"B": 1, "S": 3, "D": 10, "N_H": 5}):
        for name, value in sizes.items():
            set_size(driver, name, value)
        exact_at(driver, sizes)


def exact_at(driver: Chrome, sizes: dict[str, int]) -> None:
    """Compare the table with what `xg cost` counts."""
    code = """return [...document.querySelectorAll("#table tbody tr, #table tfoot tr")].map(
        (row) => [...row.querySelectorAll("td")].map((cell) => cell.title))"""
    shown: list[list[str]] = script(driver, code)
    counted = cost(program("mha").graphs).blocks[0]
    amounts = [row.amount for row in counted.rows] + [counted.total]
    numbers = {name: size(value) for name, value in sizes.items()}
    for cells, amount in zip(shown, amounts, strict=True):
        exact = [cell.rpartition(" = ")[2].replace(",", "") for cell in cells]
        dims = (amount.forward, amount.backward, amount.saved, amount.parameters)
        assert exact == [str(dim.substitute(numbers)) for dim in dims]


def test_a_slider_moves_table_and_detail(opened: Open) -> None:
    driver = opened("mlp")
    node(driver, step_with("mlp", "U")).click()
    before = one(driver, "#table tfoot").text, one(driver, "#detail .cost").text
    slider = one(driver, 'input[type=range][aria-label="S"]')
    slider.send_keys(Keys.ARROW_RIGHT)
    after = one(driver, "#table tfoot").text, one(driver, "#detail .cost").text
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert slider.get_attribute("aria-valuetext") == "48"


def test_sizes_that_do_not_go_together_are_refused(opened: Open) -> None:
    driver = opened("mha")
    set_size(driver, "N_H", 5)
    assert one(driver, "#refused").text == "D/NH = 64/5 is no length of an axis"
    assert set(texts(driver, "#table td")) == {"–"}
    set_size(driver, "N_H", 8)
    assert one(driver, "#refused").text == ""


def test_a_bound_is_held(opened: Open) -> None:
    driver = opened("transformer")
    set_size(driver, "S", 513)
    assert one(driver, "#refused").text == "S = 513 is more than Smax = 512"


# ---- real numbers -------------------------------------------------------------------------------


def test_the_player_goes_through_both_passes(opened: Open) -> None:
    driver = opened("mlp")
    known = facts(page("mlp"))
    block = known["blocks"][0]
    values = script(driver, "return numbers().map(({ data }) => [...data])")
    order = [*block["forward"], *block["backward"]]
    for at, step in enumerate(order, start=1):
        one(driver, "#next").click()
        assert one(driver, "#where").text == f"{at} of {len(order)}"
        assert bare(one(driver, "#detail .equation").text) == bare(step["equation"])
        first = values[step["makes"][0]]
        shown = texts(driver, "#numbers figure:first-of-type td")
        assert shown == [spelled(each) for each in first[: len(shown)]]
    assert one(driver, "#backward").is_selected()
    later = driver.find_elements(By.CSS_SELECTOR, ".figure:not([hidden]) .later")
    assert later == []


def test_the_player_goes_on_in_the_pass_that_is_shown(opened: Open) -> None:
    """Turned by hand the figure is whole, and play and the next step begin that pass."""
    driver = opened("mlp")
    block = facts(page("mlp"))["blocks"][0]
    count, steps = len(block["forward"]), len(block["forward"] + block["backward"])
    for _ in range(3):
        one(driver, "#next").click()
    one(driver, "#backward").click()
    assert driver.find_elements(By.CSS_SELECTOR, ".figure:not([hidden]) .later") == []
    one(driver, "#play").click()
    assert one(driver, "#where").text == f"{count + 1} of {steps}"
    assert one(driver, "#backward").is_selected()
    one(driver, "#play").click()
    one(driver, "#backward").click()
    one(driver, "#next").click()
    assert one(driver, "#where").text == f"1 of {steps}"


def bare(text: str) -> str:
    """Text without underscores: the page sets subscripts."""
    return re.sub(r"[_\s]", "", text)


def spelled(value: float) -> str:
    """Three digits, as the page has them."""
    rounded = 0.0 if abs(value) < NOTHING else float(f"{value:.3g}")
    text = str(int(rounded)) if rounded == int(rounded) else repr(rounded)
    text = f"{rounded:.8f}".rstrip("0") if 1e-6 <= abs(rounded) < 1e-4 else text
    return re.sub(r"e-0(\d)", r"e-\1", text).replace("-", "−")


def test_what_is_not_computed_yet_is_faint(opened: Open) -> None:
    driver = opened("mha")
    one(driver, "#at").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    faint = texts(driver, ".figure:not([hidden]) .node.later")
    assert len(faint) > 10
    assert one(driver, ".figure:not([hidden]) .node.on").get_attribute("data-step") == "0.f1"
    made = facts(page("mha"))["blocks"][0]["forward"][1]["makes"][0]
    first = script(driver, "return [...numbers()[arguments[0]].data].slice(0, 3)", made)
    assert texts(driver, ".chip") == ["  ".join(map(spelled, first)) + " …"]


def test_play_plays_and_stops(opened: Open) -> None:
    driver = opened("mlp")
    one(driver, "#play").click()
    assert one(driver, "#play").text == "Pause"
    assert one(driver, "#where").text == "1 of 20"
    one(driver, "#play").click()
    assert one(driver, "#play").text == "Play"


def test_another_block_stops_the_player(opened: Open) -> None:
    driver = opened("transformer")
    one(driver, "#play").click()
    one(driver, 'nav [data-block="1"]').click()
    assert one(driver, "#play").text == "Play"
    block = facts(page("transformer"))["blocks"][1]
    steps = len(block["forward"]) + len(block["backward"])
    assert one(driver, "#where").text == f"{steps} steps"
    assert driver.find_elements(By.CSS_SELECTOR, ".figure:not([hidden]) .later, .chip") == []
