"""Figures in the pages of others: sample sites of Sphinx and MkDocs, and what is wrong in them."""

from __future__ import annotations

import base64
import logging
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from markdown import Markdown
from mkdocs.commands.build import build
from mkdocs.config.base import (
    load_config,  # pyright: ignore[reportUnknownVariableType]
)
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

import xg
from xg.figures import render
from xg_pages.markdown_figures import XgFigures

ROOT = Path(__file__).parents[2]
SNIPPET = "dim B, D\nblock F(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n"
CONF = 'extensions = ["xg_pages.sphinx", "myst_parser"]\nexclude_patterns = ["parts"]\n'
GOOD = f"""\
Pages
=====

.. xg:: mlp
   :pass: backward
   :caption: The *backward* pass.
   :name: of-mlp

:ref:`of-mlp`

.. xg::

{"".join(f"   {line}" for line in SNIPPET.splitlines(keepends=True))}
.. xg:: parts/own.xg
   :alt: my own
   :width: 300px

.. toctree::
   other
"""
OTHER = "# Other\n\n```{xg} transformer\n:block: MLP\n:plan: TP\n:set: D=32 act=ReLU\n```\n"
WRONG = {
    ".. xg:: mlp\n   :pas: backward": 'unknown option: "pas"',
    ".. xg:: mlp\n   :pass: bakward": "'bakward' is none of forward, backward, overview",
    ".. xg:: mlp\n   :set: D": "'D' should be NAME=VALUE",
    ".. xg:: mlp\n   :plan: XP": "XP",
    ".. xg:: mlp\n   :legend: yes": "it has no value",
    ".. xg:: nothing.xg": "cannot read nothing.xg",
    ".. xg::": "name a file, or write the diagram",
    ".. xg:: mlp\n\n   dim D": "not both",
    ".. xg::\n\n   dim B\n   block F(X [B]) -> Y [B] {\n       X -> Sofmax : Y\n   }": "Sofmax",
}


def sphinx(folder: Path, builder: str = "html") -> str:
    """Build a site; its warnings."""
    said = StringIO()
    places = (folder / "src", folder / "src", folder / builder, folder / "trees")
    with docutils_namespace():
        Sphinx(*places, builder, status=None, warning=said).build()
    return said.getvalue()


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    (tmp_path / "src" / "parts").mkdir(parents=True)
    for name, text in {"conf.py": CONF, "index.rst": GOOD, "other.md": OTHER}.items():
        (tmp_path / "src" / name).write_text(text, "utf-8")
    (tmp_path / "src" / "parts" / "own.xg").write_text(SNIPPET, "utf-8")
    return tmp_path


def figures(text: str) -> list[str]:
    return re.findall(r'<img alt="([^"]*)" class="xg"', text)


def test_a_site_of_sphinx(pages: Path) -> None:
    assert sphinx(pages) == ""
    index = (pages / "html" / "index.html").read_text("utf-8")
    assert figures(index) == ["backward figure of MLP", "forward figure of F", "my own"]
    assert "<em>backward</em>" in index
    other = (pages / "html" / "other.html").read_text("utf-8")
    assert figures(other) == ["forward figure of MLP under plan TP"]
    drawn = [path.read_bytes() for path in sorted((pages / "html" / "_images").glob("*.svg"))]
    assert len(drawn) == 3  # the snippet and the file are the same diagram
    chosen: dict[str, Any] = {"sizes": {"D": 32}, "options": {"act": "ReLU"}}
    mlp = xg.compile("transformer", block="MLP", plan="TP", **chosen).figure("forward")
    assert render(replace(mlp, has_heading=False), "svg", "auto") in drawn

    before = {path.name for path in (pages / "html" / "_images").iterdir()}
    own = pages / "src" / "parts" / "own.xg"
    own.write_text(SNIPPET.replace("S : Y", "tanh : Y"), "utf-8")
    assert sphinx(pages) == ""  # the page that shows the file is read again
    assert {path.name for path in (pages / "html" / "_images").iterdir()} - before
    assert sphinx(pages, "latex") == ""
    tex = (pages / "latex" / "projectnamenotset.tex").read_text("utf-8")
    assert tex.count("\\sphinxincludegraphics") == 4
    assert len(list((pages / "latex").glob("*.pdf"))) == 4


