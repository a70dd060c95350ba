"""Sphinx's configuration: one theme, no network, no dates."""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

project = "xg"
project_copyright = "the xg authors"
extensions = ["myst_parser", "xg_pages.sphinx"]
myst_heading_anchors = 4
smartquotes = False
highlight_language = "none"
pygments_style = "a11y-light"  # every color of code has a contrast of 4.5 or more
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = "xg"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_favicon = str(Path(__file__).parents[1] / "editors" / "vscode" / "icon.png")
html_copy_source = False
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_show_search_summary = False  # would be fetched, which a browser refuses of files
html_show_copyright = False
html_show_sphinx = False
exclude_patterns = ["as-it-is"]
suppress_warnings = ["misc.highlighting_failure"]  # examples leave lines out

# The theme has a script and a style in its pages; nothing else comes from outside of this site.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'"
)


def _with_policy(
    app: Sphinx, page: str, template: str, context: dict[str, Any], *_: object
) -> None:
    """Put the policy before everything that a page loads."""
    del app, page, template
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    context["metatags"] = policy + context.get("metatags", "")


class _Contents:
    """The contents beside pages that are not in them, found once for each folder.

    Nothing in them is marked as the page where the reader is, and links begin at its folder.
    """

    def __init__(self) -> None:
        self._found: dict[PurePosixPath, Any] = {}

    def __call__(
        self, app: Sphinx, page: str, template: str, context: dict[str, Any], *_: object
    ) -> None:
        """Let a page that is an orphan have what the first one of its folder has."""
        del template
        if "orphan" in app.env.metadata.get(page, {}):
            folder = PurePosixPath(page).parent
            found = self._found.setdefault(folder, _once(context["toctree"]))
            context["toctree"] = found


def _once(made: Any) -> Any:  # noqa: ANN401 - Sphinx's own function of any options
    return cache(made)


class _English(SearchEnglish):
    """The stems of words, each found once: pages have most words in common."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        if word not in self._stems:
            self._stems[word] = super().stem(word)
        return self._stems[word]


def setup(app: Sphinx) -> None:
    """Let every page forbid what is from elsewhere."""
    app.add_search_language(_English)
    app.connect("html-page-context", _with_policy)
    app.connect("html-page-context", _Contents(), priority=400)  # before the theme's
