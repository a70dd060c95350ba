"""Files and what they see of each other: the blocks, operators, dims and options of a program."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from xg import ops
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import Recent
from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.tensor import LargeDefinition, NoQuotient, Sizes
from xg.ir.walk import callees_first
from xg.passes.resolve.define import (
    NO_CALLEES,
    OpFormula,
    called_ops,
    define_formula,
    refuse_hidden_ops,
)
from xg.passes.resolve.define.errors import OpCallsItself
from xg.passes.resolve.errors import (
    NameTwice,
    NotInFile,
    NotYet,
    Refused,
    UnknownOption,
    UnknownWord,
)
from xg.passes.resolve.expressions import (
    ExpressionReader,
    KnownMentions,
    size_names,
    split_mesh_axes,
)
from xg.passes.resolve.plan_errors import MeshIsDim, MeshOrder, MeshSize, MeshUnused
from xg.passes.resolve.size_errors import BadSize, CircularSizes
from xg.syntax import ast
from xg.syntax.ast import only, walk

# Declarations of a file that are in vain, seen before any block is looked into.


Declared = ast.OpDef | ast.Block | ast.DimDecl | ast.MeshDecl | ast.OptionDecl | ast.Port | ast.Own


def declared_in_vain(module: ast.Module) -> tuple[Problem, ...]:
    """Names that a file declares twice, and arguments with a shape, which nothing reads."""
    arguments = [own for block in module.blocks for own in block.own if own.shape]
    help = ("to share parameters, call the same name again",)
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


Load = Callable[[ast.Use], ast.Module]  # the file that a `use` names, parsed; each file once
Setting = tuple[str, str | int]
Defined = Recent[int, tuple[Op, OpFormula]]  # operators by the `id` of their definitions


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One file: its blocks, operators and options by name, with what it takes from other files.

    `number` is its own among the files of the program.
    """

    number: int
    module: ast.Module
    blocks: Mapping[str, LocatedBlock]
    ops: Mapping[str, Op]
    formulas: Mapping[str, OpFormula] = field(default_factory=dict[str, OpFormula])

    def operator(self, name: str) -> Op | None:
        """An operator of the file, or of the language."""
        return self.ops.get(name) or ops.find(name)


@dataclass(frozen=True, slots=True, eq=False)
class LocatedBlock:
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

    def reader(self) -> ExpressionReader:
        """Reads expressions over the program's dims."""
        return ExpressionReader(self.dims, frozenset(self.mesh), {})

    def sizes_of(self, block: ast.Block) -> Sizes:
        """The sizes that a block knows: the program's, with the dims that are its own."""
        if not block.dims:
            return self.sizes
        decls = {decl.name.name: decl for decl in block.dims}
        reader = ExpressionReader(self.dims | decls.keys(), frozenset(self.mesh), {})
        own = {name: reader.dim(decl.size) if decl.size else None for name, decl in decls.items()}
        definitions = {name: dim for name, dim in own.items() if dim and dim.constant is None}
        outer = {n: dim for n, dim in self.sizes.definitions.items() if n not in own}
        every = {**self.decls, **decls}
        refuse_cycles({**outer, **definitions}, every)
        with _report_at_declaration(every):
            return self.sizes.with_local(own)

    def mentioned_dims(self, located: LocatedBlock) -> tuple[str, ...]:
        """The dims that a block mentions in some choice, also by the sizes that need them."""
        sizes = self.sizes_of(located.block)
        dims = self.dims | sizes.local
        waiting = [name for name in size_names(located.block) if name in dims]
        mentioned: dict[str, None] = {}
        while waiting:
            name = waiting.pop(0)
            if name not in mentioned:
                mentioned[name] = None
                waiting += sizes.definitions[name].symbols() if name in sizes.definitions else ()
        return tuple(mentioned)


