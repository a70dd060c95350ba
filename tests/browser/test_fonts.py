"""Figures where none of their fonts is installed: their text keeps to its measured place."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.chromium import open_file, script
from figures.hand_made import mha_forward
from selenium.webdriver import Chrome

from xg.diagnostics import escape
from xg.figures import render
from xg.figures.formats.svg import FAMILY

# How far each span is too long or too short, in points, and where it would end unheld.
TOO_LONG = """
const loose = arguments[0];
return [...document.querySelectorAll('tspan[textLength]')].map((span) => {
  const wanted = +span.getAttribute('x') + +span.getAttribute('textLength');
  if (loose) span.removeAttribute('textLength');
  return span.getEndPositionOfChar(span.getNumberOfChars() - 1).x - wanted;
});
"""


@pytest.mark.parametrize("family", ["DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"])
def test_text_keeps_to_its_place_in_another_font(
    driver: Chrome, tmp_path: Path, family: str
) -> None:
    text = render(mha_forward(), "svg").decode()
    ours = escape.xml(FAMILY)
    assert ours in text
    path = tmp_path / "figure.svg"
    path.write_text(text.replace(ours, family), encoding="utf-8")
    open_file(driver, path)
    held: list[float] = script(driver, TOO_LONG, False)
    assert len(held) > 100
    assert max(map(abs, held)) < 0.1
    assert max(script(driver, TOO_LONG, True)) > 3  # the font is a wider one
