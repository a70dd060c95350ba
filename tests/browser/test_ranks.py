"""Pages of parallel programs in a real browser: mesh sliders, ranks, what a collective brings."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from browser.chromium import script
from browser.conftest import Open
from browser.elements import node, one, point_at, press, texts
from pages.explorer.pages import DIAGRAMS, facts, page
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from xg.cli import main

PLAN = "DP × TP"


def step(known: Any, equation: str) -> str:  # noqa: ANN401 - JSON
    """The id of a step of the page's own block."""
    block = known["blocks"][0]
    return next(
        f"0.{view[0]}{place}"
        for view in ("forward", "backward")
        for place, each in enumerate(block[view])
        if each["equation"] == equation
    )


def set_number(driver: Chrome, name: str, value: int) -> None:
    """Type a number for a size or a mesh axis."""
    box = one(driver, f'input[type=number][aria-label^="{name} "]')
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(str(value))


def exact(driver: Chrome, table: str) -> list[list[int]]:
    """The rows of a table, from the titles of its cells, which have all digits."""
    code = """return [...document.querySelectorAll(arguments[0])].map(
        (row) => [...row.querySelectorAll("td[title]")].map((cell) => cell.title))"""
    rows: list[list[str]] = script(driver, code, f"{table} tbody tr:has(td), {table} tfoot tr")
    return [[int(cell.rpartition(" = ")[2].replace(",", "")) for cell in row] for row in rows]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:  # noqa: ANN401 - JSON
    """The output of `xg cost --json`."""
    capsys.readouterr()
    assert main(["cost", str(DIAGRAMS / "notation" / "mlp.xg"), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# ---- the mesh -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", [{"N_D": 4, "N_T": 8}, {"N_D": 1, "N_T": 16}])
def test_the_mesh_moves_the_tables_to_what_xg_cost_prints(
    opened: Open, capsys: pytest.CaptureFixture[str], mesh: dict[str, int]
) -> None:
    """To the same numbers, which another compilation on another mesh counts."""
    driver = opened(text=page("mlp", PLAN))
    sizes = {"B": 8, "S": 128, "D": 64, **mesh}
    for name, value in sizes.items():
        set_number(driver, name, value)
    words = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    said = printed(capsys, "--plan", PLAN, *words)
    columns = ("forward_flops", "backward_flops", "saved_bytes", "parameters")
    assert exact(driver, "#table")[-1] == [said["total"][each]["number"] for each in columns]
    *rows, total = exact(driver, "#sent")
    ways = ("communication_naive", "communication")
    assert rows == [
        [each["calls"]["number"], *(each[way]["number"] for way in ways)]
        for each in said["collectives"]
    ]
    assert total == [said["total"][way]["number"] for way in ways]


def test_a_slider_of_the_mesh_moves_the_costs(opened: Open) -> None:
    driver = opened(text=page("mlp", PLAN))
    slider = one(driver, '#mesh input[type=range][aria-label="N_T"]')
    before = exact(driver, "#table")[-1], exact(driver, "#sent")[-1]
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert slider.get_attribute("aria-valuetext") == "4"
    after = exact(driver, "#table")[-1], exact(driver, "#sent")[-1]
    assert all(a != b for a, b in zip(before, after, strict=True))


def test_ranks_that_cannot_share_are_refused(opened: Open) -> None:
    driver = opened(text=page("mlp", PLAN))
    set_number(driver, "N_T", 3)
    assert one(driver, "#refused").text.replace("\n", "") == "Dff = 256 is not divisible by NT = 3"
    assert set(texts(driver, "#table td")) == {"–"}
    assert set(texts(driver, "#sent td:not(.of)")) == {"–"}
    set_number(driver, "N_T", 4)
    assert one(driver, "#refused").text == ""


def test_plans_stand_side_by_side(opened: Open, capsys: pytest.CaptureFixture[str]) -> None:
    """On the page of one device; a plan that ranks cannot follow says why, the others stay."""
    driver = opened("mlp")
    for name, value in {"B": 8, "S": 128, "N_D": 4, "N_T": 4}.items():
        set_number(driver, name, value)
    words = ("--set", "B=8", "--set", "S=128", "--set", "N_D=4", "--set", "N_T=4")
    said = printed(capsys, "--plan", "*", *words)["plans"]
    for row, plan in zip(exact(driver, "#plans"), said, strict=True):
        total, held = plan["total"], plan["memory_bytes"]["total"]["number"]
        flops = total["forward_flops"]["number"] + total["backward_flops"]["number"]
        sent = [total[way]["number"] for way in ("communication_naive", "communication")]
        assert row == [total["parameters"]["number"], held, flops, *sent]
    set_number(driver, "N_T", 3)
    assert one(driver, "#refused").text == ""
    assert texts(driver, "#plans .why") == ["Dff = 256 is not divisible by NT = 3"] * 2


# ---- one rank -----------------------------------------------------------------------------------


def test_an_operator_says_how_ranks_share_it(opened: Open) -> None:
    text = page("mlp", PLAN)
    driver = opened(text=text)
    point_at(driver, node(driver, step(facts(text), "AR(U • W_down; N_T)")))
    said = [each.replace("\n", "") for each in texts(driver, "#detail p, #detail dd")]
    assert "over ND: slice of B → slice of B" in said
    assert "over NT: a term → same" in said
    assert "2·(NT − 1)·B·D·S/ND = 65,536 elements" in said
    assert "2·(NT − 1)/NT·B·D·S/ND = 32,768 elements" in said
    assert "all_reduce(U @ W_down" in one(driver, "#detail pre").text
    lit = texts(driver, "#sent tr.on th")
    assert [each.replace("\n", "") for each in lit] == ["AR NT"]


def test_a_rank_in_zigzag_has_two_slices(opened: Open) -> None:
    text = page("transformer", "Zigzag")
    driver = opened(text=text)
    point_at(driver, node(driver, step(facts(text), "Emb(ids; E)")))
    said = [each.replace("\n", "") for each in texts(driver, "#detail p, #detail dd")]
    assert "over NS: two slices of S × same → two slices of S" in said
    node(driver, step(facts(text), "Emb(ids; E)")).click()
    one(driver, "#tab-numbers").click()
    held = [text for text in texts(driver, "#numbers .held") if "slice" in text]
    assert held
    assert all(re.fullmatch(r"two slices of S = \d+, one from each end", each) for each in held)


def test_every_rank_plays_its_own_numbers(opened: Open) -> None:
    """The rank is chosen by keys; what is shown is what that rank has."""
    text = page("mlp", PLAN)
    driver, known = opened(text=text), facts(text)
    place = step(known, "U = GELU(add; tanh)")
    number = int(place[3:])
    for _ in range(number + 1):
        one(driver, "#next").click()
    seen: list[list[str]] = []
    for rank, at in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        for axis, where in zip(("N_D", "N_T"), at, strict=True):
            chosen = one(driver, f'#axes input[name="rank-{axis}"]:checked')
            if chosen.get_attribute("value") != str(where):
                chosen.send_keys(Keys.ARROW_RIGHT)
        assert one(driver, "#rank").text == f"rank {rank}"
        held = texts(driver, "#numbers figure:first-of-type .held")
        b, d = at[0] * 2, at[1] * 6
        assert held == [f"slice {b}:{b + 2} of B = 4; slice {d}:{d + 6} of Dff = 12"]
        seen.append(texts(driver, "#numbers figure:first-of-type td"))
        assert one(driver, ".chip").text.startswith(seen[-1][0])
    assert len({tuple(each) for each in seen}) == 4


def test_a_collective_shows_what_comes_in_and_what_comes_out(opened: Open) -> None:
    text = page("mlp", "TP")
    driver, known = opened(text=text), facts(text)
    node(driver, step(known, "AR(U • W_down; N_T)")).click()
    one(driver, "#tab-numbers").click()
    heads = [each.replace("\n", "") for each in texts(driver, "#numbers h3")]
    assert heads == ["From 2 ranks along NT", "To 2 ranks along NT, to all the same"]
    groups = driver.find_elements(By.CSS_SELECTOR, "#numbers .group")
    came, went = ([numbers(f) for f in g.find_elements(By.TAG_NAME, "figure")] for g in groups)
    assert (len(came), len(went)) == (2, 1)
    for first, second, total in zip(*came, *went, strict=True):
        assert first + second == pytest.approx(total, abs=1e-12)


def numbers(figure: Any) -> list[float]:  # noqa: ANN401 - an element
    """The numbers of a tensor."""
    cells = figure.find_elements(By.TAG_NAME, "td")
    return [float(cell.get_attribute("title")) for cell in cells]


def test_a_page_of_one_rank_goes_without_a_pointer(opened: Open) -> None:
    text = page("node_i", None, "MLP_sp")
    driver = opened(text=text)
    assert texts(driver, "#axes legend") == ["NT"]
    script(driver, "arguments[0].focus()", node(driver, step(facts(text), "H = AG(H; N_T)")))
    press(driver, "r", "r")
    assert one(driver, "#rank").text == "rank 2"
    press(driver, "r")
    assert one(driver, "#rank").text == "rank 0"
    press(driver, "n", "n")
    heads = texts(driver, "#numbers .group:first-of-type p")
    assert heads[:3] == ["rank 0", "rank 1", "rank 2"]
    press(driver, "b")
    assert one(driver, "#backward").is_selected()


def test_a_phone_shows_ranks_without_sideways_scrolling(opened: Open) -> None:
    driver = opened(text=page("mlp", PLAN), width=390, height=844)
    for _ in range(8):
        one(driver, "#next").click()
    for tab in ("code", "numbers", "costs"):
        one(driver, f"#tab-{tab}").click()
        assert script(driver, "return document.scrollingElement.scrollWidth") <= 390
