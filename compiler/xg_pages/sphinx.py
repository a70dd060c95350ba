"""Figures in Sphinx pages: `extensions = ["xg_pages.sphinx"]`, then the directive `xg`.

```
.. xg:: models/mlp.xg
   :pass: backward
   :plan: TP
   :set: D=32
```

draws a file, found from the page or by its shipped name; without one the directive's content is
the diagram. HTML gets an SVG and LaTeX a PDF, from the same figure.

Figures are image nodes and not SVG elements: two figures on a page would share ids and styles, and
LaTeX would have nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from xg import __version__
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import Project
from xg_grammar.pygments_lexer import XgLexer
from xg_pages.embedded import OPTIONS, Embedded, project_at, project_of
from xg_runtime.files import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FORMATS: Final = ("svg", "pdf")


def _read(option: Callable[[str], object]) -> Callable[[str | None], object]:
    return lambda text: option((text or "").strip())


class XgDirective(SphinxDirective):
    """A figure of a diagram, with `:caption:`, `:alt:`, `:width:` and `:class:` like figures."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {
        **{name: _read(option) for name, option in OPTIONS.items()},
        "caption": directives.unchanged_required,
        "alt": directives.unchanged_required,
        "width": directives.length_or_percentage_or_unitless,
        "class": directives.class_option,
        "name": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """The figure; an error of the diagram is one of the page, at the directive."""
        if bool(self.arguments) == bool(self.content):
            raise self.error("xg: name a file, or write the diagram below the directive; not both")
        try:
            project = self._project()
            asked = Embedded.of(project, self._figure_options())
            place = self._drawn(asked)
        except DiagnosticError as error:
            raise self.error(f"xg: {error}") from None
        picture = nodes.image(uri=place, alt=self.options.get("alt", asked.words))
        picture["classes"] += ["xg", *self.options.get("class", [])]
        if "width" in self.options:
            picture["width"] = self.options["width"]
        self.set_source_info(picture)
        return [self._add_caption(picture)]

    def _project(self) -> Project:
        if not self.arguments:
            source, line = self.get_source_info()
            return project_of("\n".join(self.content) + "\n", f"{Path(source).name}:{line}")
        beside = Path(self.env.relfn2path(self.arguments[0])[1])
        project = project_at(str(beside) if beside.exists() else self.arguments[0])
        for path in project.files:
            self.env.note_dependency(str(path))
        return project

    def _figure_options(self) -> Mapping[str, object]:
        return {name: value for name, value in self.options.items() if name in OPTIONS}

    def _drawn(self, asked: Embedded) -> str:
        """Where the figure is, seen from the page, with `*` for the formats that builders choose.

        Its name is that of its content, so that pages read in parallel do not disturb each other.
        """
        said = [__version__, *(module.span.source.text for module in asked.project.modules)]
        said += [f"{name}={value}" for name, value in sorted(self._figure_options().items())]
        name = sha256("\0".join(said).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        folder = Path(self.env.doctreedir) / "xg"
        if not all((folder / f"{name}.{each}").exists() for each in FORMATS):
            for each, data in asked.draw(*FORMATS).items():
                write(folder / f"{name}.{each}", data)
        place = os.path.relpath(folder / f"{name}.*", self.env.srcdir)
        return "/" + Path(place).as_posix()

    def _add_caption(self, picture: nodes.image) -> nodes.Node:
        if "caption" not in self.options:
            self.add_name(picture)
            return picture
        words, messages = self.parse_inline(self.options["caption"], lineno=self.lineno)
        figure = nodes.figure("", picture, nodes.caption("", "", *words), *messages)
        self.add_name(figure)
        return figure


def setup(app: Sphinx) -> dict[str, object]:
    """Make `xg` a directive and a language of code blocks."""
    app.add_directive("xg", XgDirective)
    app.add_lexer("xg", XgLexer)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
