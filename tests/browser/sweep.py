"""The playground's bytes, of every diagram with every plan: `python -m browser.sweep [FILE...]`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from browser.chromium import chromium
from browser.playground import DIAGRAMS, compare, served, written
from selenium.webdriver.support.ui import WebDriverWait

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import read_project

SECONDS = 600  # for one answer


def plans(file: Path) -> list[str]:
    """None, and every plan of a file that is about blocks of it."""
    try:
        return ["", *plans_of(read_project(file))]
    except DiagnosticError:
        return [""]


def main(names: list[str]) -> int:
    """Compare, count, and exit 1 where something differs."""
    files = [Path(name) for name in names] or sorted(DIAGRAMS.rglob("*.xg"))
    counted: Counter[str] = Counter()
    differ: list[str] = []
    with TemporaryDirectory() as folder, chromium() as driver:
        site = written(Path(folder) / "site")
        with served(site) as address:
            driver.set_script_timeout(SECONDS)
            driver.get(address)
            ready = "return document.body.dataset.ready"
            WebDriverWait(driver, SECONDS).until(lambda _: driver.execute_script(ready))  # pyright: ignore[reportUnknownMemberType]
            for file in files:
                same, others = compare(driver, file, plans(file), Path(folder) / file.stem)
                counted.update(Path(name).suffix for name in same)
                differ += (f"{file.name}: {name}" for name in others)
                sys.stdout.write(f"{file.name}: {len(same)} equal, {len(others)} differ\n")
                sys.stdout.flush()
    sys.stdout.write(", ".join(f"{number} {kind}" for kind, number in sorted(counted.items())))
    sys.stdout.writelines(f"\ndiffers: {each}" for each in differ)
    sys.stdout.write("\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