def test_what_is_wrong_is_said_at_its_line(pages: Path) -> None:
    (pages / "src" / "other.md").unlink()
    text, lines = "Pages\n=====\n\n", {}
    for wrong in WRONG:
        lines[wrong] = text.count("\n") + 1
        text += f"{wrong}\n\n"
    (pages / "src" / "index.rst").write_text(text, "utf-8")
    said = re.split(r"^(?=\S*index\.rst:\d+: )", sphinx(pages), flags=re.MULTILINE)[1:]
    assert len(said) == len(WRONG)
    for (wrong, expected), message in zip(WRONG.items(), said, strict=True):
        assert expected in message
        assert f"index.rst:{lines[wrong]}: ERROR" in message
        assert "Traceback" not in message


MKDOCS = """\
site_name: sample
theme: null
plugins: []
markdown_extensions: [fenced_code, "xg_pages.markdown_figures:XgFigures"]
"""
PAGE = f"""\
# Sample

```xg figure pass=backward theme=light
{SNIPPET}```

```xg
{SNIPPET}```

- in a list

~~~~xg figure file=transformer block=MLP plan=TP set="D=32 act=ReLU"
~~~~

````markdown
```xg figure
inside another block
```
````
"""


class Records(logging.Handler):
    """Everything that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """The records of a test, by a handler of its own: see the options of pytest."""
    records, root = Records(), logging.getLogger()
    root.addHandler(records)
    yield records.found
    root.removeHandler(records)


def test_a_site_of_mkdocs(tmp_path: Path, logged: list[logging.LogRecord]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(PAGE, "utf-8")
    (tmp_path / "theme").mkdir()
    (tmp_path / "theme" / "main.html").write_text("{{ page.content }}")
    config = MKDOCS.replace("theme: null", "theme: {name: null, custom_dir: theme}")
    (tmp_path / "mkdocs.yml").write_text(config)
    build(load_config(str(tmp_path / "mkdocs.yml")))
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    drawn = re.findall(r'<figure class="xg"><img alt="([^"]*)" src="data:[^,]*,([^"]*)">', page)
    assert [words for words, _ in drawn] == [
        "backward figure of F",
        "forward figure of MLP under plan TP",
    ]
    assert all(base64.b64decode(data).startswith(b"<svg ") for _, data in drawn)
    assert "X -&gt; S : Y" in page
    assert "```xg figure\ninside another block\n```" in page
    assert not [one for one in logged if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pas=backward", "'pas' is none of the options pass, block, plan, set"),
        ("pass=bakward", "pass: 'bakward' is none of forward"),
        ("set=D", "set: 'D' should be NAME=VALUE"),
        ("file=mlp", "not both"),
        ("block=G", "G"),
        ('plan="TP', "No closing quotation"),
    ],
)
def test_a_wrong_fence_is_an_error_on_the_page(
    words: str, expected: str, logged: list[logging.LogRecord]
) -> None:
    made = Markdown(extensions=[XgFigures()]).convert(f"```xg figure {words}\n{SNIPPET}```\n")
    assert made.startswith('<pre class="xg-error">')
    (record,) = logged
    assert expected in record.getMessage()
    assert record.name.startswith("mkdocs.")  # which --strict counts


def test_an_open_fence_is_left_to_others() -> None:
    made = Markdown(extensions=[XgFigures()]).convert("```xg figure\n*a*\n")
    assert "<em>a</em>" in made


def _entry_points() -> Iterator[EntryPoint]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for name, value in project["project"]["entry-points"]["markdown.extensions"].items():
        yield EntryPoint(name, value, "markdown.extensions")


def test_the_extension_has_its_short_name() -> None:
    (entry,) = _entry_points()
    assert (entry.name, entry.load()) == ("xg", XgFigures)
