"""Figures in Markdown: the extension `xg` of Python-Markdown, which MkDocs reads pages with.

A fence whose first line is ``` ```xg figure pass=backward plan=TP ``` is replaced by the figure of
the diagram inside it, or of `file=models/mlp.xg`; ``` ```xg ``` alone stays a block of code.
"""

from __future__ import annotations

import logging
import re
import shlex
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from typing import Final

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

from xg.diagnostics.diagnostic import DiagnosticError
from xg_pages.embedded import OPTIONS, Embedded, project_at, project_of

FENCE: Final = re.compile(r"^ {0,3}(?P<sign>`{3,}|~{3,})[ ]*(?P<words>[^`]*)$")
AHEAD: Final = 28  # of the fences of others, and behind the tidying of lines
log = logging.getLogger("mkdocs.xg")  # `mkdocs build --strict` fails at its warnings


class XgFigures(Extension):
    """Replaces fences of figures before the fences of code are read."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name is that of Markdown
        """Add the step."""
        md.preprocessors.register(_Figures(md), "xg_figures", AHEAD)


class _Figures(Preprocessor):
    """Lines of a page, with figures where fences ask for them."""

    def run(self, lines: list[str]) -> list[str]:
        """Fences of other languages, and those inside them, stay as they are."""
        kept: list[str] = []
        start, sign, words = 0, "", ""
        for place, line in enumerate(lines):
            found = FENCE.match(line)
            if not sign:
                kept.append(line)
                if found:
                    start, sign, words = place, found["sign"], found["words"].strip()
                continue
            ends = found is not None and not found["words"] and found["sign"].startswith(sign)
            if ends and words.split()[:2] == ["xg", "figure"]:
                content = "\n".join(lines[start + 1 : place])
                kept[-1:] = ["", self.md.htmlStash.store(figure(words, content)), ""]
                sign = ""
            elif ends:
                kept += lines[start + 1 : place + 1]
                sign = ""
        return kept if not sign else [*kept, *lines[start + 1 :]]


def figure(words: str, content: str) -> str:
    """The HTML of a fence: its figure, or the error where there is one."""
    try:
        options = _options(words)
        file = options.pop("file", None)
        if bool(file) == bool(content.strip()):
            raise ValueError("name a file, or write the diagram inside the fence; not both")
        project = project_at(str(file)) if file else project_of(content + "\n", "<fence>")
        asked = Embedded.of(project, options)
        data = b64encode(asked.draw("svg")["svg"]).decode()
    except (DiagnosticError, ValueError) as error:
        log.warning("```%s: %s", words, error)
        return f'<pre class="xg-error">{escape(str(error))}</pre>'
    image = f'<img alt="{escape(asked.words)}" src="data:image/svg+xml;base64,{data}">'
    return f'<figure class="xg">{image}</figure>'


def _options(words: str) -> dict[str, object]:
    """Read the options after `xg figure`; a ValueError names the wrong one."""
    read: dict[str, object] = {}
    known: Mapping[str, object] = {**OPTIONS, "file": None}
    for word in shlex.split(words)[2:]:
        name, _, value = word.partition("=")
        if name not in known:
            raise ValueError(f"{name!r} is none of the options {', '.join(known)}")
        if name == "file":
            read[name] = value
            continue
        try:
            read[name] = OPTIONS[name](value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return read
