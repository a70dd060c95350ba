"""A page for each diagram, and the page that shows them all."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from website.diagrams import Block, Built
from website.opening import opening_link
from website.plans import PlanCode, PlanFigures
from xg.driver import BACKENDS

HEAD = """\
# Gallery

Every shipped diagram: its text, its figures, what it costs, its code, and a page to
explore it. All of it is made when this site is built.
"""

SHELVES = {  # folders of the library, and what is in them
    "notation/": "The notation, part by part",
    "models/": "Models of the literature",
    "examples/": "Programs to try and to train",
}


def pages(built: list[Built]) -> dict[str, str]:
    """The Markdown of each page, by its path."""
    made = {f"gallery/{one.name}.md": page(one) for one in built}
    return {"gallery/index.md": _index(built), **made}


def files(built: list[Built]) -> dict[str, bytes]:
    """The files that the pages show or link to, by their paths in the site."""
    made: dict[str, bytes] = {}
    for one in built:
        for name, content in one.light.items():
            kind = "explorer" if name.endswith(".html") else "gallery/files"
            made[f"{kind}/{name}"] = content
        for name, content in one.dark.items():
            made[f"gallery/files/{name.removesuffix('.svg')}.dark.svg"] = content
        for planned in one.drawn:
            if planned.page:
                made[f"explorer/{planned.stem}.html"] = planned.page
            for view, content in planned.light.items():
                made[f"gallery/files/{planned.stem}.{view}.svg"] = content
                made[f"gallery/files/{planned.stem}.{view}.dark.svg"] = planned.dark[view]
    return made


def page(built: Built) -> str:
    """All that is there of one diagram, its figure first."""
    first = built.blocks[0]
    parts = [
        f"# {built.name}",
        _comment(built.text),
        _figure(first.stem, _first_view(first), first.title),
        f"```xg\n{built.text.rstrip()}\n```",
        opening_link(built.name, built.text, "../playground/index.html").strip(),
        f"```console\n$ ./xg build diagrams/{built.path} --all\n```",
    ]
    for block in built.blocks:
        parts += _of_block(built, block)
    return "\n\n".join(part for part in parts if part) + "\n"


def _comment(text: str) -> str:
    """The comment in the first lines of a file."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].strip())
    return escape(" ".join(lines), quote=False).replace("*", "\\*").replace("_", "\\_")


def _of_block(built: Built, block: Block) -> Iterator[str]:
    named = "" if block.title == block.name else f": {block.title}"
    yield f"## {block.name}{named}"
    for view in block.views:
        if (block, view) == (built.blocks[0], _first_view(block)):
            continue  # it begins the page
        shown = _figure(block.stem, view, block.title)
        label = f"{view} figure"
        yield shown if view == "forward" else _folded(label, shown)
    if block.whole:
        yield from _of_whole(built, block)


def _first_view(block: Block) -> str:
    """The view that shows a block best: an overview opens its calls."""
    return "overview" if "overview" in block.views else "forward"


def _figure(stem: str, view: str, title: str) -> str:
    name = f"files/{stem}.{view}"
    said = f"{view} figure of {escape(title)}"
    images = "".join(
        f'<a class="only-{theme}" href="{name}{end}.svg">'
        f'<img src="{name}{end}.svg" alt="{said}" loading="lazy"></a>'
        for theme, end in (("light", ""), ("dark", ".dark"))
    )
    return f'<div class="figure-of" id="{stem}-{view}">{images}</div>'


def _of_whole(built: Built, block: Block) -> Iterator[str]:
    yield from _explorer(block)
    yield _folded("what it costs", f"```text\n{block.cost.rstrip()}\n```")
    modules = {f"{block.stem}_{backend}.py": backend for backend in BACKENDS}
    for file in [file for file in modules if file in built.light]:
        code = built.light[file].decode()
        link = f'<a href="files/{file}">{file}</a>'
        text = f"{link}\n\n```python\n{code.rstrip()}\n```"
        yield _folded(f"{modules[file]} code, {len(code.splitlines())} lines", text)
    plans = [one for one in built.plans if one.block == block.name]
    if plans:
        yield from _plans(block, plans, [one for one in built.drawn if one.block == block.name])


def _explorer(block: Block) -> Iterator[str]:
    page = f"../explorer/{block.stem}.html"
    link = f'<a href="{page}"><strong>Explore {escape(block.name)}</strong></a>'
    yield f"<p>{link}: point at it, move its sizes, step through real numbers.</p>"
    frame = f'<iframe class="explorer" src="{page}" loading="lazy" title="explorer"></iframe>'
    yield _folded("the explorer, here", frame, "wide")


def _plans(block: Block, plans: list[PlanCode], drawn: list[PlanFigures]) -> Iterator[str]:
    yield f"### Plans of {block.name}"
    pages = [
        f'<a href="../explorer/{one.stem}.html"><strong>{escape(one.plan)}</strong></a>'
        for one in drawn
        if one.page
    ]
    if pages:
        said = "move the mesh, step from rank to rank"
        yield f"<p>Explore one rank of {', '.join(pages)}: {said}.</p>"
    for view in dict.fromkeys(view for one in drawn for view in one.light):
        figures = [(one.plan, one.stem) for one in drawn if view in one.light]
        shown = "\n\n".join(
            f"<div><p><strong>{escape(plan)}</strong></p>{_figure(stem, view, plan)}</div>"
            for plan, stem in figures
        )
        yield _folded(f"{view} figures, plan by plan", f'<div class="side-by-side">{shown}</div>')
    yield f"```text\n{block.compared.rstrip()}\n```"
    columns = "\n\n".join(_column(one) for one in plans)
    beside = f'<div class="side-by-side">\n\n{columns}\n\n</div>'
    yield _folded("plans side by side: what is other than on one device", beside)


def _column(one: PlanCode) -> str:
    code = "\n\n\n".join(one.functions.values())
    title = one.plan or "one device"
    return f"<div><p><strong>{escape(title)}</strong></p>\n\n```python\n{code}\n```\n\n</div>"


def _folded(label: str, text: str, kind: str = "") -> str:
    return (
        f'<details class="{kind}">' + f"<summary>{escape(label)}</summary>\n\n{text}\n\n</details>"
    )


def _index(built: list[Built]) -> str:
    """Cards by folder of the library; the contents name every page once."""
    sections = "\n\n".join(
        _shelf(title, [one for one in built if one.path.startswith(folder)])
        for folder, title in SHELVES.items()
    )
    names = "\n".join(one.name for one in built)
    tree = f"```{{toctree}}\n:hidden:\n\n{names}\n```"
    return f"{HEAD}\n{sections}\n\n{tree}\n"


def _shelf(title: str, built: list[Built]) -> str:
    cards = "\n".join(map(_card, built))
    return f'## {title}\n\n<div class="cards">\n{cards}\n</div>' if built else ""


def _card(one: Built) -> str:
    first = one.blocks[0]
    view = _first_view(first)
    images = "".join(
        f'<img class="only-{theme}" src="files/{first.stem}.{view}{end}.svg" alt="" loading="lazy">'
        for theme, end in (("light", ""), ("dark", ".dark"))
    )
    blocks = ", ".join(block.name for block in one.blocks)
    return f'<a href="{one.name}.html"><strong>{one.name}</strong><span>{blocks}</span>{images}</a>'
