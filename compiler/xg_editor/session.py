"""Hold the open texts and the files around them; check each once for each change.

A file being written is wrong most of the time, so all of this works with partial results and never
shows an older type. Errors of a used file are shown at its `use`: two open texts may read it with
different sizes, and each would erase the other's errors.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pygls.uris import to_fs_path

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Label, Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.choices import Checked, CheckMemory, checked, typed_blocks
from xg.frontend.project import (
    KnownFiles,
    Reading,
    UnreadableFile,
    library,
    project_root,
    read,
    read_for_editor,
)
from xg.frontend.typed import TypedBlocks
from xg.syntax.format import format
from xg_editor.complete import Completion
from xg_editor.declared import Called, Kind, ProjectNames
from xg_editor.explain import ShapeHint
from xg_editor.navigation import Occurrences, OutlineSymbol

# Translate positions, formatting and results of the compiler to the protocol.


_LINE_END = re.compile(r"\n|\r")  # `\r\n` is `\n` in a source; a lone `\r` ends a line here only
_UNITS = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


class TextPositions:
    """Offsets of one source as positions, and back."""

    def __init__(self, source: Source, encoding: types.PositionEncodingKind | str) -> None:
        self.text = source.text
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(source.text))]
        kind = types.PositionEncodingKind(encoding)
        self.codec, self.bytes_of_unit = _UNITS[kind]

    def position(self, offset: int) -> types.Position:
        """Where the character at an offset is."""
        line = bisect_right(self.starts, offset) - 1
        units = self._encode(self.text[self.starts[line] : offset])
        return types.Position(line, len(units) // self.bytes_of_unit)

    def offset(self, position: types.Position) -> int:
        """Convert a position to an offset; past the end of a line or the text, it is that end."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[position.line]
        last = position.line + 1 == len(self.starts)
        end = len(self.text) if last else self.starts[position.line + 1] - 1
        units = self._encode(self.text[start:end])[: position.character * self.bytes_of_unit]
        return start + len(units.decode(self.codec, "ignore"))

    def range(self, span: Span) -> types.Range:
        """Where a span begins and ends."""
        return types.Range(self.position(span.start), self.position(span.end))

    def _encode(self, text: str) -> bytes:
        return text.encode(self.codec, "surrogatepass")


# Formatting as an edit: the lines that `xg fmt` would write otherwise.


def layout_edits(
    text: str, source: Source, positions: TextPositions
) -> list[types.TextEdit] | None:
    """One edit from the first line that changes to the last; None for a text with errors.

    Args:
        text: the text as the editor has it, with its line ends.
        source: the same with those of the language.
        positions: of `source`.
    """
    try:
        formatted = format(source)
    except DiagnosticError:
        return None
    if formatted == text:
        return []
    old, new = (each.splitlines(keepends=True) for each in (source.text, formatted))
    if "\r" in text:  # every line end changes
        return [_edit(source, positions, 0, len(source.text), formatted)]
    same = sum(1 for _ in takewhile(_equal, zip(old, new, strict=False)))
    tails = zip(reversed(old[same:]), reversed(new[same:]), strict=False)
    tail = sum(1 for _ in takewhile(_equal, tails))
    start = sum(map(len, old[:same]))
    end = len(source.text) - sum(map(len, old[len(old) - tail :]))
    return [_edit(source, positions, start, end, "".join(new[same : len(new) - tail]))]


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _edit(
    source: Source, positions: TextPositions, start: int, end: int, text: str
) -> types.TextEdit:
    return types.TextEdit(positions.range(Span(source, start, end)), text)


# The compiler's results in the terms of the protocol.


Locate = Callable[[Span], types.Location | None]

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
NOTHING_YET = "XG0220"  # the code of a file that has no block: in an editor each one begins so
_SYMBOL: dict[Kind, types.SymbolKind] = {
    "block": types.SymbolKind.Class,
    "operator": types.SymbolKind.Function,
    "dim": types.SymbolKind.Constant,
    "mesh axis": types.SymbolKind.Constant,
    "option": types.SymbolKind.Enum,
    "plan": types.SymbolKind.Namespace,
    "parameter": types.SymbolKind.Field,
    "state": types.SymbolKind.Field,
}

