"""Name clashes between the author's names and the module's own, and how they are resolved.

No list reserves names. A module is written with marked names (`xg.codegen.emit.names`); if two
kinds of names have one spelling in one scope, it is written again, and the lesser kind avoids that
spelling.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar, cast

from xg.codegen.emit.mentions import REMEMBERED, by_piece, descendants
from xg.codegen.emit.names import KINDS, Avoided, Kind, avoiding, kind_of, plain, plain_module

Result = TypeVar("Result")
Spellings = dict[str, set[Kind | None]]  # None is a name of the module's own

ROUNDS: Final = 8


class AmbiguousNames(Exception):
    """A module whose names do not come apart: an error of the compiler."""


def write_with_stable_names(write: Callable[[], tuple[str, Result]]) -> tuple[str, Result]:
    """The text of `write`, without marks and without a name that hides another.

    The second result is that of `write`, still marked.
    """
    avoided: Avoided = {}
    for _ in range(ROUNDS):
        with avoiding(avoided):
            text, result = write()
        clashes = _clashes(text)
        if not any(clashes.values()):
            return plain_module(text), result
        avoided = {kind: clashes[kind] | avoided.get(kind, frozenset()) for kind in KINDS}
    raise AmbiguousNames(str(avoided))


def _clashes(text: str) -> dict[Kind, frozenset[str]]:
    """For each kind the spellings that it must avoid: the module's own come first, then sizes."""
    order = (None, *KINDS)
    reserved: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
    pieces = [piece for _, piece in by_piece(text, _scopes)]
    imported = frozenset[str]().union(*(piece.imported for piece in pieces))  # hidden nowhere
    outer: Spellings = {}
    for piece in pieces:
        _free(piece.outer, piece.outer, outer)
    for names in (outer, *(inner for piece in pieces for inner in piece.inner)):
        for name, kinds in names.items():
            present = kinds | {None} if name in imported else kinds
            first = min(map(order.index, present))
            for kind in present - {order[first]}:
                if kind:
                    reserved[kind].add(name)
    return {kind: frozenset(names) for kind, names in reserved.items()}


class _Scopes(NamedTuple):
    """The names of every function and class of a piece, and those that belong to the module.

    These are bound there, or functions read them without binding them. Names of the module's own
    never clash among themselves: where there are no others, they are left out of `inner`.
    """

    inner: tuple[Spellings, ...]
    outer: Spellings
    imported: frozenset[str]


@lru_cache(REMEMBERED)
def _scopes(piece: str) -> _Scopes:
    outer: Spellings = {}
    inner: list[Spellings] = []
    imported: set[str] = set()
    for node in ast.parse(piece).body:
        if isinstance(node, ast.ClassDef):
            _add(outer, node.name)
            _add_all(outer, [*node.bases, *node.decorator_list])
            inner += _class(node, outer)
        elif isinstance(node, ast.FunctionDef):
            _add(outer, node.name)
            inner.append(_function(node, outer))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            imported |= names
            for name in names:
                _add(outer, name)
        else:
            _add_all(outer, [node])
    return _Scopes(() if piece.isascii() else tuple(inner), outer, frozenset(imported))


def _class(node: ast.ClassDef, outer: Spellings) -> Iterator[Spellings]:
    inner: Spellings = {}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            _add(inner, part.name)
            yield _function(part, outer)
        else:
            _add_all(inner, [part])
    _free(inner, inner.keys() - _bound(node.body), outer)
    yield inner


def _bound(body: list[ast.stmt]) -> set[str]:
    """The names that a class binds: its fields and methods."""
    fields = [part.target for part in body if isinstance(part, ast.AnnAssign)]
    methods = {plain(part.name) for part in body if isinstance(part, ast.FunctionDef)}
    return methods | {plain(field.id) for field in fields if isinstance(field, ast.Name)}


def _function(node: ast.FunctionDef, outer: Spellings) -> Spellings:
    inner: Spellings = {}
    bound: set[str] = set()
    for part in descendants(node):
        kind = type(part)
        if kind is ast.Name:
            name = cast(ast.Name, part)
            _add(inner, name.id)
            if type(name.ctx) is ast.Store:
                bound.add(_spelled(name.id)[0])
        elif kind is ast.arg:
            name = cast(ast.arg, part).arg
            _add(inner, name)
            bound.add(_spelled(name)[0])
    _free(inner, inner.keys() - bound, outer)
    return inner


def _free(inner: Mapping[str, set[Kind | None]], names: Iterable[str], outer: Spellings) -> None:
    for name in names:
        outer.setdefault(name, set()).update(inner[name])


def _add_all(names: Spellings, nodes: list[ast.AST] | list[ast.expr]) -> None:
    for node in nodes:
        for part in descendants(node):
            if isinstance(part, ast.Name):
                _add(names, part.id)


def _add(names: Spellings, name: str) -> None:
    spelling, kind = _spelled(name)
    if spelling in names:
        names[spelling].add(kind)
    else:
        names[spelling] = {kind}


@lru_cache(REMEMBERED)
def _spelled(name: str) -> tuple[str, Kind | None]:
    """A name without its mark, and the kind of the mark."""
    return plain(name), kind_of(name)
