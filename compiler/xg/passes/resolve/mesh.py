"""The mesh of a program: its axes with their sizes, in the order in which they cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from xg.diagnostics.diagnostic import Span
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.expressions import KnownMentions, split_mesh_axes
from xg.passes.resolve.plan_errors import MeshIsDim, MeshOrder, MeshSize, MeshUnused
from xg.syntax import ast
from xg.syntax.ast import only, walk

Pair = tuple[str, str]  # the first axis cuts before the second


def link_mesh(
    modules: Sequence[ast.Module],
    dims: Mapping[str, ast.DimDecl],
    settings: Mapping[str, str | int],
) -> dict[str, int | None]:
    """Every declared axis with its size, None if it has none. `modules` has importers last.

    Axes are in the order of declaration, those of the main file first, unless a shape cuts in
    another order: ``D/(N_G*N_T)`` puts N_G before N_T.
    """
    axes: dict[str, ast.MeshDecl] = {}
    for module in reversed(modules):
        for decl in module.meshes:
            axes.setdefault(decl.name.name, decl)
    for name, decl in axes.items():
        if name in dims:
            raise Refused(MeshIsDim(decl.name.span, name, dims[name].name.span))
    order = _order_axes(tuple(axes), _pairs(modules, axes) if len(axes) > 1 else {})
    return {name: _size(axes[name], settings.get(name)) for name in order}


def unused_axes(
    module: ast.Module, others: Sequence[ast.Module], known: KnownMentions
) -> Iterator[MeshUnused]:
    """The axes that a file declares and that neither it nor the files it uses name again."""
    if not module.meshes:
        return
    parts = (
        part
        for each in (module, *others)
        for part in (*each.blocks, *only(ast.Plan, each.plan_decls))
    )
    named = known.of(*parts).sizes
    for decl in module.meshes:
        if decl.name.name not in named:
            yield MeshUnused(decl.name.span, decl.name.name)


def _size(decl: ast.MeshDecl, given: str | int | None) -> int | None:
    name = decl.name.name
    if given is not None:
        if isinstance(given, int) and given > 0:
            return given
        raise Refused(MeshSize(None, name, str(given)))
    match decl.size:
        case None:
            return None
        case ast.Number(value=int() as value) if value > 0:
            return value
        case size:
            raise Refused(MeshSize(size.span, name, size.span.text))


def _pairs(modules: Sequence[ast.Module], axes: Mapping[str, object]) -> dict[Pair, Span]:
    """Which axis cuts before which, with a place that says so."""
    pairs: dict[Pair, Span] = {}
    for paths in _divisors(modules, axes):
        for outer, inner in pairwise(paths):
            if outer.name == inner.name:
                continue  # reported where the shape is read
            pairs.setdefault((outer.name, inner.name), outer.span)
            turned = pairs.get((inner.name, outer.name))
            if turned is not None:
                raise Refused(MeshOrder(outer.span, outer.name, inner.name, turned))
    return pairs


def _divisors(
    modules: Sequence[ast.Module], axes: Mapping[str, object]
) -> Iterator[tuple[ast.Path, ...]]:
    """The mesh axes that cut one axis of a shape, for each with more than one."""
    shapes = (
        part
        for module in modules
        for tree in (*module.blocks, *only(ast.Plan, module.plan_decls))
        if "/" in tree.span.text  # half of them divide nothing
        for part in walk(tree)
        if isinstance(part, ast.Shape)
    )
    for shape in shapes:
        for dim in shape.dims:
            if isinstance(dim, ast.Arithmetic):
                _, paths = split_mesh_axes(dim, axes)
                if len(paths) > 1:
                    yield paths


def _order_axes(names: Sequence[str], pairs: Mapping[Pair, Span]) -> list[str]:
    """The names in their order, moved only as far as the pairs ask for."""
    order: list[str] = []
    waiting = list(names)
    while waiting:
        ready = (
            name
            for name in waiting
            if not any(outer in waiting for outer, inner in pairs if inner == name)
        )
        chosen = next(ready, None)
        if chosen is None:  # a ring of more than two
            (outer, inner), span = next((p, s) for p, s in pairs.items() if p[1] in waiting)
            other = next(s for (_, last), s in pairs.items() if last == outer)
            raise Refused(MeshOrder(span, outer, inner, other))
        order.append(chosen)
        waiting.remove(chosen)
    return order