_COMPLETION: dict[str, types.CompletionItemKind] = {
    "block": types.CompletionItemKind.Class,
    "operator": types.CompletionItemKind.Function,
    "call": types.CompletionItemKind.Function,
    "dim": types.CompletionItemKind.Constant,
    "mesh axis": types.CompletionItemKind.Constant,
    "option": types.CompletionItemKind.Enum,
    "word": types.CompletionItemKind.EnumMember,
    "plan": types.CompletionItemKind.Module,
    "parameter": types.CompletionItemKind.Field,
    "state": types.CompletionItemKind.Field,
    "argument": types.CompletionItemKind.Property,
    "file": types.CompletionItemKind.File,
    "word of the language": types.CompletionItemKind.Keyword,
}


def protocol_diagnostic(
    found: Diagnostic, positions: TextPositions, locate: Locate, *, related: bool
) -> types.Diagnostic:
    """An error at its place; one without a place is at the beginning of the file.

    The text of the place, the notes and the helps follow in the message. Other places are related
    information, or more lines of the message for a client that shows none.
    """
    span = found.span
    places = list(_places(found, locate)) if related else []
    lines = [found.message, *_remarks(found, every=not places)]
    return types.Diagnostic(
        range=positions.range(span) if span else _beginning(),
        message="\n".join(lines),
        severity=_severity(found),
        code=found.code,
        source="xg",
        related_information=places or None,
    )


def _severity(found: Diagnostic) -> types.DiagnosticSeverity:
    if found.code == NOTHING_YET:
        return types.DiagnosticSeverity.Hint  # which is neither underlined nor counted
    return _SEVERITY[found.severity]


def _remarks(found: Diagnostic, *, every: bool) -> Iterator[str]:
    yield from (label.text for label in found.labels if label.text and (every or label.primary))
    yield from (f"note: {note}" for note in found.notes)
    yield from (f"help: {help}" for help in found.help)


def _places(found: Diagnostic, locate: Locate) -> Iterator[types.DiagnosticRelatedInformation]:
    for label in found.labels:
        place = None if label.primary else locate(label.span)
        if place is not None:
            yield types.DiagnosticRelatedInformation(place, label.text or "here")


def _beginning() -> types.Range:
    return types.Range(types.Position(0, 0), types.Position(0, 0))


def actions(found: Diagnostic, uri: str, positions: TextPositions) -> Iterator[types.CodeAction]:
    """The fixes of an error as edits of its text; the first is the one to prefer."""
    for place, fix in enumerate(found.fixes):
        edits = [types.TextEdit(positions.range(span), text) for span, text in fix.edits]
        yield types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            is_preferred=place == 0,
            edit=types.WorkspaceEdit(changes={uri: edits}),
        )


def hint(found: ShapeHint, positions: TextPositions) -> types.InlayHint:
    """A shape between the words of a line."""
    kind = types.InlayHintKind.Type
    place = positions.position(found.offset)
    return types.InlayHint(position=place, label=found.text, kind=kind, padding_left=True)


def completion_item(
    found: Completion, place: int, word: Span, positions: TextPositions, *, snippets: bool
) -> types.CompletionItem:
    """A name to write in place of the word that is being typed; in the order of `place`.

    For a client that knows `snippets`, a word that begins a declaration brings the rest of it.
    """
    fills = snippets and bool(found.snippet)
    markdown = types.MarkupContent(types.MarkupKind.Markdown, found.text) if found.text else None
    return types.CompletionItem(
        label=found.name,
        kind=_COMPLETION.get(found.kind, types.CompletionItemKind.Variable),
        detail=found.detail or None,
        documentation=markdown,
        sort_text=f"{place:04}",
        filter_text=found.found_by or (None if found.name.isalnum() else found.also) or None,
        text_edit=types.TextEdit(positions.range(word), found.snippet if fills else found.name),
        insert_text_format=types.InsertTextFormat.Snippet if fills else None,
    )


def signature_of(called: Called) -> types.SignatureHelp:
    """The arguments of a node; the one that is being written is marked."""
    label = f"{called.name}({', '.join(formal.text for formal in called.formals)})"
    parameters = [types.ParameterInformation(formal.text) for formal in called.formals]
    text = types.MarkupContent(types.MarkupKind.Markdown, called.text)
    shown = types.SignatureInformation(label, text, parameters, called.active)
    return types.SignatureHelp([shown], 0, called.active)


def symbol(found: OutlineSymbol, positions: TextPositions) -> types.DocumentSymbol:
    """An entry of the outline."""
    return types.DocumentSymbol(
        name=found.name,
        kind=_SYMBOL.get(found.kind, types.SymbolKind.Variable),
        range=positions.range(found.whole),
        selection_range=positions.range(found.span),
        detail=found.detail,
        children=[symbol(inner, positions) for inner in found.inside] or None,
    )


