"""Errors and warnings, and the places in a source that they are about, as data and as text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from string import Formatter
from typing import Any, ClassVar, Final, Literal, Self, TypedDict, dataclass_transform

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.terminal import fold, printable, width

# Source text and places in it: what every message points at.


@dataclass(frozen=True, eq=False)
class Source:
    """One file: the name people see and its text, with `\n` as its only line end.

    Two sources are the same only if they are the same object.
    """

    name: str
    text: str = field(repr=False)

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> Source:
        """Decode a file; never fails.

        A byte that is not UTF-8 becomes a lone surrogate, which `parse` reports at its place, as it
        does every other character that has no business in a program.
        """
        return cls(name, data.decode("utf-8", "surrogateescape").replace("\r\n", "\n"))

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        starts = [0]
        end = self.text.find("\n")
        while end >= 0:
            starts.append(end + 1)
            end = self.text.find("\n", end + 1)
        return tuple(starts)

    def line(self, offset: int) -> int:
        """Line number of an offset, counted from 1."""
        return bisect_right(self.line_starts, offset)

    def column(self, offset: int) -> int:
        """Column of an offset in its line, in characters, counted from 1."""
        return offset - self.line_starts[self.line(offset) - 1] + 1

    def line_text(self, line: int) -> str:
        """Text of a line (counted from 1) without its line end."""
        starts = self.line_starts
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end]


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (excluded) of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of the span, as written."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return self.source.line(self.start)

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.source.column(self.start)


SHOWN_AT_MOST = 20
MISTAKES_AT_MOST = 100  # that a stage looks for: so many are reported as `at least` so many
QUOTED_CHARACTERS = 40  # of a longer piece of source the rest is left out of messages
SOURCE_COLUMNS = 120  # of a longer line only the part around the span is shown
LABEL_COLUMNS = 40  # of a label's text below its span, at least, on a narrow terminal

Severity = Literal["error", "warning"]
Style = Literal["error", "warning", "gutter", "bold"]
_COLORS: dict[Style, str] = {"error": "1;31", "warning": "1;33", "gutter": "34", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Label:
    """A place and a text for it; the primary one is where the error is."""

    span: Span
    text: str = ""
    primary: bool = True


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of the text that fixes an error: the text to write in place of some spans.

    One that declares names has the word and the names in `declares`: its place is far from that of
    the error, and another one when the text between has changed.
    """

    title: str
    edits: tuple[tuple[Span, str], ...]
    declares: tuple[str, ...] | None = None

    @classmethod
    def replace(cls, span: Span, text: str) -> Fix:
        """Write something else in one place."""
        return cls(f"replace {quoted(span.text)} by {quoted(text)}", ((span, text),))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: a stable code, one line that names the problem, places, remarks and fixes.

    `fixes` are what `help` suggests as changes of the text, where these are known exactly.
    """

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    severity: Severity = "error"
    fixes: tuple[Fix, ...] = ()

    @property
    def span(self) -> Span | None:
        """The place of the error; None if it is in no file (a command line's `--set`)."""
        places = [label.span for label in self.labels if label.primary]
        return places[0] if places else None

    @property
    def file(self) -> str | None:
        """Display name of the file."""
        return self.span.source.name if self.span else None

    @property
    def line(self) -> int | None:
        """Line, counted from 1."""
        return self.span.line if self.span else None

    @property
    def column(self) -> int | None:
        """Column of the first character, counted from 1."""
        return self.span.column if self.span else None


class _Fields(Mapping[str, object]):
    """The fields and properties of an object, by name."""

    def __init__(self, owner: object) -> None:
        self._owner = owner

    def __getitem__(self, name: str) -> object:
        return getattr(self._owner, name)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self._owner))

    def __len__(self) -> int:
        return len(vars(self._owner))


