"""Pages: a page as data in, one self-contained HTML document out."""

from __future__ import annotations

from xg.pages.html.document import document
from xg.pages.html.page import Page


def write(page: Page) -> str:
    """Write a page; it needs nothing but itself, and no network."""
    return document(page)
