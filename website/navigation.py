"""The contents of the site, as they appear beside every page."""

from __future__ import annotations

import re
from typing import Final

SECTIONS: Final = {
    "Learn": ["docs/start", "docs/tutorial", "docs/split"],
    "Do": ["docs/how-to/README", "gallery/index"],
    "Look up": [
        *("grammar/README", "docs/notation", "docs/commands", "docs/api", "docs/errors"),
        *("docs/plans", "docs/documents", "docs/models", "docs/importing", "docs/editor"),
        *("docs/explorer", "docs/glossary", "CHANGELOG"),
    ],
    "Understand": [
        *("docs/questions", "docs/conventions", "docs/parallel", "docs/dimensions"),
        *("docs/ranks", "docs/speed", "docs/seeds"),
    ],
    "Contribute": [
        *("CONTRIBUTING", "docs/architecture", "docs/ir", "docs/adding-an-operator"),
        *("docs/adding-a-primitive", "docs/adding-a-collective", "docs/adding-a-pass"),
        *("docs/adding-a-backend", "docs/adding-a-kernel", "docs/adding-an-error"),
        *("docs/adding-a-diagram", "docs/adr/README"),
    ],
}

GUIDES: Final = "docs/how-to/README.md"
GUIDE: Final = re.compile(r'href="([a-z-]+)\.html"')
ORPHAN: Final = "---\norphan: true\n---\n\n"  # reached by links: contents of all pages are long


def contents(pages: dict[str, str]) -> dict[str, str]:
    """Return the pages with their contents; KeyError: a section names a page that is not there.

    The task pages are below their index, in its order. A document that no section names is at the
    end of those to look up.
    """
    named = {name for names in SECTIONS.values() for name in names}
    records = sorted(n.removesuffix(".md") for n in pages if n.startswith("docs/adr/0"))
    guides = [name for name in GUIDE.findall(pages[GUIDES]) if f"docs/how-to/{name}.md" in pages]
    below = {f"docs/how-to/{name}" for name in guides}
    others = sorted(
        name.removesuffix(".md")
        for name in pages
        if name.startswith("docs/") and name.removesuffix(".md") not in {*named, *records, *below}
    )
    trees = [
        _tree(title, [*names, *(others if title == "Look up" else [])])
        for title, names in SECTIONS.items()
    ]
    orphans = {f"{name}.md": ORPHAN + pages[f"{name}.md"] for name in records}
    index = "\n\n".join([pages["index.md"], *trees, ""])
    task_index = "\n\n".join([pages[GUIDES], _tree("", list(dict.fromkeys(guides))), ""])
    return {**pages, **orphans, "index.md": index, GUIDES: task_index}


def _tree(title: str, names: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return "```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(names) + "\n```"
