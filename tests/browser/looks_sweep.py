"""Faults of all explorers and lessons: `python -m browser.looks_sweep [DIAGRAM...]`.

Each is opened in windows of three widths, light and dark, and looked at in every tab and pass.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from browser.chromium import chromium, complaints, open_file, script, view
from browser.elements import one
from browser.looks import faults, out_of_reach
from browser.test_contrast import LEAST, TEXTS
from pages.explain.pages import of_project
from pages.explorer.pages import DIAGRAMS, page, program
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import read_project
from xg_pages.explain.html import html
from xg_runtime.errors import InputError

WIDTHS = (375, 768, 1400)
READY = "return !document.scripts.length || document.body.dataset.ready !== undefined"


def pages(names: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the page of every diagram, without a plan and under its first, and its lesson."""
    for path in sorted(DIAGRAMS.rglob("*.xg")):
        if names and path.stem not in names:
            continue
        project = read_project(path)
        for plan in (None, *list(plans_of(project))[:1]):
            try:
                yield f"{path.stem}, plan {plan}", page(path.stem, plan)
            except DiagnosticError:  # the plan is of another block
                continue
        with suppress(InputError):  # of blocks of a rank there is no lesson
            yield f"{path.stem}, lesson", html(of_project(project, seed=0)).text
        page.cache_clear()
        program.cache_clear()


def looked_at(driver: Chrome, path: Path) -> Iterator[str]:
    """Yield the faults of a page in every window, tab and pass."""
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            view(driver, width, 844, scheme)
            _open(driver, path)
            for where in _states(driver):
                pale = [name for name, contrast in script(driver, TEXTS) if contrast < LEAST]
                for fault in (*faults(driver), *(f"pale: {name}" for name in pale)):
                    yield f"{width}, {scheme}, {where}: {fault}"
            if (width, scheme) == (WIDTHS[-1], "light"):
                _open(driver, path)
                yield from (f"{width}: no key reaches {name}" for name in out_of_reach(driver))
            yield from (f"{width}, {scheme}: {message}" for message in complaints(driver))


def _open(driver: Chrome, path: Path) -> None:
    open_file(driver, path)
    WebDriverWait(driver, 20, poll_frequency=0.01).until(lambda _: script(driver, READY))


def _states(driver: Chrome) -> Iterator[str]:
    """Yield the name of each state of the page that is shown: of a lesson there is one."""
    if not script(driver, "return document.getElementById('tab-costs') !== null"):
        yield "lesson"
        return
    for turn in ("forward", "backward"):
        for tab in ("costs", "code", "numbers"):
            one(driver, f"#tab-{tab}").click()
            yield f"{turn}, {tab}"
        if not one(driver, "#backward").is_displayed():
            return
        one(driver, "#backward").click()


def main(names: Collection[str]) -> int:
    """Look at all; print what is wrong, and exit 1 if something is."""
    count, wrong = 0, 0
    with TemporaryDirectory() as folder, chromium() as driver:
        path = Path(folder) / "page.html"
        for name, text in pages(names):
            path.write_text(text, encoding="utf-8")
            found = list(looked_at(driver, path))
            count, wrong = count + 1, wrong + len(found)
            sys.stdout.write(f"{name}: {len(text.encode()):,} bytes, {len(found)} faults\n")
            sys.stdout.writelines(f"  {each}\n" for each in found)
            sys.stdout.flush()
    sys.stdout.write(f"{count} pages, {wrong} faults\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
