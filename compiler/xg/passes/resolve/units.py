"""Files and what they see of each other: the blocks, operators, dims and options of a program."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from xg import ops
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.tensor import LargeDefinition, Sizes
from xg.passes.resolve.define import define
from xg.passes.resolve.errors import CircularSizes, NotInFile, Refused, UnknownOption, UnknownWord
from xg.passes.resolve.expressions import Reader
from xg.passes.resolve.mentions import dims_mentioned
from xg.syntax import ast

Load = Callable[[ast.Use], ast.Module]  # the file that a `use` names, parsed; each file once


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One file: its blocks, operators and options by name, with what it takes from other files."""

    module: ast.Module
    blocks: Mapping[str, Located]
    ops: Mapping[str, Op]

    def operator(self, name: str) -> Op | None:
        """An operator of the file, or of the language."""
        return self.ops.get(name) or ops.find(name)


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """A block and the file whose names it sees."""

    block: ast.Block
    unit: Unit


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """An option of the program: its words, the chosen one, and the file whose names they are."""

    words: tuple[str, ...]
    chosen: str
    unit: Unit


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """The whole program before any block is looked into."""

    unit: Unit
    sizes: Sizes
    decls: Mapping[str, ast.DimDecl]
    mesh: Mapping[str, int | None]
    options: Mapping[str, Choice]
    units: tuple[Unit, ...]

    @property
    def dims(self) -> frozenset[str]:
        """The program's dims."""
        return frozenset(self.decls)

    def reader(self) -> Reader:
        """Reads expressions over the program's dims."""
        return Reader(self.dims, frozenset(self.mesh), {})

    def sizes_of(self, block: ast.Block) -> Sizes:
        """The sizes that a block knows: the program's, with the dims that are its own."""
        if not block.dims:
            return self.sizes
        decls = {decl.name.name: decl for decl in block.dims}
        reader = Reader(self.dims | decls.keys(), frozenset(self.mesh), {})
        own = {name: reader.dim(decl.size) if decl.size else None for name, decl in decls.items()}
        definitions = {name: dim for name, dim in own.items() if dim and dim.constant is None}
        outer = {n: dim for n, dim in self.sizes.definitions.items() if n not in own}
        every = {**self.decls, **decls}
        refuse_cycles({**outer, **definitions}, every)
        with _placed(every):
            return self.sizes.with_local(own)

    def mentioned(self, located: Located) -> tuple[str, ...]:
        """The dims that a block mentions in some choice, also by the sizes that need them."""
        sizes = self.sizes_of(located.block)
        dims = self.dims | sizes.local
        waiting = [name for name in dims_mentioned(located.block) if name in dims]
        mentioned: dict[str, None] = {}
        while waiting:
            name = waiting.pop(0)
            if name not in mentioned:
                mentioned[name] = None
                waiting += sizes.definitions[name].symbols() if name in sizes.definitions else ()
        return tuple(mentioned)


def link(module: ast.Module, load: Load, settings: Mapping[str, str | int]) -> Linked:
    """The program that starts at `module`, with options and dims set from outside."""
    units = _units(module, load)
    sizes: dict[str, ast.DimDecl] = {}
    options: dict[str, Choice] = {}
    for unit in units:  # importers come after their imports, and win
        sizes.update({decl.name.name: decl for decl in unit.module.dims})
        for option in unit.module.options:
            words = tuple(word.name for word in option.words)
            options[option.name.name] = Choice(words, words[0], unit)
    mesh = _mesh([unit.module for unit in units], sizes, settings)
    rest = {name: value for name, value in settings.items() if name not in mesh}
    numbers, chosen = _settings(rest, frozenset(sizes), options, tuple(mesh))
    reader = Reader(frozenset(sizes), frozenset(mesh), {})
    known = _sizes(sizes, reader, numbers)
    return Linked(units[-1], known, sizes, mesh, chosen, tuple(units))


def _mesh(
    modules: Sequence[ast.Module],
    dims: Mapping[str, ast.DimDecl],
    settings: Mapping[str, str | int],
) -> Mapping[str, int | None]:
    """The axes of the mesh, if any file declares one."""
    if not any(module.meshes for module in modules):
        return {}
    from xg.passes.resolve.mesh import link_mesh  # few files have plans

    return link_mesh(modules, dims, settings)