@dataclass(slots=True)
class Linker:
    """The files of a program, linked in many choices of options: what these leave is done once."""

    module: ast.Module
    load: Load
    defined: Defined = field(default_factory=Recent[int, tuple[Op, OpFormula]])
    units: tuple[Unit, ...] = ()
    dims: dict[str, ast.DimDecl] = field(default_factory=dict[str, "ast.DimDecl"])
    options: dict[str, Choice] = field(default_factory=dict[str, Choice])
    meshes: dict[frozenset[Setting], Mapping[str, int | None]] = field(
        default_factory=dict[frozenset[Setting], "Mapping[str, int | None]"]
    )
    sizes: dict[frozenset[tuple[str, int]], Sizes] = field(
        default_factory=dict[frozenset[tuple[str, int]], Sizes]
    )

    def link_block(
        self, block: ast.Block, settings: Mapping[str, str | int]
    ) -> tuple[Linked, dict[str, int]]:
        """The program as `link` makes it, and the numbers that are set for dims of a block."""
        self._read()
        own = tuple(dict.fromkeys(decl.name.name for decl in block.dims))
        shared = {n: v for n, v in settings.items() if n not in own or n in self.dims}
        try:
            linked = self.link(shared, own)
        except Refused as refused:
            raise Refused(*(self._name_owner(each, block) for each in refused.problems)) from None
        set_ = {name: value for name, value in settings.items() if name in own}
        return linked, _settings(set_, frozenset(own), {}, ())[0]

    def _name_owner(self, problem: Problem, block: ast.Block) -> Problem:
        """Add to an unknown-option error the block that does have the option."""
        if not isinstance(problem, UnknownOption):
            return problem
        for name, located in self.units[-1].blocks.items():
            taken = (each.name.name for each in (*located.block.dims, *located.block.own))
            if problem.name in taken:
                return replace(problem, block=block.name.name, owner=name)
        return problem

    def link(self, settings: Mapping[str, str | int], others: Sequence[str] = ()) -> Linked:
        """The program that starts at the module, with options and dims set from outside.

        An error names `others`, which can be set as well.
        """
        self._read()
        mesh = self.mesh(settings)
        rest = {name: value for name, value in settings.items() if name not in mesh}
        known = (*others, *mesh)
        numbers, chosen = _settings(rest, frozenset(self.dims), self.options, known)
        key = frozenset(numbers.items())
        if key not in self.sizes:
            reader = ExpressionReader(frozenset(self.dims), frozenset(mesh), {})
            self.sizes[key] = _sizes(self.dims, reader, numbers)
        return Linked(self.units[-1], self.sizes[key], self.dims, mesh, chosen, self.units)

    def _read(self) -> None:
        if self.units:
            return
        units = _units(self.module, self.load, self.defined)
        for unit in units:  # importers stand behind what they import, and win
            self.dims.update({decl.name.name: decl for decl in unit.module.dims})
            for option in unit.module.options:
                words = tuple(word.name for word in option.words)
                self.options[option.name.name] = Choice(words, words[0], unit)
        self.units = tuple(units)

    def mesh(self, settings: Mapping[str, str | int]) -> Mapping[str, int | None]:
        """The axes of the mesh, if any file declares one, by settings that may have other names."""
        modules = [unit.module for unit in self.units]
        names = {decl.name.name for module in modules for decl in module.meshes}
        if not names:
            return {}
        key = frozenset((name, value) for name, value in settings.items() if name in names)
        if key not in self.meshes:
            self.meshes[key] = link_mesh(modules, self.dims, settings)
        return self.meshes[key]


def link(module: ast.Module, load: Load, settings: Mapping[str, str | int]) -> Linked:
    """The program that starts at `module`, with options and dims set from outside."""
    return Linker(module, load).link(settings)


def _units(module: ast.Module, load: Load, defined: Defined) -> list[Unit]:
    """Every file once, imported ones first; a cycle is refused by `load`."""
    units: dict[int, Unit] = {}
    for current in callees_first([module], lambda each: map(load, reversed(each.uses)), id):
        taken = [(use, units[id(load(use))]) for use in current.uses]
        units[id(current)] = _unit(current, len(units), taken, defined)
    return list(units.values())


