"""Type the blocks of a project: run every pass that can find an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace, resting_collector
from xg.frontend.project import Project
from xg.ir.content import Recent
from xg.ir.graph import Graph, IRProgram
from xg.ir.op import Op
from xg.ir.size_checks import NumberedKey, check_numbers
from xg.passes.infer import TypedGraphs, infer, infer_partly
from xg.passes.resolve import ResolvedGraphs, Resolver, entry_block, resolve
from xg.passes.resolve.define import OpFormula
from xg.passes.resolve.errors import Refused, UnknownOption, UnusedParam
from xg.passes.resolve.statements import wrong_paths
from xg.passes.resolve.units import Defined, Linker
from xg.syntax import ast
from xg.syntax.spelling import ascii_name

# The blocks of a file: their mentions, the uncalled ones, the settings that affect them.


Value = TypeVar("Value")


def mentions(block: ast.Block) -> set[str]:
    """Every name in the chains of a block that may be a block's or an option's."""
    names: set[str] = set()
    pending: list[object] = list(block.chains)
    while pending:
        match pending.pop():
            case ast.Chain() as chain:
                pending += (*chain.sources, *chain.steps)
            case ast.NodeUse() as use:
                names.add(use.operator.name)
                names.update({use.guard.option.name} if use.guard else ())
                pending += (*use.arguments, *(attached.operand for attached in use.attachments))
            case ast.Call() as call:
                names.add(call.operator.name)
                pending += call.arguments
            case ast.Argument() as argument:
                pending.append(argument.value)
            case ast.Path() as path:
                names.add(path.name)
            case _:
                pass
    return names


def root_blocks(module: ast.Module) -> tuple[str, ...]:
    """The blocks that no other block of the file calls, in any choice; in file order."""
    options = {option.name.name: option.words for option in module.options}
    called: set[str] = set()
    for block in module.blocks:
        words = {**options, **{own.name.name: own.words for own in block.own}}
        for name in mentions(block) - {block.name.name}:
            called |= {name, *(word.name for word in words.get(name, ()))}
    return tuple(b.name.name for b in module.blocks if b.name.name not in called)


def concerning(
    project: Project, block: str | None, settings: Mapping[str, Value], asked: str | None = None
) -> dict[str, Value]:
    """The settings without those that only other blocks take in parentheses or as dims.

    For commands that compile several blocks: what no block knows is left, to be refused. Where the
    user `asked` for one block, all settings are meant for it. Without a name it is the last one.
    """
    if not settings or asked is not None:
        return dict(settings)
    owners = {b.name.name: _own(b) for b in project.main.blocks}
    entry = next(reversed(owners), "") if block is None else block
    others = {name for owner, names in owners.items() if owner != entry for name in names}
    every = (each for module in project.modules for each in module.blocks)
    own = {name for each in every if each.name.name == entry for name in _own(each)}
    elsewhere = others - declared(project) - own
    left = {name: value for name, value in settings.items() if name not in elsewhere}
    return read_by(project, entry, left)


def unread(project: Project, entry: str, settings: Iterable[str]) -> dict[str, str]:
    """The options that a block and those it calls do not read, with a block that reads each.

    An option that no block reads is none of them: the file is warned of it.
    """
    options = {o.name.name: o.words for module in project.modules for o in module.options}
    wanted = options.keys() & set(settings)
    if not wanted:
        return {}
    every = [(b.name.name, mentions(b)) for module in project.modules for b in module.blocks]
    if entry not in {block for block, _ in every}:
        return {}  # there is none, which is another error
    reached, pending = set[str](), {entry}
    while pending:
        name = pending.pop()
        reached.add(name)
        found = {each for block, names in every if block == name for each in names}
        words = {word.name for option in found if option in options for word in options[option]}
        pending |= (found | words) - reached
    readers = {name: block for block, names in every for name in names}
    return {name: readers[name] for name in sorted(wanted - reached) if name in readers}


def refuse_unread(project: Project, block: str | None, settings: Iterable[str]) -> None:
    """Raise DiagnosticError for options that a block does not read, and others do."""
    blocks = [each.name.name for each in project.main.blocks]
    entry = block or (blocks[-1] if blocks else "")
    if others := unread(project, entry, settings):
        raise DiagnosticError.of(
            *(
                UnknownOption(None, name, (), block=entry, owner=owner)
                for name, owner in others.items()
            )
        )


def read_by(project: Project, entry: str, settings: Mapping[str, Value]) -> dict[str, Value]:
    """The settings without the options that a block does not read."""
    others = unread(project, entry, settings)
    return {name: value for name, value in settings.items() if name not in others}


def takes_own(block: ast.Block, settings: Mapping[str, object]) -> bool:
    """Whether a block is set something that it has for itself, and that no caller hands on."""
    return not _own(block).isdisjoint(settings)


def settable(project: Project) -> set[str]:
    """Everything that `--set` may name for some block of the project: dims, options, arguments."""
    return declared(project).union(*map(_own, project.main.blocks))


def _own(block: ast.Block) -> set[str]:
    """The names that a block takes in parentheses, and its dims."""
    return {each.name.name for each in (*block.own, *block.dims)}


def declared(project: Project) -> set[str]:
    """The dims and options of all files of a project."""
    modules = project.modules
    return {each.name.name for module in modules for each in (*module.dims, *module.options)}


# A project whose wrong sizes are open: while one is typed, shapes are known by its name.


Decl = TypeVar("Decl", ast.DimDecl, ast.MeshDecl)


def without_wrong_sizes(project: Project, wrong: Iterable[Diagnostic]) -> Project | None:
    """The project without the sizes that have an error; None where there is no such size."""
    spans = [label.span for each in wrong for label in each.labels]
    modules = {id(module): _open_sizes(module, spans) for module in project.modules}
    if all(module is modules[id(module)] for module in project.modules):
        return None
    uses = {key: modules[id(module)] for key, module in project.uses.items()}
    return Project(modules[id(project.main)], project.paths, uses, project.arrays)


def _open_sizes(module: ast.Module, wrong: Sequence[Span]) -> ast.Module:
    dims, meshes = _open(module.dims, wrong), _open(module.meshes, wrong)
    if (dims, meshes) == (module.dims, module.meshes):
        return module
    return replace(module, dims=dims, meshes=meshes)


def _open(decls: Sequence[Decl], wrong: Sequence[Span]) -> tuple[Decl, ...]:
    return tuple(
        replace(decl, size=None) if any(_holds(decl.span, span) for span in wrong) else decl
        for decl in decls
    )


def _holds(whole: Span, part: Span) -> bool:
    return whole.source is part.source and whole.start <= part.start and part.end <= whole.end


Settings = Mapping[str, str | int]


def type_project(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
    typers: BlockTypers | None = None,
) -> IRProgram:
    """The typed graphs of a block of a file; raises DiagnosticError with all errors.

    One is a setting of an option that neither the block nor one that it calls reads. With `typers`
    the block shares graphs with those that were typed before.
    """
    refuse_unread(project, block, settings or {})
    partly = typers.partly if typers else ProjectTyper(project).partly
    typed, mistakes = partly(block, settings)
    if mistakes:
        raise DiagnosticError(mistakes)
    if plan is not None or typed.is_parallel:
        from xg.frontend.plan_in_choices import attach_plan  # most programs have no plan

        return attach_plan(typed, project, plan, settings)
    return typed


def type_partly(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> tuple[IRProgram, tuple[Diagnostic, ...]]:
    """The graphs that `type_project` types in spite of errors, and the errors."""
    return ProjectTyper(project).partly(block, settings)


@dataclass(slots=True)
class TypeMemory:
    """Blocks that were resolved and typed before, for projects that share them."""

    defined: Defined = field(default_factory=Recent[int, tuple[Op, OpFormula]])
    resolved: ResolvedGraphs = field(default_factory=ResolvedGraphs)
    typed: TypedGraphs = field(default_factory=TypedGraphs)
    numbered: Recent[NumberedKey, Graph] = field(default_factory=Recent[NumberedKey, Graph])

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.defined.next_round()
        self.resolved.next_round()
        self.typed.next_round()
        self.numbered.next_round()


@dataclass(frozen=True, slots=True)
class TypedBlocks:
    """Blocks in the choices that `check_project` meets, and where their texts were when typed.

    `before` has for the place of a block the one that its graphs have, where that is another.
    `given` are the numbers that the program gives its sizes; graphs of earlier texts have those of
    their texts.
    """

    graphs: tuple[Graph, ...] = ()
    before: Mapping[Span, Span] = field(default_factory=dict["Span", "Span"])
    given: Mapping[str, int] = field(default_factory=dict[str, int])

    def of(self, block: ast.Block) -> tuple[Graph, ...]:
        """The graphs of a block; none where it could not be typed."""
        span = self.before.get(block.span, block.span)
        return tuple(graph for graph in self.graphs if graph.span == span)

    def numbers(self, graph: Graph) -> dict[str, int]:
        """Return the numbers of a graph's sizes, as far as the current text sets them."""
        sizes = graph.sizes
        shared = sizes.defaults.keys() - sizes.local
        return sizes.bind({name: self.given[name] for name in shared & self.given.keys()})


