"""Contrast of pages, as a browser computes their colors: 4.5 to 1 for text (WCAG 2.1, AA)."""

from __future__ import annotations

from browser.chromium import script, view
from browser.conftest import Open
from pages.explain.pages import page as explanation
from pages.explorer.pages import page

from xg_pages.explain.html import html

# Every text with the color of its letters and of what is painted below, and their contrast.
TEXTS = """
const brush = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const remembered = (make) => {
  const known = new Map();
  return (key) => known.get(key) ?? known.set(key, make(key)).get(key);
};
const painted = remembered((layers) => {
  const [color, ground] = layers.split(' on ');
  brush.fillStyle = ground; brush.fillRect(0, 0, 1, 1);
  brush.fillStyle = color; brush.fillRect(0, 0, 1, 1);
  return 'rgb(' + [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3).join() + ')';
});
const over = (color, ground) => painted(`${color} on ${ground}`);
const luminance = (color) => {
  const [r, g, b] = color.match(/\\d+/g).map((part) => part / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = remembered((element) => (element === null ? 'rgb(255,255,255)'
  : over(getComputedStyle(element).backgroundColor, ground(element.parentElement))));
const found = new Map();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const shown = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const counts = shown && !element.closest('svg, script, style, :disabled');
  if (!walker.currentNode.data.trim() || !counts) continue;
  const below = ground(element);
  const color = over(getComputedStyle(element).color, below);
  const [low, high] = [luminance(color), luminance(below)].sort((a, b) => a - b);
  const name = `${element.tagName.toLowerCase()}.${element.className}: ${color} on ${below}`;
  found.set(name, (high + 0.05) / (low + 0.05));
}
return [...found];
"""
LEAST = 4.5


def test_texts_of_pages_can_be_read(opened: Open) -> None:
    for text in (page("mlp"), html(explanation("cat_sleeps")).text):
        driver = opened(text=text)
        grounds: set[str] = set()
        for scheme in ("light", "dark"):
            view(driver, 1280, 900, scheme)
            contrasts = script(driver, TEXTS)
            assert len(contrasts) > 5
            assert [one for one in contrasts if one[1] < LEAST] == []
            grounds |= {name.rpartition(" on ")[2] for name, _ in contrasts}
        assert {"rgb(255,255,255)", "rgb(20,24,31)"} <= grounds


def test_a_pale_text_is_found(opened: Open) -> None:
    text = '<body style="background: #fff"><p style="color: #999">pale</p><p>plain</p>'
    contrasts = script(opened(text=text), TEXTS)
    assert [round(contrast, 1) for _, contrast in contrasts] == [2.8, 21]