def _unit(
    module: ast.Module, number: int, imported: list[tuple[ast.Use, Unit]], defined: Defined
) -> Unit:
    vain = declared_in_vain(module)
    if vain:
        raise Refused(*vain)
    blocks: dict[str, LocatedBlock] = {}
    operators: dict[str, Op] = {}
    formulas: dict[str, OpFormula] = {}
    for use, other in imported:
        for name in use.names:
            if name.name in other.blocks:
                blocks[name.name] = other.blocks[name.name]
            elif name.name in other.ops:
                operators[name.name] = other.ops[name.name]
                formulas[name.name] = other.formulas[name.name]
            else:
                names = (*other.blocks, *other.ops)
                raise Refused(NotInFile(name.span, name.name, names, use.origin.span.text))
    own, own_formulas = _define_all(module.ops, formulas, defined)
    operators |= own
    refuse_hidden_ops(module.ops, operators)
    unit = Unit(number, module, blocks, operators, formulas | own_formulas)
    blocks.update({block.name.name: LocatedBlock(block, unit) for block in module.blocks})
    return unit


def _define_all(
    definitions: Sequence[ast.OpDef], taken: Mapping[str, OpFormula], defined: Defined
) -> tuple[dict[str, Op], dict[str, OpFormula]]:
    """The operators of a file, those that others call first; raises DiagnosticError."""
    trees = {each.name.name: each for each in definitions}
    ops: dict[str, Op] = {}
    formulas: dict[str, OpFormula] = {}
    wrong: list[Diagnostic] = []
    failed: set[str] = set()
    for definition in _callees_first(trees):
        name = definition.name.name
        if failed.intersection(called_ops(definition, trees)):
            failed.add(name)  # the error of the op that it calls says enough
            continue
        try:
            known = {n: each for n, each in taken.items() if n not in trees} | formulas
            ops[name], formulas[name] = _define_once(definition, known, defined)
        except DiagnosticError as error:
            failed.add(name)
            wrong += error.diagnostics
    if wrong:
        raise DiagnosticError(sorted(wrong, key=lambda each: each.span.start if each.span else 0))
    return {name: ops[name] for name in trees}, formulas


def _callees_first(trees: Mapping[str, ast.OpDef]) -> list[ast.OpDef]:
    """Sort the ops of a file; raises Refused for those that call themselves."""
    done: dict[str, None] = {}
    for first in trees:
        trail: dict[str, Iterator[str]] = {first: iter(called_ops(trees[first], trees))}
        while trail:
            name = next(reversed(trail))
            other = next(trail[name], None) if name not in done else None
            if other is None:
                done[name] = None
                del trail[name]
            elif other in trail:
                names = list(trail)
                ring = (*names[names.index(other) :], other)
                raise Refused(OpCallsItself(trees[other].name.span, " -> ".join(ring)))
            elif other not in done:
                trail[other] = iter(called_ops(trees[other], trees))
    return [trees[name] for name in done]


def _define_once(
    definition: ast.OpDef, ops: Mapping[str, OpFormula], defined: Defined
) -> tuple[Op, OpFormula]:
    """An operator as it was defined before, if all that it calls is the same."""
    entry = defined.get(id(definition))
    if entry is not None and entry[1].definition is definition:
        callees = entry[1].callees
        if all(ops.get(name) is callee for name, callee in callees.items()):
            return entry
    return defined.put(id(definition), define_formula(definition, ops or NO_CALLEES))


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


def _sizes(
    decls: Mapping[str, ast.DimDecl], reader: ExpressionReader, numbers: Mapping[str, int]
) -> Sizes:
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
    with _report_at_declaration(decls):
        return Sizes(definitions, defaults)


@contextmanager
def _report_at_declaration(decls: Mapping[str, ast.DimDecl]) -> Generator[None]:
    """Report a definition that is too large, or is no size, at its declaration."""
    try:
        yield
    except LargeDefinition as large:
        raise Refused(large.limit.at(decls[large.name].span)) from None
    except NoQuotient as error:
        raise Refused(BadSize(decls[error.name].span, str(error))) from None


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


# The mesh of a program: its axes with their sizes, in the order in which they cut.


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