class ProjectTyper:
    """Types blocks of a project in many choices of options, with what they share done once."""

    def __init__(self, project: Project, memory: TypeMemory | None = None) -> None:
        self.project = project
        self.memory = memory or TypeMemory()
        linker = Linker(project.main, project.load, self.memory.defined)
        self.resolver = Resolver(linker, memory and memory.resolved)
        self.dims = declared_dims(project)

    @resting_collector()
    def partly(
        self, block: str | None, settings: Settings | None, *, unresolved: bool = False
    ) -> tuple[IRProgram, tuple[Diagnostic, ...]]:
        """The result of `type_partly`.

        With `unresolved` also of blocks that have unknown names, and without a look at numbers.
        """
        resolved, unknown = self.resolver.partly(*_chosen(block, settings))
        if not (unresolved or all(isinstance(problem, UnusedParam) for problem in unknown)):
            raise DiagnosticError.of(*unknown)
        typed, problems = infer_partly(resolved, self.memory.typed)
        problems = (*problems, *unknown)
        problems = problems or tuple(wrong_paths(typed))
        if problems or unresolved:
            return typed, tuple(problem.diagnostic() for problem in problems)
        try:
            check_numbers(typed, self.dims, self.memory.numbered)
        except DiagnosticError as error:
            return typed, error.diagnostics
        return typed, ()


