"""From the files of a project to typed graphs: every pass that can find an error."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.gc_pause import resting_collector
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.frontend.blocks import refuse_unread
from xg.frontend.project import Project
from xg.ir.graph import Graph
from xg.ir.graph import Program as Graphs
from xg.ir.op import Op
from xg.ir.recent import Recent
from xg.ir.size_checks import NumberedKey, check_numbers
from xg.passes.infer import infer, infer_partly
from xg.passes.infer.typed import TypedGraphs
from xg.passes.resolve import Resolver, entry_block, resolve
from xg.passes.resolve.errors import Refused, UnusedParam
from xg.passes.resolve.meant_zeros import wrong_paths
from xg.passes.resolve.resolved import ResolvedGraphs
from xg.passes.resolve.units import Defined, Linker
from xg.syntax import ast
from xg.syntax.spelling import ascii_name

Settings = Mapping[str, str | int]


def type_project(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
) -> Graphs:
    """The typed graphs of a block of a file; raises DiagnosticError with all errors.

    One is a setting of an option that neither the block nor one that it calls reads.
    """
    refuse_unread(project, block, settings or {})
    typed, mistakes = type_partly(project, block, settings)
    if mistakes:
        raise DiagnosticError(mistakes)
    if plan is not None or typed.is_parallel:
        from xg.frontend.choose_plan import planned  # most programs have no plan

        return planned(typed, project, plan, settings)
    return typed


def type_partly(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> tuple[Graphs, tuple[Diagnostic, ...]]:
    """The graphs that `type_project` types in spite of errors, and the errors."""
    return ProjectTyper(project).partly(block, settings)


@dataclass(slots=True)
class TypeMemory:
    """Blocks that were resolved and typed before, for projects that share them."""

    defined: Defined = field(default_factory=Recent[int, tuple[ast.OpDef, Op]])
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
    """Blocks in the choices that `checked` meets, and where their texts were when they were typed.

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
        """A number for every size of a graph that has one, as the text is now."""
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
    ) -> tuple[Graphs, tuple[Diagnostic, ...]]:
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


def shape_project(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> Graphs:
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
    """The dims that can be set where a block is compiled: those of the files, and its own."""
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
