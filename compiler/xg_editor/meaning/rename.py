"""A name replaced by another one, everywhere and so that every text means what it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Source, Span
from xg.frontend.project import KnownFiles, Place, read_edited
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.spelling import ascii_name
from xg.syntax.tokens import tokenize
from xg_editor.meaning.declared import ProjectNames
from xg_editor.meaning.navigation import Key, Occurrence, Occurrences

Edits = dict[Place, list[Span]]
_FIXED = ("word", "file", "axis")  # words are chosen by `--set` too; axes of a map are as they are


class CannotRename(Exception):
    """The reason why a name stays as it is, for the author."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The places of a name in every file; the new name replaces each."""

    new: str
    edits: Mapping[Place, Sequence[Span]] = field(default_factory=dict["Place", "list[Span]"])

    def applied(self, place: Place, text: str) -> str:
        """The text of a file with the new name."""
        for span in sorted(self.edits.get(place, ()), key=_start, reverse=True):
            text = text[: span.start] + self.new + text[span.end :]
        return text


def places(programs: Iterable[Occurrences], key: Key) -> Edits:
    """Where a declaration is named, in all files of some programs: each place once."""
    found: Edits = {}
    for program in programs:
        for each in program.referring(key):
            place = program.path(each.name.span.source)
            spans = found.setdefault(place, [])
            if each.span.start not in map(_start, spans):
                spans.append(each.span)
    return {place: sorted(spans, key=_start) for place, spans in found.items()}


def renameable(found: Occurrence | None) -> Occurrence:
    """The name at a place, if it can be renamed; raises CannotRename."""
    if found is None or found.declaration is None or found.key is None:
        raise CannotRename("there is no name that a file declares")
    declaration = found.declaration
    if declaration.span is None:
        raise CannotRename(f"{found.name.span.text} is an operator of the language")
    if declaration.kind in _FIXED:
        raise CannotRename(f"{found.name.span.text} is a word that callers choose")
    return found


def rename(
    found: Occurrence, programs: Sequence[Occurrences], new: str, known: KnownFiles
) -> Renaming:
    """The edits that give a declaration a new name; raises CannotRename.

    Args:
        found: a place of the name.
        programs: every program that has a file with the name, each with what it uses.
        new: the name to be, as the author types it.
        known: the files that were read for the programs.
    """
    found = renameable(found)
    assert found.key is not None
    assert found.declaration is not None
    _check_name(new)
    if ascii_name(new) != found.declaration.name:
        _check_free(found, programs, ascii_name(new))
    renaming = Renaming(new, places(programs, found.key))
    concerned = frozenset((*_with_gradient(found.declaration.name), *_with_gradient(new)))
    for program in programs:
        _check_meaning(program, renaming, known, concerned)
    return renaming


def _with_gradient(name: str) -> tuple[str, str]:
    return ascii_name(name), f"d{ascii_name(name)}"


def _check_name(new: str) -> None:
    tokens = tokenize(Source("name", new))
    kinds = [token.type for token in tokens.tokens]
    if tokens.problems or kinds != ["NAME", "$END"] or str(tokens.tokens[0]) != new:
        word = (
            f"{new!r} is a word of the language" if new.isalpha() and kinds[1:] == ["$END"] else ""
        )
        raise CannotRename(word or f"{new!r} is no name: letters, digits and _, a letter first")


# ---- taken names ---------------------------------------------------------------------------------


def _check_free(found: Occurrence, programs: Sequence[Occurrences], new: str) -> None:
    """Refuse a name that is already used where the declaration could be seen."""
    assert found.declaration is not None
    declaration = found.declaration
    if declaration.kind in ("operator", "block", "call", "option") and ops.find(new):
        raise CannotRename(f"{new} is an operator of the language")
    owner = declaration.owner
    for program in programs:
        taken = [name for name in _visible(program, owner) if _is_taken(new, name, owner)]
        if taken:
            raise CannotRename(f"{new} is taken: {_said(program, taken)}")


def _is_taken(new: str, name: ast.Name, owner: object) -> bool:
    """Whether a name is a new one, or in a block its gradient's or the one that it is of."""
    if owner is None:
        return new == name.name
    return new in (name.name, f"d{name.name}", name.name.removeprefix("d"))


def _said(program: Occurrences, taken: Sequence[ast.Name]) -> str:
    """Where a name that is taken is declared, as far as that is known; else where it is."""
    names = {id(name) for name in taken}
    declared = [
        each.declaration.span
        for module in program.names.project.modules
        for each in program.of_file(module)
        if id(each.name) in names and each.declaration and each.declaration.span
    ]
    span = min(declared or (name.span for name in taken), key=_start)
    verb = "is declared" if declared else "stands"
    return f"{span.text} {verb} in {span.source.name}, line {span.line}"


def _visible(program: Occurrences, owner: object) -> Iterator[ast.Name]:
    """The names beside which a declaration would stand.

    Of a block: its own, those of the file, and those by which others reach into it. Of a file: all.
    """
    for module in program.names.project.modules:
        if owner is None:
            yield from (each.name for each in program.of_file(module))
            continue
        outside = (
            *(decl.name for decl in (*module.dims, *module.meshes, *module.options)),
            *(decl.name for decl in (*module.ops, *module.blocks)),
        )
        yield from outside
        for tree in (*module.plan_decls, *module.examples):
            yield from (part for part in walk(tree) if isinstance(part, ast.Name))
        for block in (*module.blocks, *module.ops):
            for tree in walk(block):
                if isinstance(tree, ast.Argument) and tree.name is not None:
                    yield tree.name
                elif isinstance(tree, ast.Name) and _is_of(owner, block):
                    yield tree


def _is_of(owner: object, block: ast.Block | ast.OpDef) -> bool:
    return (
        isinstance(owner, ast.Block | ast.OpDef)
        and owner.name.name == block.name.name
        and owner.span.text == block.span.text
    )


# ---- meaning -------------------------------------------------------------------------------------


def _check_meaning(
    program: Occurrences, renaming: Renaming, known: KnownFiles, concerned: frozenset[str]
) -> None:
    """Refuse edits after which one of the names that they concern refers to something else."""
    main = program.names.project.main.span.source
    texts = {
        place: renaming.applied(place, source.text)
        for source, place in program.reading.sources.items()
        if isinstance(place, Path)
    }
    place = program.path(main)
    text = renaming.applied(place, main.text)
    reading = read_edited(place, Source(main.name, text), texts, known)
    before = len(program.reading.diagnostics)
    if reading.project is None or len(reading.diagnostics) > before:
        raise CannotRename(f"{main.name} could not be read with the new name")
    after = Occurrences(reading, ProjectNames(reading.project))
    there: dict[Key | None, Key | None] = {}
    back: dict[Key | None, Key | None] = {}
    for old, now in zip(program.called(concerned), after.called(concerned), strict=True):
        if there.setdefault(old.key, now.key) != now.key or back.setdefault(now.key, old.key) != (
            old.key
        ):
            line = old.name.span.line
            raise CannotRename(f"{old.name.span.text} in line {line} would mean something else")


def _start(span: Span) -> int:
    return span.start
