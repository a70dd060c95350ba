"""Pages to look into: of the gallery, and of files that want to break out of them."""

from functools import cache
from pathlib import Path

from library import shipped

from xg.frontend.examples import documents
from xg.frontend.project import Project, parse_project, read_project
from xg_pages.explain.html import compose
from xg_pages.explain.numbers import of_block, of_example
from xg_pages.explain.page import ExplainedPage

DIAGRAMS = Path(__file__).parents[3] / "diagrams"

HOSTILE_TITLE = "</title><script>alert(1)</script> # *x* `y` ![z](http://x.y/z)"
HOSTILE = f"""\
dim B, D
block F "{HOSTILE_TITLE}" (X [B, D]) -> Y [B, D] {{
    X -> ReLU : Y # ``` </pre><img src=x onerror=alert(1)>
}}
example "{HOSTILE_TITLE}" of F {{
    given X = [[1, -1]]
    expect Y = [[1, -1]] "{HOSTILE_TITLE}" wrong "<b>{HOSTILE_TITLE}"
}}
"""


def of_project(project: Project, *, seed: int | None = None) -> ExplainedPage:
    """The page of the first example, or of the last block with drawn numbers."""
    if seed is None:
        return compose(of_example(next(documents(project))))
    bound = of_block(project, None, {}, seed)
    assert bound is not None
    return compose(bound)


@cache
def page(name: str, seed: int | None = None) -> ExplainedPage:
    """The page of a diagram of the gallery."""
    return of_project(read_project(shipped(name)), seed=seed)


def hostile() -> ExplainedPage:
    """The page of the file that wants to break out."""
    return of_project(parse_project(HOSTILE.encode()))
