"""Pages of every shipped plan, of every block that no other calls: `python -m explorer.sweep`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pages.explorer.pages import DIAGRAMS, page, program
from pages.explorer.test_ranks import (
    test_costs_of_a_rank_are_those_of_xg_cost,
    test_what_is_sent_is_what_xg_cost_says,
)

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import read_project
from xg.frontend.typed import root_blocks
from xg_pages.explorer import SIZE_AT_MOST


def planned() -> Iterator[tuple[str, str, str]]:
    """A diagram, a plan of it and a block that this reaches."""
    for path in sorted(DIAGRAMS.rglob("*.xg")):
        name = path.stem
        project = read_project(path)
        for plan in plans_of(project):
            for block in root_blocks(project.main):
                try:
                    program(name, plan, block)
                except DiagnosticError:  # it is of other blocks
                    continue
                yield name, plan, block


def main() -> int:
    """Check them all; print the size of each, and exit 1 if one is too large."""
    large: list[str] = []
    for name, plan, block in planned():
        test_costs_of_a_rank_are_those_of_xg_cost(name, plan, block)
        test_what_is_sent_is_what_xg_cost_says(name, plan, block)
        size = len(page(name, plan, block).encode())
        sys.stdout.write(f"{name}, {block}, plan {plan}: {size:,} bytes\n")
        if size > SIZE_AT_MOST:
            large.append(f"{name}, {block}, plan {plan}")
        page.cache_clear()
        program.cache_clear()
    sys.stdout.writelines(f"too large: {each}\n" for each in large)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