# Garbage is collected while no one waits for an answer.
#
# A check makes so many objects that a search among them takes longer than a check after an edit. So
# most pauses are for the objects made since the last pause, and few for all.


REST = 1.0  # seconds without a check until new garbage is collected
CHECKS_OF_NEW = 20  # after which a pause is for all garbage
CHECKS_AT_MOST = 100  # that may follow each other without such a pause
NEW, ALL = 1, 2  # how old the objects are among which garbage is looked for


@dataclass(slots=True)
class IdleCollector:
    """Collects in pauses, in a process whose own collector rests; in others it does nothing.

    `run` has some work done in a thread.
    """

    run: Callable[..., object]
    checks: int = 0  # since all garbage was collected
    timer: asyncio.TimerHandle | None = None

    def checked(self) -> None:
        """Begin to wait for a pause after a check."""
        self.stop()
        self.checks += 1
        if self.checks < CHECKS_AT_MOST:
            age = NEW if self.checks < CHECKS_OF_NEW else ALL
            self.timer = asyncio.get_running_loop().call_later(REST, self._collect, age)
        else:
            self._collect(ALL)

    def stop(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()

    def _collect(self, age: int) -> None:
        if age == ALL:
            self.checks = 0
        if not gc.isenabled():
            self.run(gc.collect, age)


# One open text with everything that the compiler has to say about it.


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
    reading = read_for_editor(path, source, others, known)
    main = reading.project.main.span.source if reading.project else source
    return ReadText(main, path, reading)


def analyze(text: ReadText, memory: CheckMemory | None = None) -> Analysis:
    """Check a text; with a `memory` only what has changed since it was checked last."""
    reading = text.reading
    result = Checked(reading.diagnostics)
    if reading.project is not None and not reading.diagnostics:
        try:
            result = checked(reading.project, memory=memory)
        except DiagnosticError as error:
            result = Checked(error.diagnostics)
    return Analysis(text, tuple(_at_home(result.diagnostics, text.source, reading)))


def type_text(text: ReadText, memory: CheckMemory) -> TypedBlocks:
    """Type the blocks of a text, as far as possible."""
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


# The files around an open one that use it: in the folder of its project, and not hidden.


FILES_AT_MOST = 2_000
_USE = re.compile(r"^[ \t]*use\b[^#\n]*\bfrom\s+(?:\"([^\"\n]*)\"|(\w+))", re.MULTILINE)
_BUILT = {"node_modules", "build", "dist", "__pycache__"}


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The names of files that a file on disk uses, as of its last change."""

    stamp: tuple[int, int]
    uses: frozenset[str]


class Workspace:
    """The files of a project's folder and their uses; each is read again when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, KnownFile] = {}
        self._programs: dict[Path, Occurrences] = {}
        self.parsed = KnownFiles()

    def programs(self, own: Occurrences, texts: Mapping[Path, str]) -> list[Occurrences]:
        """Return a program, and the programs of files around it that share a file with it.

        Args:
            own: the program of an open text.
            texts: the texts that are open, by their paths.
        """
        self.parsed.next_round()
        programs = [own]
        main = own.path(own.names.project.main.span.source)
        if main is None:
            return programs
        uses = self._uses(project_root(main.parent), texts)
        shared = {path for path in own.reading.sources.values() if path}
        done = {main}
        while waiting := [path for path in _users(uses, shared) if path not in done]:
            for path in waiting:
                done.add(path)
                program = self._program(path, texts)
                if program and shared & set(program.reading.sources.values()):
                    programs.append(program)
                    shared.add(path)
        self._programs = {path: each for path, each in self._programs.items() if path in done}
        return programs

    def _program(self, path: Path, texts: Mapping[Path, str]) -> Occurrences | None:
        """Return the program of a file; the same object if none of its files has changed."""
        text = texts.get(path)
        try:
            source = read(path, path.name) if text is None else Source(path.name, text)
        except (UnreadableFile, DiagnosticError):
            return None
        reading = read_for_editor(path, source, texts, self.parsed)
        if reading.project is None:
            return None
        known = self._programs.get(path)
        if known is None or known.reading.sources.keys() != reading.sources.keys():
            known = self._programs[path] = Occurrences(reading, ProjectNames(reading.project))
        return known

    def _uses(self, root: Path, texts: Mapping[Path, str]) -> dict[Path, frozenset[str]]:
        found: dict[Path, frozenset[str]] = {}
        for path, stamp in _files(root):
            known = self._known.get(path)
            if path in texts:
                found[path] = _used(texts[path])
                continue
            if known is None or known.stamp != stamp:
                try:
                    text = read(path, path.name).text
                except (UnreadableFile, DiagnosticError):  # it uses nothing that anybody knows
                    text = ""
                known = self._known[path] = KnownFile(stamp, _used(text))
            found[path] = known.uses
        for gone in self._known.keys() - found.keys():
            del self._known[gone]
        return found


def is_library_file(path: Path) -> bool:
    """Return whether a file belongs to the installed library, which is never edited."""
    folder = library().resolve()
    return path.is_relative_to(folder) and project_root(folder) == folder


def _users(uses: Mapping[Path, frozenset[str]], shared: set[Path]) -> list[Path]:
    stems = {path.stem for path in shared}
    return [path for path, used in uses.items() if used & stems]


def _used(text: str) -> frozenset[str]:
    return frozenset(Path(path).stem if path else name for path, name in _USE.findall(text))


def _files(root: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """The `.xg` files below a folder and when each was changed, hidden folders left out."""
    count = 0
    waiting = [str(root)]
    while waiting and count < FILES_AT_MOST:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _BUILT:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(".xg"):
                status = entry.stat()
                count += 1
                yield Path(entry.path), (status.st_mtime_ns, status.st_size)


PAUSE = 0.15  # seconds after a key until the text is checked; the next key starts them again


@dataclass(frozen=True, slots=True, eq=False)
class OpenDocument:
    """A text as the editor has it; `path` is None for one that was never saved."""

    uri: str
    path: Path | None
    text: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Client:
    """The abilities of the client, and how it counts columns."""

    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    related: bool = False
    snippets: bool = False


Answer = TypeVar("Answer")
Publish = Callable[[types.PublishDiagnosticsParams], None]
Report = Callable[[Exception], None]


class Session:
    """The open texts. One thread checks them; another answers questions, which do not wait for it.

    Each thread has memories of its own, so that neither sees the other's work half done.
    """

    def __init__(self, publish: Publish, report: Report) -> None:
        self.publish = publish
        self.report = report
        self.client = Client()
        self.documents: dict[str, OpenDocument] = {}
        self.workspace = Workspace()
        self._texts: dict[str, asyncio.Task[ReadText]] = {}
        self._typed: dict[str, asyncio.Task[TypedBlocks]] = {}
        self._analyses: dict[str, asyncio.Task[Analysis]] = {}
        self._memories: dict[str, CheckMemory] = {}  # of checks
        self._types: dict[str, CheckMemory] = {}  # of questions
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._worker = ThreadPoolExecutor(1, "xg-checks")
        self._answers = ThreadPoolExecutor(1, "xg-answers")
        self._collector = IdleCollector(self._worker.submit)

    # ---- what the editor does --------------------------------------------------------------------

    def opened(self, uri: str, text: str, version: int | None) -> None:
        """Check a new text at once."""
        self._put(uri, text, version)
        self._check(uri, 0.0)

    def changed(self, uri: str, text: str, version: int | None) -> None:
        """Check a text when its author pauses."""
        if uri in self.documents:
            self._put(uri, text, version)
            self._check(uri, PAUSE)

    def closed(self, uri: str) -> None:
        """Forget a text and its errors."""
        document = self.documents.pop(uri, None)
        self._memories.pop(uri, None)
        self._types.pop(uri, None)
        self._forget(uri)
        if document is not None:
            self.publish(types.PublishDiagnosticsParams(uri, []))
            self._check_readers(uri, document.path)

    def changed_on_disk(self, uris: list[str]) -> None:
        """Check the texts that use these files."""
        for uri in uris:
            self._check_readers(uri, path_of(uri))

    def stop(self) -> None:
        """Let no work begin any more."""
        self._collector.stop()
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._answers.shutdown(wait=False, cancel_futures=True)

    # ---- what is known ---------------------------------------------------------------------------

    async def read(self, uri: str) -> ReadText | None:
        """An open text in its present state, read but not checked; None if it is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if uri not in self._texts:
            others, known = self._other_texts(document), self.workspace.parsed
            self._texts[uri] = asyncio.ensure_future(
                self.answer_in_thread(read_text, document.path, document.text, others, known)
            )
        # shielded, because others wait for it too when one request is canceled
        return await asyncio.shield(self._texts[uri])

    async def analysis(self, uri: str) -> Analysis | None:
        """The analysis of an open text in its present state; None for one that is not open."""
        if uri not in self.documents:
            return None
        if uri not in self._analyses:
            self._analyses[uri] = asyncio.ensure_future(self._run_analysis(uri))
        return await asyncio.shield(self._analyses[uri])

    async def type_blocks(self, uri: str, text: ReadText) -> TypedBlocks:
        """Return the typed blocks of a text as it was read."""
        task = self._texts.get(uri)
        if task is None or not task.done() or task.result() is not text:
            return TypedBlocks()  # it has changed meanwhile, and the editor asks again
        if uri not in self._typed:
            memory = self._types.setdefault(uri, CheckMemory())
            self._typed[uri] = asyncio.ensure_future(self.answer_in_thread(type_text, text, memory))
        return await asyncio.shield(self._typed[uri])

    async def programs(self, text: ReadText) -> list[Occurrences]:
        """The program of a text, and those around it that have a file of it."""
        if text.names is None:
            return []
        return await self.answer_in_thread(self.workspace.programs, text.names, self.texts())

    async def answer_in_thread(self, work: Callable[..., Answer], *arguments: object) -> Answer:
        """Do some work in the thread that answers questions, and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._answers, work, *arguments)

    def texts(self) -> dict[Path, str]:
        """The texts that are open, by their paths."""
        return {each.path: readable(each.text) for each in self.documents.values() if each.path}

    def positions(self, text: ReadText) -> TextPositions:
        """Places in a text as the client counts them."""
        return TextPositions(text.source, self.client.encoding)

    def location(self, uri: str, text: ReadText, span: Span) -> types.Location | None:
        """A place in a text, or in a file that was read for its analysis."""
        if span.source is not text.source:
            path = text.path_of(span.source)
            if path is None:
                return None
            uri = self.uri(path)
        return types.Location(uri, TextPositions(span.source, self.client.encoding).range(span))

    def uri(self, path: Path) -> str:
        """The name by which the editor knows a file, if it has it open."""
        uris = (document.uri for document in self.documents.values() if document.path == path)
        return next(uris, None) or path.as_uri()

    def _other_texts(self, document: OpenDocument) -> dict[Path, str]:
        return {
            other.path: other.text
            for other in self.documents.values()
            if other.path is not None and other is not document
        }

    async def _run_analysis(self, uri: str) -> Analysis:
        text = await self.read(uri)
        assert text is not None
        memory = self._memories.setdefault(uri, CheckMemory())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, analyze, text, memory)

    # ---- changes ---------------------------------------------------------------------------------

    def _put(self, uri: str, text: str, version: int | None) -> None:
        self._forget(uri)
        self.documents[uri] = OpenDocument(uri, path_of(uri), text, version)
        self._check_readers(uri, self.documents[uri].path)

    def _check_readers(self, uri: str, path: Path | None) -> None:
        """Check the other texts for which this file was read, or might have been."""
        for other in list(self.documents):
            if other != uri and path is not None and self._concerns(other, path):
                self._check(other, PAUSE)

    def _concerns(self, uri: str, path: Path) -> bool:
        """Whether what is known of a text may be of a file; a question may have read it."""
        task = self._texts.get(uri)
        if task is None:
            return False  # it will be read with the file as it is
        if not task.done() or task.exception():
            return True
        text = task.result()
        return text.read(path) or bool(text.reading.diagnostics)

    def _forget(self, uri: str) -> None:
        for known in (self._texts, self._typed, self._analyses):
            known.pop(uri, None)
        check = self._checks.pop(uri, None)
        if check is not None:
            check.cancel()

    def _check(self, uri: str, pause: float) -> None:
        self._forget(uri)
        self._checks[uri] = asyncio.ensure_future(self._publish_errors(uri, pause))

    async def _publish_errors(self, uri: str, pause: float) -> None:
        """Publish the errors of a text, unless it changes meanwhile: that cancels this."""
        self._collector.stop()
        await asyncio.sleep(pause)
        document = self.documents[uri]
        try:
            analysis = await self.analysis(uri)
        except Exception as bug:  # ours, and no reason to stop
            self.report(bug)
            return
        if analysis is None:
            return
        positions = self.positions(analysis.text)

        def locate(span: Span) -> types.Location | None:
            return self.location(uri, analysis.text, span)

        related = self.client.related
        told = [
            protocol_diagnostic(each, positions, locate, related=related)
            for each in analysis.diagnostics
        ]
        self.publish(types.PublishDiagnosticsParams(uri, told, document.version))
        self._collector.checked()


def path_of(uri: str) -> Path | None:
    """The path of a document, if it is a file."""
    file_path = to_fs_path(uri)
    return Path(file_path).resolve() if file_path else None
