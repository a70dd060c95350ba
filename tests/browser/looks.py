"""Faults of a page that eyes would find: parts on each other, cut text, what no key reaches."""

from __future__ import annotations

from collections.abc import Iterator

from browser.chromium import script
from browser.elements import press
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

# Boxes of texts and controls as far as they can be seen, the faults among them, and a page that
# is wider than its window. A part that stays while the rest scrolls covers nothing by itself.
FAULTS = """
const faults = [];
const root = document.scrollingElement;
if (root.scrollWidth > innerWidth) faults.push(`wider than the window: ${root.scrollWidth}`);
const named = (one) => {
  const name = one.id ? `#${one.id}` : one.className?.baseVal ?? one.className;
  return `${one.tagName.toLowerCase()} ${name || ''} "${one.textContent.trim().slice(0, 30)}"`;
};
const clipped = (rect, element) => {
  let { left, top, right, bottom } = rect;
  let cut = false;
  for (let one = element; one && one !== document.body; one = one.parentElement) {
    const style = getComputedStyle(one);
    if (style.position === 'fixed') break;
    if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
    const box = one.getBoundingClientRect();
    const hides = style.overflowX === 'hidden' || style.overflowX === 'clip';
    if (hides && (right > box.right + 1.5 || left < box.left - 1.5) && box.width > 4) cut = true;
    left = Math.max(left, box.left); right = Math.min(right, box.right);
    top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
  }
  return { left, top, right, bottom, cut };
};
const layer = (one) => {
  for (let each = one; each; each = each.parentElement)
    if (['sticky', 'fixed'].includes(getComputedStyle(each).position)) return each;
  return null;
};
const parts = [];
const seen = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
const add = (element, rect) => {
  const box = clipped(rect, element);
  if (box.cut) faults.push(`cut: ${named(element)}`);
  if (box.right - box.left > 2 && box.bottom - box.top > 2)
    parts.push({ element, box, on: layer(element) });
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !seen(element)) continue;
  if (element.closest('svg, script, style, math, option, textarea, [aria-hidden=true]')) continue;
  const range = document.createRange();
  range.selectNodeContents(walker.currentNode);
  for (const rect of range.getClientRects()) add(element, rect);
}
for (const element of document.querySelectorAll('button, input, select, textarea, summary'))
  if (seen(element)) add(element, element.getBoundingClientRect());
const least = 2;
parts.sort((one, other) => one.box.top - other.box.top);
for (let i = 0; i < parts.length; i++)
  for (let j = i + 1; j < parts.length; j++) {
    const [one, other] = [parts[i], parts[j]];
    if (other.box.top >= one.box.bottom) break;
    if (one.on !== other.on) continue;
    if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
    const [a, b] = [one.box, other.box];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    const lines = Math.min(a.bottom - a.top, b.bottom - b.top) / 4;
    if (across > least && down > Math.max(least, lines))
      faults.push(`overlap: ${named(one.element)} and ${named(other.element)}`);
  }
for (const one of document.querySelectorAll('button, summary, th, td, label, h1, h2, h3'))
  if (seen(one) && !one.closest('svg') && one.clientWidth && one.scrollWidth > one.clientWidth + 1
      && getComputedStyle(one).overflowX !== 'auto')
    faults.push(`too small for its text: ${named(one)}`);
return [...new Set(faults)];
"""
# Stops of the Tab key, and all else that can be used: in a row of tabs, a
# table of numbers or a figure arrows reach the others; a row of costs does no more than its node.
STOPS = """
const wanted = 'a[href], button, input, select, textarea, summary, [tabindex]';
return [...document.querySelectorAll(wanted)].filter((one) =>
  one.checkVisibility({ visibilityProperty: true }) && one.tabIndex >= 0 && !one.disabled
  && (one.type !== 'radio' || one.checked) && one.getBoundingClientRect().width);
"""
PASSED = """
const wanted = 'a[href], button, input, select, textarea, summary, [data-step]:not(tr), [onclick]';
const others = '[role=tablist], [role=listbox], .listing, svg, table';
return [...document.querySelectorAll(wanted)].filter((one) =>
  one.checkVisibility({ visibilityProperty: true }) && one.tabIndex < 0 && !one.disabled
  && ![...one.closest(others)?.querySelectorAll(wanted) ?? []].some((other) => other.tabIndex >= 0))
  .map((one) => one.outerHTML.slice(0, 80));
"""

TO_THE_TOP = """
document.activeElement.blur();
scrollTo(0, 0);
for (const one of document.querySelectorAll('*')) if (one.scrollTop) one.scrollTop = 0;
"""


def faults(driver: Chrome) -> list[str]:
    """Return the faults of the page as it is shown now."""
    return [str(fault) for fault in script(driver, FAULTS)]


def out_of_reach(driver: Chrome) -> list[str]:
    """Return the controls of the page that the Tab key does not reach."""
    script(driver, TO_THE_TOP)
    stops = [(one.id, _name(one)) for one in script(driver, STOPS)]
    reached = set(_tabbed(driver, len(stops) + 20))
    script(driver, TO_THE_TOP)
    # A part that is drawn again on the way is another element, of the same name.
    missed = [name for one, name in stops if not reached & {one, name}]
    return [*missed, *map(str, script(driver, PASSED))]


def _tabbed(driver: Chrome, most: int) -> Iterator[str]:
    """Yield what has the focus at each press of Tab; an editor of text keeps that key."""
    for _ in range(most):
        keeps = driver.switch_to.active_element.tag_name == "textarea"
        press(driver, *([Keys.ESCAPE] if keeps else []), Keys.TAB)
        element = driver.switch_to.active_element
        yield from (element.id, _name(element))


def _name(element: WebElement) -> str:
    return str(element.get_attribute("outerHTML"))[:80]