def _units(module: ast.Module, load: Load) -> list[Unit]:
    """Every file once, imported ones first; a cycle is refused by `load`."""
    done: dict[int, Unit] = {}
    order: list[Unit] = []
    stack: list[tuple[ast.Module, bool]] = [(module, False)]
    while stack:
        current, ready = stack.pop()
        if id(current) in done:
            continue
        imported = [(use, load(use)) for use in current.uses]
        if not ready:
            stack.append((current, True))
            stack.extend((other, False) for _, other in imported)
            continue
        unit = _unit(current, [(use, done[id(other)]) for use, other in imported])
        done[id(current)] = unit
        order.append(unit)
    return order


def _unit(module: ast.Module, imported: list[tuple[ast.Use, Unit]]) -> Unit:
    blocks: dict[str, Located] = {}
    operators: dict[str, Op] = {}
    for use, other in imported:
        for name in use.names:
            if name.name in other.blocks:
                blocks[name.name] = other.blocks[name.name]
            elif name.name in other.ops:
                operators[name.name] = other.ops[name.name]
            else:
                known = (*other.blocks, *other.ops)
                raise Refused(NotInFile(name.span, name.name, use.origin.span.text, known))
    wrong: list[Diagnostic] = []
    for definition in module.ops:
        try:
            operators[definition.name.name] = define(definition)
        except DiagnosticError as error:
            wrong += error.diagnostics
    if wrong:
        raise DiagnosticError(wrong)
    unit = Unit(module, blocks, operators)
    blocks.update({block.name.name: Located(block, unit) for block in module.blocks})
    return unit


def _settings(
    settings: Mapping[str, str | int],
    dims: frozenset[str],
    options: Mapping[str, Choice],
    mesh: Sequence[str],
) -> tuple[dict[str, int], dict[str, Choice]]:
    numbers: dict[str, int] = {}
    chosen = dict(options)
    for name, value in settings.items():
        choice = options.get(name)
        if choice is not None:
            if str(value) not in choice.words:
                raise Refused(UnknownWord(None, name, str(value), choice.words))
            chosen[name] = replace(choice, chosen=str(value))
        elif name in dims and isinstance(value, int):
            numbers[name] = value
        elif name in dims:
            raise Refused(UnknownWord(None, name, str(value), ("a whole number",)))
        else:
            raise Refused(UnknownOption(None, name, (*options, *sorted(dims), *mesh)))
    return numbers, chosen


def _sizes(decls: Mapping[str, ast.DimDecl], reader: Reader, numbers: Mapping[str, int]) -> Sizes:
    definitions: dict[str, Dim] = {}
    defaults: dict[str, int] = {}
    for name, decl in decls.items():
        if name in numbers:
            defaults[name] = numbers[name]
        elif decl.size is not None:
            dim = reader.dim(decl.size)
            constant = dim.constant
            if constant is None:
                definitions[name] = dim
            else:
                defaults[name] = constant
    refuse_cycles(definitions, decls)
    with _placed(decls):
        return Sizes(definitions, defaults)


@contextmanager
def _placed(decls: Mapping[str, ast.DimDecl]) -> Generator[None]:
    """Report a definition that is too large at its declaration."""
    try:
        yield
    except LargeDefinition as large:
        raise Refused(large.limit.at(decls[large.name].span)) from None


def refuse_cycles(definitions: Mapping[str, Dim], decls: Mapping[str, ast.DimDecl]) -> None:
    """Raise if a size depends on itself."""
    settled: set[str] = set()
    for name in definitions:
        trail = {name: None}
        pending: list[Iterator[str]] = [iter(definitions[name].symbols())]
        while pending:
            other = next(pending[-1], None)
            if other is None:
                pending.pop()
                settled.add(trail.popitem()[0])
            elif other in trail:
                names = list(trail)
                ring = names[names.index(other) :]
                raise Refused(CircularSizes(tuple((name, decls[name].span) for name in ring)))
            elif other in definitions and other not in settled:
                trail[other] = None
                pending.append(iter(definitions[other].symbols()))
