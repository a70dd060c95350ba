"""Every name of a project with what it refers to, for references, renaming and highlights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source, Span
from xg.frontend.project import Place, Reading
from xg.syntax import ast
from xg_editor.meaning.declared import Declaration, Kind, ProjectNames, call_name
from xg_editor.meaning.find import find
from xg_editor.meaning.trail import Trail, trails

# A declaration, the same in every program that has its file: what kind of name it is, and the name
# where all files of a program share it, else its place.
Key = tuple[str, str] | tuple[Path | str, int]

_SHARED: Mapping[Kind, str] = {
    "dim": "size",
    "mesh axis": "size",
    "option": "option",
    "plan": "plan",
}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a file; `skip` characters before the name itself, as the `d` of a gradient."""

    name: ast.Name
    declaration: Declaration | None
    key: Key | None
    trail: Trail
    skip: int = 0

    @property
    def span(self) -> Span:
        """The place of the name itself."""
        whole = self.name.span
        return Span(whole.source, whole.start + self.skip, whole.end)


class Occurrences:
    """The names of all files of a program, each file looked through when it is asked for."""

    def __init__(self, reading: Reading, names: ProjectNames) -> None:
        self.reading = reading
        self.names = names
        self._by_file: dict[Source, tuple[Occurrence, ...]] = {}

    def of_file(self, module: ast.Module) -> tuple[Occurrence, ...]:
        """The names of one file, in no order."""
        source = module.span.source
        if source not in self._by_file:
            self._by_file[source] = tuple(self._found(module))
        return self._by_file[source]

    def every(self) -> Iterator[Occurrence]:
        """The names of all files."""
        for module in self.names.project.modules:
            yield from self.of_file(module)

    def at(self, module: ast.Module, offset: int) -> Occurrence | None:
        """The name at an offset, or just before it."""
        touching = [
            each
            for each in self.of_file(module)
            if each.name.span.start <= offset <= each.name.span.end
        ]
        return max(touching, key=lambda each: each.name.span.start, default=None)

    def referring(self, key: Key) -> Iterator[Occurrence]:
        """The names that refer to one declaration, itself included."""
        return (each for each in self.every() if each.key == key)

    def path(self, source: Source) -> Place:
        """The path of a file."""
        return self.reading.sources.get(source)

    def called(self, names: Set[str]) -> Iterator[Occurrence]:
        """The names of all files that are one of a few."""
        for module in self.names.project.modules:
            yield from self._found(module, names)

    def _found(self, module: ast.Module, only: Set[str] = frozenset()) -> Iterator[Occurrence]:
        for trail in trails(module):
            name = trail[0]
            if isinstance(name, ast.Name) and (not only or name.name in only):
                declaration = self._meant(find(self.names, trail))
                key = self._key(declaration) if declaration else None
                yield Occurrence(name, declaration, key, trail, _skipped(name, declaration, trail))

    def _meant(self, declaration: Declaration | None) -> Declaration | None:
        """The declaration of a call's name: one without its own name has that of its block."""
        if declaration is None or declaration.kind != "call":
            return declaration
        node = declaration.tree
        assert isinstance(node, ast.NodeUse | ast.Call)
        module = self.names.module_of(node)
        if call_name(node) is not node.operator or module is None:
            return declaration
        return find(self.names, (node.operator, node, *_around(declaration), module))

    def _key(self, declaration: Declaration) -> Key:
        if declaration.op is not None:
            return "operator", declaration.name
        if declaration.owner is None and declaration.kind in _SHARED:
            return _SHARED[declaration.kind], declaration.name
        span = declaration.span
        assert span is not None
        return self.path(span.source) or span.source.name, span.start


def _around(call: Declaration) -> Sequence[ast.Block]:
    return (call.owner,) if isinstance(call.owner, ast.Block) else ()


def _skipped(name: ast.Name, declaration: Declaration | None, trail: Trail) -> int:
    """How much of a name is not the declared one: `dW` in an example is the gradient of `W`."""
    given = len(trail) > 2 and isinstance(trail[2], ast.Placement | ast.Given | ast.Expect)
    return int(given and declaration is not None and name.name == f"d{declaration.name}")
