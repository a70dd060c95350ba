"""The contents of the site, as they appear beside every page."""

from __future__ import annotations

SECTIONS = {
    "Learn": [
        "docs/start",
        "docs/tutorial",
        "docs/split",
        "docs/how-to",
        "docs/cookbook",
        "docs/questions",
        "docs/notation",
        "gallery/index",
        "grammar/README",
    ],
    "Guides": [
        *(
            "docs/explorer",
            "docs/documents",
            "docs/torch",
            "docs/integrations",
            "docs/jax",
            "docs/plans",
            "docs/parallel",
            "docs/dimensions",
            "docs/ranks",
        ),
        *("docs/models", "docs/importing", "docs/comparing", "docs/sentiment"),
        *("docs/generation", "docs/editor"),
    ],
    "Reference": [
        "docs/commands",
        "docs/api",
        "docs/conventions",
        "docs/errors",
        "docs/glossary",
        "docs/seeds",
        "docs/speed",
        "CHANGELOG",
    ],
    "Inside": [
        *("docs/architecture", "docs/ir", "docs/adding-an-operator", "docs/adding-a-pass"),
        *("docs/adding-a-collective", "docs/adding-a-backend", "docs/adding-a-kernel"),
        *("docs/adding-an-error", "docs/adding-a-diagram", "docs/adr/README", "CONTRIBUTING"),
    ],
}

ORPHAN = "---\norphan: true\n---\n\n"  # reached by links: contents of all pages would be long


def contents(pages: dict[str, str]) -> dict[str, str]:
    """The pages with their contents; KeyError: a section names a page that is not there.

    A document that no section names is at the end of the guides.
    """
    named = {name for names in SECTIONS.values() for name in names}
    records = sorted(n.removesuffix(".md") for n in pages if n.startswith("docs/adr/0"))
    others = sorted(
        name.removesuffix(".md")
        for name in pages
        if name.startswith("docs/") and name.removesuffix(".md") not in {*named, *records}
    )
    trees = [
        _tree(title, [*names, *(others if title == "Guides" else [])])
        for title, names in SECTIONS.items()
    ]
    orphans = {f"{name}.md": ORPHAN + pages[f"{name}.md"] for name in records}
    return {**pages, **orphans, "index.md": "\n\n".join([pages["index.md"], *trees, ""])}


def _tree(title: str, names: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return "```{toctree}\n:hidden:\n" + caption + "\n" + "\n".join(names) + "\n```"
