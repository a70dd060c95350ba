"""Declarations of a file that are in vain, seen before any block is looked into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xg.diagnostics.diagnostic import Problem
from xg.passes.resolve.errors import NameTwice, NotYet
from xg.syntax import ast

Declared = ast.OpDef | ast.Block | ast.DimDecl | ast.MeshDecl | ast.OptionDecl | ast.Port | ast.Own


def declared_in_vain(module: ast.Module) -> tuple[Problem, ...]:
    """Names that a file declares twice, and arguments with a shape, which nothing reads."""
    arguments = [own for block in module.blocks for own in block.own if own.shape]
    help = ("a call shares its parameters where its name is called again",)
    shaped = (
        NotYet(own.span, f"the shape of the argument {own.name.name}", help) for own in arguments
    )
    return (*_declared_twice(module), *shaped)


def _declared_twice(module: ast.Module) -> Iterator[NameTwice]:
    """Every second declaration of a file, in each place where only one of them could count."""
    taken = (name for use in module.uses for name in use.names)
    yield from _twice([*taken, *_names([*module.ops, *module.blocks]), *_names(module.options)])
    yield from _twice(_names([*module.dims, *module.options]))  # both are set with --set
    yield from _twice(_names(module.meshes))
    for option in module.options:
        yield from _twice(option.words)
    for block in module.blocks:
        yield from _twice_in(block)


def _twice_in(block: ast.Block) -> Iterator[NameTwice]:
    """Second declarations in a block, beside its values, which are bound one by one."""
    yield from _twice(_names(block.outputs))
    yield from _twice(_names([*block.own, *block.dims]))  # both are given in parentheses
    for own in block.own:
        yield from _twice(own.words)


def _names(declared: Iterable[Declared]) -> list[ast.Name]:
    return [each.name for each in declared]


def _twice(names: Iterable[ast.Name]) -> Iterator[NameTwice]:
    first: dict[str, ast.Name] = {}
    for name in names:
        other = first.setdefault(name.name, name)
        if other is not name:
            yield NameTwice(name.span, name.name, other.span)
