"""From the repository to a folder of pages.

Pages are staged copies, because a document has one text, which must also read well in a checkout
and on a code host. Sphinx, MyST and Furo fetch nothing from elsewhere and are kept up; Material for
MkDocs loads fonts from a network.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from sphinx.application import Sphinx

from website import gallery, sources
from website.diagrams import Built, build_all
from website.documents import documents, staged
from website.links import problems
from website.navigation import ORPHAN, contents
from website.playground.build import playground_files
from xg.frontend.project import LIBRARY_FOLDERS

DIAGRAMS = "diagrams"
FIGURES = "tests/figures/gallery"


def build_site(
    root: Path, out: Path, only: Sequence[str] | None = None, processes: int = 1
) -> list[str]:
    """Build the site into a folder; what is wrong with it.

    `only`: the diagrams that get a page; links to others are then not looked at.
    """
    paths = [file.relative_to(root / DIAGRAMS).as_posix() for file in diagrams(root)]
    chosen = [path for path in paths if only is None or Path(path).stem in only]
    built = build_all(root, chosen, processes)
    work = out.with_name(f"{out.name}-source")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    pages, files = assembled(root, built)
    for name, text in pages.items():
        _write(work / name, text.encode())
    for name, content in files.items():
        _write(work / "as-it-is" / name, content)
        if name.startswith("docs/"):  # pictures that Sphinx sees, and copies by itself
            _write(work / name, content)
    warnings = _sphinx(work, out, processes)
    wrong = [*warnings, *problems(out)]
    missing = {Path(path).stem for path in paths} - {one.name for one in built}
    return [line for line in wrong if not any(f"gallery/{name}.html" in line for name in missing)]


def diagrams(root: Path) -> list[Path]:
    """Every diagram: the notation, models, examples."""
    folder = root / DIAGRAMS
    return [file for name in LIBRARY_FOLDERS for file in sorted((folder / name).glob("*.xg"))]


def assembled(root: Path, built: list[Built]) -> tuple[dict[str, str], dict[str, bytes]]:
    """All pages as Markdown, and all files that are copied as they are."""
    names = documents(root)
    figures = _figures(built)
    made = gallery.pages(built)
    files = {**gallery.files(built), **playground_files()}
    linked: set[str] = set()
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        page = staged(name, text, frozenset(names), figures)
        made[page.path] = page.text
        linked |= page.linked
        files.update((shown, (root / shown).read_bytes()) for shown in page.pictures)
        files.update(page.drawn)
    made |= {f"source/{path}.md": ORPHAN + sources.page(root, path) for path in sorted(linked)}
    return contents(made), files


def _figures(built: list[Built]) -> Mapping[str, str]:
    """Where the figure of each committed .dot is shown."""
    return {
        f"{FIGURES}/{stem}.{view}.dot": f"gallery/{one.name}#{stem}-{view}"
        for one in built
        for stem, views in (
            *((block.stem, block.views) for block in one.blocks),
            *((planned.stem, planned.light) for planned in one.drawn),
        )
        for view in views
    }


def _sphinx(work: Path, out: Path, processes: int) -> list[str]:
    """Run Sphinx; its warnings."""
    said = StringIO()
    app = Sphinx(
        srcdir=work,
        confdir=Path(__file__).parent,
        outdir=out,
        doctreedir=out.with_name(f"{out.name}-trees"),
        buildername="html",
        confoverrides={"html_extra_path": [str(work / "as-it-is")]},
        status=None,
        warning=said,
        freshenv=True,
        parallel=processes,
    )
    app.build()
    return said.getvalue().splitlines()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
