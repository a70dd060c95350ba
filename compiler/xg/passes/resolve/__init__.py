"""Names looked up, blocks called, loops kept as loops: from trees to untyped graphs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.limits import ExpandedOperators
from xg.ir.content import Recent
from xg.ir.dim import Scalar, number
from xg.ir.graph import Graph, IRProgram
from xg.ir.op import Op
from xg.ir.walk import Circular, sort_graphs
from xg.passes.resolve.block import Incomplete, resolve_block
from xg.passes.resolve.errors import CallsItself, NoBlock, Refused
from xg.passes.resolve.expressions import size_names
from xg.passes.resolve.hints import Beside
from xg.passes.resolve.nodes import block_arguments
from xg.passes.resolve.scope import BlockInstance, BlockScope, Lookups, Request, Words
from xg.passes.resolve.units import Linked, Linker, Load, LocatedBlock
from xg.syntax import ast

# Graphs that were resolved before, each with all that was looked up to make it.
#
# A block is resolved again only where an answer to one of its questions is another: a word of an
# option that it mentions, the definition of a size, what a block that it calls takes and gives. If
# only the number of a size is another, the graph keeps the old one and `Program.numbers` has the
# new.


Header = tuple[str, ...]  # what callers see of a block


@dataclass(frozen=True, slots=True)
class _Program:
    """Facts about a program that all blocks of a file share."""

    file: int
    sizes: Hashable
    dims: frozenset[str]
    mesh: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call: the name of its operator, the arguments, and under which key its graph was put."""

    operator: str
    words: tuple[tuple[str, str], ...]
    numbers: tuple[tuple[str, Scalar], ...]
    key: str


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A graph and the questions to which it is the answer. `block` is known by identity."""

    block: ast.Block
    words: tuple[tuple[str, str], ...]
    numbers: tuple[tuple[str, Scalar], ...]
    program: _Program
    options: Mapping[str, Words | None]
    operators: Mapping[str, Op | Header | None]
    calls: tuple[_Asked, ...]
    graph: Graph
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _Entries:
    """The graphs of one block, found by the options that they depend on and the words of these.

    A block with many options has a graph for each choice; only a few of them can be the answer.
    """

    tables: dict[tuple[str, ...], dict[Hashable, list[_Resolved]]] = field(
        default_factory=dict[tuple[str, ...], dict[Hashable, "list[_Resolved]"]]
    )

    def candidates(self, key: str, lookups: Lookups) -> Iterator[_Resolved]:
        """List the graphs under a key whose options have the same words now."""
        for names, table in self.tables.items():
            yield from table.get((key, *map(lookups.option, names)), ())

    def add(self, entry: _Resolved) -> None:
        """Remember a graph."""
        table = self.tables.setdefault((*entry.options,), {})
        table.setdefault((entry.graph.key, *entry.options.values()), []).append(entry)


@dataclass(slots=True)
class ResolvedGraphs:
    """Graphs by their blocks.

    With `keeps_rests` also what is left of blocks with errors; the help of these may be outdated.
    """

    keeps_rests: bool = False
    known: Recent[int, _Entries] = field(default_factory=Recent[int, _Entries])
    headers: Recent[int, tuple[ast.Block, Header]] = field(
        default_factory=Recent[int, "tuple[ast.Block, Header]"]
    )

    def graph(self, linked: Linked, instance: BlockInstance, key: str, request: Request) -> Graph:
        """The graph of an instance under a key; raises Refused with everything that is wrong."""
        program = _Program(
            instance.located.unit.number,
            linked.sizes.structure(),
            linked.dims,
            tuple(linked.mesh),
            {name: choice.words for name, choice in linked.options.items()},
        )
        block = instance.located.block
        entries = self.known.get(id(block)) or self.known.put(id(block), _Entries())
        lookups = Lookups(linked, instance)
        for entry in entries.candidates(key, lookups):
            if self._answers(entry, program, lookups, request):
                if entry.problems:
                    raise Incomplete(entry.graph, *entry.problems)
                return entry.graph
        return self._resolve_graph(entries, program, linked, instance, key, request)

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.known.next_round()
        self.headers.next_round()

    def _answers(
        self,
        entry: _Resolved,
        program: _Program,
        lookups: Lookups,
        request: Request,
    ) -> bool:
        """Tell whether all that a graph was made from, beside its options, is the same now."""
        instance = lookups.instance
        if (entry.words, entry.numbers) != (instance.words, instance.numbers):
            return False
        if entry.program != program:
            return False
        for name, operator in entry.operators.items():
            seen = self._caller_view(lookups.operator(name))
            if seen is not operator and (isinstance(seen, Op) or seen != operator):
                return False
        return all(call.key == request(_called_instance(call, lookups)) for call in entry.calls)

    def _resolve_graph(
        self,
        entries: _Entries,
        program: _Program,
        linked: Linked,
        instance: BlockInstance,
        key: str,
        request: Request,
    ) -> Graph:
        lookups = Lookups(linked, instance)
        asked: list[tuple[BlockInstance, str]] = []

        def note_request(callee: BlockInstance) -> str:
            asked.append((callee, request(callee)))
            return asked[-1][1]

        graph, problems = self._try_resolve(lookups, key, note_request)
        names = {id(operator): name for name, operator in lookups.operators.items()}
        calls = (
            _Asked(names[id(callee.located)], callee.words, callee.numbers, key)
            for callee, key in asked
        )
        entries.add(
            _Resolved(
                block=instance.located.block,
                words=instance.words,
                numbers=instance.numbers,
                program=program,
                options=lookups.options,
                operators={name: self._caller_view(op) for name, op in lookups.operators.items()},
                calls=tuple(calls),
                graph=graph,
                problems=problems,
            )
        )
        if problems:
            raise Incomplete(graph, *problems)
        return graph

    def _try_resolve(
        self, lookups: Lookups, key: str, request: Request
    ) -> tuple[Graph, tuple[Problem, ...]]:
        try:
            return resolve_block(lookups, key, request), ()
        except Incomplete as refused:
            if not self.keeps_rests or refused.rest is None:
                raise
            return refused.rest, refused.problems

    def _caller_view(self, operator: Op | LocatedBlock | None) -> Op | Header | None:
        """Return what callers see: the header of a block, or the operator itself."""
        return self._header(operator.block) if isinstance(operator, LocatedBlock) else operator

    def _header(self, block: ast.Block) -> Header:
        blocks = self.headers.get(id(block))
        if blocks is None:
            blocks = self.headers.put(id(block), (block, _header(block)))
        return blocks[1]


def _called_instance(call: _Asked, lookups: Lookups) -> BlockInstance:
    located = lookups.operator(call.operator)
    assert isinstance(located, LocatedBlock)
    return BlockInstance(located, call.words, call.numbers)


def _header(block: ast.Block) -> Header:
    parts = (*block.own, None, *block.data, None, *block.outputs, None, *block.dims)
    texts = (part.span.text if part else "" for part in parts)
    return (block.name.name, *texts, *size_names(block))


def resolve(
    module: ast.Module,
    load: Load,
    block: str | None = None,
    settings: Mapping[str, str | int] | None = None,
) -> IRProgram:
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

    def program(self, block: str | None, settings: Mapping[str, str | int]) -> IRProgram:
        """The result of `resolve`."""
        program, problems = self.partly(block, settings)
        if problems:
            raise DiagnosticError.of(*problems)
        return program

    def partly(
        self, block: str | None, settings: Mapping[str, str | int]
    ) -> tuple[IRProgram, tuple[Problem, ...]]:
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
            program = program if self.graphs is None else _set_numbers(program, linked)
            return _with_own_sizes(program, numbers), problems
        except Refused as refused:
            raise DiagnosticError.of(*refused.problems) from None


def _set_numbers(program: IRProgram, linked: Linked) -> IRProgram:
    own = program.main.sizes.local
    numbers = {name: n for name, n in linked.sizes.defaults.items() if name not in own}
    return replace(program, numbers=numbers)


def _with_own_sizes(program: IRProgram, numbers: Mapping[str, int]) -> IRProgram:
    """The program with numbers for dims of its entry block."""
    if not numbers:
        return program
    main = program.main
    sizes = main.sizes.with_local({name: number(n) for name, n in numbers.items()})
    return replace(program, graphs={**program.graphs, program.entry: replace(main, sizes=sizes)})


def entry_block(module: ast.Module, load: Load, name: str | None) -> ast.Block:
    """The block of this name, defined in the file or imported.

    Without a name it is the last one, or the only one that a file without blocks imports.
    """
    own = [block.name.name for block in module.blocks]
    taken = [taken.name for use in module.uses for taken in use.names]
    refusal = NoBlock(module.span.source.name, name, tuple(own or taken))
    last = own[-1] if own else taken[0] if len(taken) == 1 else None
    entry = name if name is not None else last
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
) -> tuple[IRProgram, tuple[Problem, ...]]:
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
        return IRProgram(sort_graphs(graphs, keys[entry]), keys[entry], mesh=mesh), tuple(problems)
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
