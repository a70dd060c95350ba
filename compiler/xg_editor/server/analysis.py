"""One open text with everything that the compiler has to say about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Label
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source
from xg.frontend.choices import Checked, CheckMemory, checked, typed_blocks
from xg.frontend.project import KnownFiles, Reading, read_edited
from xg.frontend.typed import TypedBlocks
from xg_editor.meaning.declared import ProjectNames
from xg_editor.meaning.occurrences import Occurrences


@dataclass(frozen=True, eq=False)
class ReadText:
    """A text of an editor and the files it was read with; what a name means is known from this.

    `path` is None for a text that was never saved.
    """

    source: Source
    path: Path | None
    reading: Reading

    @cached_property
    def names(self) -> Occurrences | None:
        """Every name of the program; None if nothing of the text can be read."""
        project = self.reading.project
        return Occurrences(self.reading, ProjectNames(project)) if project else None

    def read(self, path: Path) -> bool:
        """Whether the file at a path was read for this."""
        return path in self.reading.sources.values()

    def path_of(self, source: Source) -> Path | None:
        """The path of the file of a place."""
        return self.reading.sources.get(source)


@dataclass(frozen=True, eq=False)
class Analysis:
    """A text with all that is wrong with it.

    `diagnostics` all have a place in the text itself: an error in a used file is placed where the
    text uses it.
    """

    text: ReadText
    diagnostics: tuple[Diagnostic, ...]


def source_of(path: Path | None, text: str) -> Source:
    """A text of an editor as a source."""
    return Source(path.name if path else "untitled", readable(text))


def readable(text: str) -> str:
    """A text with the line ends of the language, and without halves of characters.

    Half a pair of UTF-16 is one unit wide, and so is its replacement: no column changes.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\r\n", "\n")


def read_text(
    path: Path | None, text: str, texts: Mapping[Path, str], known: KnownFiles | None = None
) -> ReadText:
    """Read a text as if it were saved; `texts` are the others that are open, by their paths."""
    source = source_of(path, text)
    others = {where: readable(other) for where, other in texts.items()}
    reading = read_edited(path, source, others, known)
    main = reading.project.main.span.source if reading.project else source
    return ReadText(main, path, reading)


def analyse(text: ReadText, memory: CheckMemory | None = None) -> Analysis:
    """Check a text; with a `memory` only what has changed since it was checked last."""
    reading = text.reading
    result = Checked(reading.diagnostics)
    if reading.project is not None and not reading.diagnostics:
        try:
            result = checked(reading.project, memory=memory)
        except DiagnosticError as error:
            result = Checked(error.diagnostics)
    return Analysis(text, tuple(_at_home(result.diagnostics, text.source, reading)))


def typed(text: ReadText, memory: CheckMemory) -> TypedBlocks:
    """The blocks of a text, as far as they could be typed."""
    project = text.reading.whole
    return typed_blocks(project, memory) if project else TypedBlocks()


def _at_home(
    diagnostics: tuple[Diagnostic, ...], source: Source, reading: Reading
) -> Iterator[Diagnostic]:
    """The diagnostics with their primary place in the text itself."""
    for diagnostic in diagnostics:
        span = diagnostic.span
        if span is None or span.source is source:
            yield diagnostic
            continue
        use = reading.reached.get(span.source)
        here = (Label(use.origin.span),) if use else ()  # none for a file too long to be read
        elsewhere = tuple(replace(label, primary=False) for label in diagnostic.labels)
        message = f"{span.source.name}, line {span.line}: {diagnostic.message}"
        yield replace(diagnostic, message=message, labels=(*here, *elsewhere), fixes=())
