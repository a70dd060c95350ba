"""Names looked up, blocks called, loops kept as loops: from trees to untyped graphs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import ExpandedOperators
from xg.diagnostics.source import Span
from xg.ir.dim import number
from xg.ir.graph import Graph, Program
from xg.ir.walk import Circular, ordered
from xg.passes.resolve.arguments import block_arguments
from xg.passes.resolve.block import Incomplete
from xg.passes.resolve.call_errors import CallsItself, NoBlock
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.instance import BlockInstance
from xg.passes.resolve.lookups import Lookups
from xg.passes.resolve.resolved import ResolvedGraphs
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.undeclared import Beside
from xg.passes.resolve.units import Linked, Linker, Load
from xg.syntax import ast


def resolve(
    module: ast.Module,
    load: Load,
    block: str | None = None,
    settings: Mapping[str, str | int] | None = None,
) -> Program:
    """The graphs of `block` (the last of the file when None) and of its callees.

    `settings` choose options and set dims, as ``--set`` does; arguments of the block itself
    override the file's declarations. Raises DiagnosticError with all errors.
    """
    return Resolver(Linker(module, load)).program(block, settings or {})


@dataclass(slots=True)
class Resolver:
    """Resolves the blocks of a program in many choices of options: equal graphs are made once.

    With `graphs` of earlier programs, which may have other numbers for sizes, `Program.numbers` has
    the present ones.
    """

    linker: Linker
    graphs: ResolvedGraphs | None = None

    def program(self, block: str | None, settings: Mapping[str, str | int]) -> Program:
        """The result of `resolve`."""
        program, problems = self.partly(block, settings)
        if problems:
            raise DiagnosticError.of(*problems)
        return program

    def partly(
        self, block: str | None, settings: Mapping[str, str | int]
    ) -> tuple[Program, tuple[Problem, ...]]:
        """The program as far as it can be resolved, and all errors; an editor shows both.

        Raises DiagnosticError where too little is left.
        """
        module, load = self.linker.module, self.linker.load
        try:
            entry = entry_block(module, load, block)
            own = {own.name.name for own in entry.own}
            others = {n: v for n, v in settings.items() if n not in own}
            linked, numbers = self.linker.link_block(entry, others)
            chosen = {n: value for n, value in settings.items() if n in own}
            instance = _entry(linked, entry, chosen)
            program, problems = _program(linked, instance, self.graphs or ResolvedGraphs())
            program = program if self.graphs is None else _numbered(program, linked)
            return _with_own_sizes(program, numbers), problems
        except Refused as refused:
            raise DiagnosticError.of(*refused.problems) from None


def _numbered(program: Program, linked: Linked) -> Program:
    own = program.main.sizes.local
    numbers = {name: n for name, n in linked.sizes.defaults.items() if name not in own}
    return replace(program, numbers=numbers)


def _with_own_sizes(program: Program, numbers: Mapping[str, int]) -> Program:
    """The program with numbers for dims of its entry block."""
    if not numbers:
        return program
    main = program.main
    sizes = main.sizes.with_local({name: number(n) for name, n in numbers.items()})
    return replace(program, graphs={**program.graphs, program.entry: replace(main, sizes=sizes)})


def entry_block(module: ast.Module, load: Load, name: str | None) -> ast.Block:
    """The block of this name, of the file or taken from another; without a name the last one."""
    own = [block.name.name for block in module.blocks]
    taken = [taken.name for use in module.uses for taken in use.names]
    refusal = NoBlock(module.span.source.name, name, tuple(own or taken))
    entry = name if name is not None else next(reversed(own), None)
    place: ast.Module | None = module
    while place is not None:
        for block in place.blocks:
            if block.name.name == entry:
                return block
        uses = (use for use in place.uses if entry in [taken.name for taken in use.names])
        place = next((load(use) for use in uses), None)
    raise Refused(refusal)


def _entry(linked: Linked, block: ast.Block, chosen: Mapping[str, str | int]) -> BlockInstance:
    """The instance of the entry block: `chosen` replaces the arguments of a call."""
    span = block.name.span
    arguments = tuple(
        ast.Argument(span, ast.Name(span, name), _expression(value, span))
        for name, value in chosen.items()
    )
    use = ast.NodeUse(span, block.name, None, arguments, (), None, None, None, None, None)
    located = linked.unit.blocks[block.name.name]
    scope = BlockScope(Lookups(linked, BlockInstance(located)), lambda instance: instance.name)
    instance, _ = block_arguments(use, located, Beside(scope, use, (), ()))
    return instance


def _expression(value: str | int, span: Span) -> ast.Expr:
    try:
        number = value if isinstance(value, int) else float(value)
    except ValueError:
        return ast.Path(span, (ast.Name(span, str(value)),))
    return ast.Number(span, number, str(value))


def _program(
    linked: Linked, entry: BlockInstance, known: ResolvedGraphs
) -> tuple[Program, tuple[Problem, ...]]:
    keys: dict[BlockInstance, str] = {}
    same = Counter[str]()  # instances of one name, which are of blocks of several files
    waiting: deque[BlockInstance] = deque()

    def request(instance: BlockInstance) -> str:
        if instance not in keys:
            name = instance.name
            keys[instance] = name + "'" * same[name]
            same[name] += 1
            waiting.append(instance)
        return keys[instance]

    request(entry)
    graphs: dict[str, Graph] = {}
    problems: dict[Problem, None] = {}  # a block with two choices has most errors twice
    operators = 0
    while waiting:
        instance = waiting.popleft()
        try:
            graph = known.graph(linked, instance, keys[instance], request)
        except Refused as refused:
            problems.update(dict.fromkeys(refused.problems))
            graph = refused.rest if isinstance(refused, Incomplete) else None
            if graph is None:
                continue
        graphs[keys[instance]] = graph
        operators += len(graph.steps)
        if operators > ExpandedOperators.maximum:  # before many more instances are asked for
            raise Refused(ExpandedOperators(graph.span, operators))
    if len(graphs) < len(keys):
        raise Refused(*problems)
    mesh = {name: size for name, size in linked.mesh.items() if size is not None}
    try:
        return Program(ordered(graphs, keys[entry]), keys[entry], mesh=mesh), tuple(problems)
    except Circular as circular:
        ring = (_ring([graphs[key] for key in circular.ring]),)
        raise Refused(*(problems or ring)) from None


def _ring(graphs: Sequence[Graph]) -> CallsItself:
    """The way from a block back to itself; it always begins where the file does."""
    first = min(range(len(graphs)), key=lambda i: graphs[i].span.start)
    ordered = [*graphs[first:], *graphs[:first]]
    calls: list[tuple[str, Span]] = []
    for graph, following in zip(ordered, [*ordered[1:], ordered[0]], strict=True):
        call = next(call for call in graph.calls if call.callee == following.key)
        calls.append((graph.block, call.span))
    return CallsItself(tuple(calls))
