"""Graphs that were resolved before, each with all that was looked up to make it.

A block is resolved again only where an answer to one of its questions is another: a word of an
option that it mentions, the definition of a size, what a block that it calls takes and gives. If
only the number of a size is another, the graph keeps the old one and `Program.numbers` has the new.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.content import Recent
from xg.ir.graph import Graph
from xg.ir.op import Op
from xg.ir.scalar import Scalar
from xg.passes.resolve.block import Incomplete, resolve_block
from xg.passes.resolve.instance import BlockInstance, Request
from xg.passes.resolve.lookups import Lookups, Words
from xg.passes.resolve.mentions import dims_mentioned
from xg.passes.resolve.units import Linked, LocatedBlock
from xg.syntax import ast

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
        return self._resolved(entries, program, linked, instance, key, request)

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
            seen = self._seen(lookups.operator(name))
            if seen is not operator and (isinstance(seen, Op) or seen != operator):
                return False
        return all(call.key == request(_called(call, lookups)) for call in entry.calls)

    def _resolved(
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

        def noted(callee: BlockInstance) -> str:
            asked.append((callee, request(callee)))
            return asked[-1][1]

        graph, problems = self._made(lookups, key, noted)
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
                operators={name: self._seen(op) for name, op in lookups.operators.items()},
                calls=tuple(calls),
                graph=graph,
                problems=problems,
            )
        )
        if problems:
            raise Incomplete(graph, *problems)
        return graph

    def _made(
        self, lookups: Lookups, key: str, request: Request
    ) -> tuple[Graph, tuple[Problem, ...]]:
        try:
            return resolve_block(lookups, key, request), ()
        except Incomplete as refused:
            if not self.keeps_rests or refused.rest is None:
                raise
            return refused.rest, refused.problems

    def _seen(self, operator: Op | LocatedBlock | None) -> Op | Header | None:
        """Of a block only what callers see; an operator is known by identity."""
        return self._header(operator.block) if isinstance(operator, LocatedBlock) else operator

    def _header(self, block: ast.Block) -> Header:
        blocks = self.headers.get(id(block))
        if blocks is None:
            blocks = self.headers.put(id(block), (block, _header(block)))
        return blocks[1]


def _called(call: _Asked, lookups: Lookups) -> BlockInstance:
    located = lookups.operator(call.operator)
    assert isinstance(located, LocatedBlock)
    return BlockInstance(located, call.words, call.numbers)


def _header(block: ast.Block) -> Header:
    parts = (*block.own, None, *block.data, None, *block.outputs, None, *block.dims)
    texts = (part.span.text if part else "" for part in parts)
    return (block.name.name, *texts, *dims_mentioned(block))
