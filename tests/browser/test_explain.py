"""Pages of explanation in a real browser: on a desk and on a phone, light and dark."""

from __future__ import annotations

from browser.chromium import script, view
from browser.conftest import Open
from pages.explain.pages import hostile, page
from selenium.webdriver.common.by import By

from xg_pages.explain.html import html

# The line around each node, beside its window and the figure that is shown in it.
WINDOWS = """
return [...document.querySelectorAll('svg.window')].map((window) => {
  const seen = window.getBoundingClientRect();
  const line = window.querySelector('.here').getBoundingClientRect();
  const figure = window.querySelector('use').getBoundingClientRect();
  return line.left >= seen.left && line.right <= seen.right && line.top >= seen.top
    && line.bottom <= seen.bottom && figure.width > seen.width / 2;
});
"""


def test_nothing_sticks_out_and_every_node_is_in_its_window(opened: Open) -> None:
    """Such a page has no script: a window of another size shows what it would at first."""
    driver = opened(text=html(page("cat_sleeps")).text)
    for width, scheme, ground in (
        (1280, "light", "rgb(255, 255, 255)"),
        (390, "dark", "rgb(20, 24, 31)"),
    ):
        view(driver, width, 900, scheme)
        assert script(driver, "return document.documentElement.scrollWidth") <= width
        windows = script(driver, WINDOWS)
        assert len(windows) == 36
        assert all(windows)
        color = script(driver, "return getComputedStyle(document.body).backgroundColor")
        assert color == ground


# The frames of a product: the whole first row, the whole first column, the first number.
FRAMED = """
return [...document.querySelectorAll('#step-1 .product table')].map((table) =>
  [...table.rows].map((row) => [...row.cells].map((cell) =>
    getComputedStyle(cell).backgroundColor === 'rgba(0, 0, 0, 0)' ? ' ' : '#').join('')));
"""


def test_a_product_stands_in_one_line_where_it_fits_and_a_link_leads_to_its_step(
    opened: Open,
) -> None:
    driver = opened(text=html(page("cat_sleeps")).text)
    for width in (375, 768, 1400):
        view(driver, width, 900)
        row, column, cell = script(driver, FRAMED)
        assert row == ["#####", "     ", "     "]
        assert column == ["#  "] * 5
        assert cell == ["#  ", "   ", "   "]
        wide = script(
            driver,
            "return [...document.querySelectorAll('#step-1 .product > div')]"
            ".filter((part, n, all) => n && part.offsetLeft < all[n - 1].offsetLeft).length",
        )
        assert wide == (width < 500)
        assert script(driver, "return document.documentElement.scrollWidth") <= width
    driver.find_element(By.CSS_SELECTOR, "#step-1 p a").click()
    assert driver.find_element(By.CSS_SELECTOR, "article:target h4").text == "5 Q • K⊤"


def test_a_hostile_file_is_only_shown(opened: Open) -> None:
    driver = opened(text=html(hostile()).text)
    assert script(driver, "return document.scripts.length + document.images.length") == 0
    assert "<script>alert(1)</script>" in driver.find_element(By.TAG_NAME, "h1").text