class _Templates(Formatter):
    """Templates with two more conversions: ``!q`` quotes source, ``!j`` joins with commas."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:  # noqa: ANN401 - as typed there
        match conversion:
            case "q":
                return quoted(str(value))
            case "j":
                return ", ".join(map(str, value))
            case _:
                return super().convert_field(value, conversion)


_TEMPLATES: Final = _Templates()


@dataclass_transform(frozen_default=True)
class Problem:
    """A kind of error: its texts are templates, its instances hold the fields that fill them.

    Every kind is a dataclass. It becomes one when there is an error of the kind: commands import
    more than a hundred kinds.

    `label` is the text at the field `place`, `also` are the secondary labels: a field and a text;
    a span that is None has no label. A kind may have a field `help` of lines to suggest, or of one
    line, empty where there is none.

    In a template ``{name}`` is a field or a property, ``{span.text!q}`` is quoted as source,
    ``{names!j}`` joined with commas. Texts that need more are computed: `helps`, or `diagnostic`.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    label: ClassVar[str] = ""
    also: ClassVar[tuple[tuple[str, str], ...]] = ()
    notes: ClassVar[str | tuple[str, ...]] = ()
    fix: ClassVar[str | tuple[str, ...]] = ()
    place: ClassVar[str] = "span"
    severity: ClassVar[Severity] = "error"

    def __new__(cls, *_: object, **__: object) -> Self:
        """An error whose fields are not set yet."""
        for kind in reversed(cls.__mro__):
            if issubclass(kind, Problem) and "__dataclass_fields__" not in vars(kind):
                dataclass(eq=False, repr=False)(kind)
        return super().__new__(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def diagnostic(self) -> Diagnostic:
        """The error as it is reported to people."""
        span: Span | None = getattr(self, self.place, None)
        labels = [Label(span, self._fill(self.label))] if span else []
        for name, text in self.also:
            if other := getattr(self, name):
                labels.append(Label(other, self._fill(text), primary=False))
        title, notes = self._fill(self.title), self._fill_lines(self.notes)
        return self.report(title, *labels, notes=notes, help=self.helps())

    def helps(self) -> tuple[str, ...]:
        """The fixes to suggest."""
        help: str | tuple[str, ...] = getattr(self, "help", ())
        lines = (help,) if isinstance(help, str) else help
        return (*self._fill_lines(self.fix), *filter(None, lines))

    def fixes(self) -> tuple[Fix, ...]:
        """The changes of the text that fix it, each as a help suggests it."""
        return ()

    def _fill_lines(self, templates: str | tuple[str, ...]) -> tuple[str, ...]:
        lines = (templates,) if isinstance(templates, str) else templates
        return tuple(map(self._fill, lines))

    def _fill(self, template: str) -> str:
        return _TEMPLATES.vformat(template, (), _Fields(self))

    def report(
        self,
        message: str,
        *labels: Label,
        notes: tuple[str, ...] = (),
        help: tuple[str, ...] = (),
    ) -> Diagnostic:
        """An error of this kind; for use in `diagnostic`."""
        return Diagnostic(self.code, message, labels, notes, help, self.severity, self.fixes())


class ProblemAt(Problem):
    """A kind of error at one place of a text."""

    span: Span


class DiagnosticError(Exception):
    """The input has errors: all that were found; prints as the command line prints them."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    @classmethod
    def of(cls, *problems: Problem) -> DiagnosticError:
        """The error that reports these problems."""
        return cls(problem.diagnostic() for problem in problems)

    def __str__(self) -> str:
        return render(self.diagnostics, color=False)


class DiagnosticData(TypedDict):
    """The JSON form of one diagnostic; a place is null if the error is in no file."""

    code: str
    severity: str
    file: str | None
    line: int | None
    column: int | None
    end_column: int | None
    message: str
    help: list[str]


def quoted(text: str) -> str:
    """A piece of source as a message quotes it."""
    return f"`{text}`" if len(text) <= QUOTED_CHARACTERS else f"`{text[:QUOTED_CHARACTERS]}…`"


def as_data(diagnostic: Diagnostic) -> DiagnosticData:
    """Return the diagnostic as `--json` prints it; `end_column` is just after the span."""
    span = diagnostic.span
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "end_column": span.column + _length_on_line(span) if span else None,
        "message": diagnostic.message,
        "help": list(diagnostic.help),
    }


def render(diagnostics: Iterable[Diagnostic], color: bool, columns: int | None = None) -> str:
    """Render at most `SHOWN_AT_MOST` diagnostics for a number of columns; None is any number.

    >>> from xg.diagnostics.diagnostic import Source, Span
    >>> place = Label(Span(Source("mlp.xg", "X -> LN\\n"), 5, 7), "its result has no name")
    >>> print(render([Diagnostic("XG0199", "a chain without a name", (place,))], color=False))
    error[XG0199]: a chain without a name
     ┌─ mlp.xg:1:6
    1│ X -> LN
     │      ^^ its result has no name
    """
    every = list(diagnostics)
    parts = ["\n".join(_lines(diagnostic, color, columns)) for diagnostic in every[:SHOWN_AT_MOST]]
    if len(every) > SHOWN_AT_MOST:
        least = "at least " if len(every) >= MISTAKES_AT_MOST else ""
        parts.append(f"and {least}{len(every) - SHOWN_AT_MOST} more")
    return "\n\n".join(parts)


def _lines(diagnostic: Diagnostic, color: bool, columns: int | None) -> Iterator[str]:
    severity = f"{diagnostic.severity}[{diagnostic.code}]:"
    first, *rest = fold(f"{severity} {printable(diagnostic.message)}", columns, len(severity) + 1)
    message = _paint(first.removeprefix(severity).lstrip(), "bold", color)
    yield f"{_paint(severity, diagnostic.severity, color)} {message}"
    yield from (_paint(part, "bold", color) for part in rest)
    margin = max([len(str(label.span.line)) for label in diagnostic.labels], default=2)
    yield from _places(diagnostic, margin, color, columns)
    for word, remarks in (("note", diagnostic.notes), ("help", diagnostic.help)):
        for remark in remarks:
            yield from _remark(word, remark, margin, color, columns)


def _places(diagnostic: Diagnostic, margin: int, color: bool, columns: int | None) -> Iterator[str]:
    """The source lines of the labels, each with its spans underlined; a file's name comes first."""
    gutter = _paint(" " * margin + "│", "gutter", color)
    corner = _paint(" " * margin + "┌─", "gutter", color)
    room = columns and columns - margin - 2
    shown: tuple[Source, int] | None = None
    for label in diagnostic.labels:
        source, line = label.span.source, label.span.line
        if shown is None or shown[0] is not source:
            yield f"{corner} {printable(source.name)}:{line}:{label.span.column}"
        elif shown[1] != line:
            yield gutter
        text, before, marked = _window(label.span, room)
        if shown != (source, line):
            yield f"{_paint(f'{line:{margin}}│', 'gutter', color)} {text}".rstrip()
        shown = (source, line)
        mark = ("^" if label.primary else "-") * max(1, marked)
        style: Style = diagnostic.severity if label.primary else "gutter"
        for space, part in _underline(before, mark, printable(label.text), room):
            yield f"{gutter} {space}{_paint(part, style, color)}"


def _underline(before: int, mark: str, text: str, room: int | None) -> Iterator[tuple[str, str]]:
    """Yield spaces, and a mark with its text: after the mark if there is room, else below."""
    line = f"{mark} {text}".rstrip()
    if room is None or before + width(line) <= room:
        yield " " * before, line
        return
    yield " " * before, mark
    left = max(0, min(before, room - min(width(text), LABEL_COLUMNS)))
    yield from ((" " * left, part) for part in fold(text, room - left, 0))


def _window(span: Span, room: int | None) -> tuple[str, int, int]:
    """The printed source line, the columns before the span and the columns of the span."""
    text = span.source.line_text(span.line)
    start = span.column - 1
    end = start + _length_on_line(span)
    first, last, more = 0, len(text), ""
    most = SOURCE_COLUMNS if room is None else min(SOURCE_COLUMNS, max(room - 2, 1))
    if last > most + 2 * (room is not None):
        first = max(0, start - most // 2)
        last = min(last, first + most)
        more = "…"
    ahead = more * (first > 0) + printable(text[first:start])
    marked = printable(text[start : min(end, last)])
    behind = printable(text[min(end, last) : last]) + more * (last < len(text))
    return ahead + marked + behind, width(ahead), width(marked)


def _length_on_line(span: Span) -> int:
    """The number of characters of the span on its first line."""
    line_end = span.start - (span.column - 1) + len(span.source.line_text(span.line))
    return max(0, min(span.end, line_end) - span.start)


def _remark(word: str, remark: str, margin: int, color: bool, columns: int | None) -> Iterator[str]:
    sign = _paint("=", "gutter", color)
    hang = margin + len(word) + 4
    room = columns and columns - hang
    first, *rest = [part for line in remark.split("\n") for part in fold(printable(line), room)]
    yield f"{'':{margin}}{sign} {_paint(f'{word}:', 'bold', color)} {first}"
    yield from (f"{'':{hang}}{line}" for line in rest)


def _paint(text: str, style: Style, color: bool) -> str:
    return f"\x1b[{_COLORS[style]}m{text}\x1b[0m" if color else text