@dataclass(slots=True)
class BlockTypers:
    """Type several blocks of a project; blocks with the same settings share what they call."""

    project: Project
    typers: dict[frozenset[tuple[str, str | int]], ProjectTyper] = field(
        default_factory=dict["frozenset[tuple[str, str | int]]", "ProjectTyper"]
    )

    def partly(
        self, block: str | None, settings: Settings | None
    ) -> tuple[IRProgram, tuple[Diagnostic, ...]]:
        """The result of `type_partly`."""
        key = frozenset((settings or {}).items())
        if key not in self.typers:
            self.typers[key] = ProjectTyper(self.project, TypeMemory())
        typed, problems = self.typers[key].partly(block, settings)
        return replace(typed, numbers={}), problems  # its graphs have the same numbers


def shape_project(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> IRProgram:
    """The typed graphs of a block of a file, without numbers for its sizes."""
    return infer(resolve(project.main, project.load, *_chosen(block, settings)))


def _chosen(block: str | None, settings: Settings | None) -> tuple[str | None, Settings]:
    """The name of a block and settings, as the language spells names."""
    chosen = {ascii_name(name): value for name, value in (settings or {}).items()}
    return ascii_name(block) if block is not None else None, chosen


def declared_dims(project: Project) -> dict[str, Span]:
    """Where the files declare each dim; the file that imports wins."""
    dim_decls = [decl for module in reversed(project.modules) for decl in module.dims]
    return {decl.name.name: decl.span for decl in dim_decls}


def dims_of(project: Project, block: str | None) -> frozenset[str]:
    """Return the dims that can be set for a block: the files' dims, and its own."""
    own = (decl.name.name for decl in named_block(project, block).dims)
    return frozenset((*declared_dims(project), *own))


def named_block(project: Project, block: str | None) -> ast.Block:
    """The block that is compiled under a name, of the file or taken from another.

    Raises DiagnosticError where there is none.
    """
    name = ascii_name(block) if block is not None else None
    try:
        return entry_block(project.main, project.load, name)
    except Refused as refused:
        raise DiagnosticError.of(*refused.problems) from None
