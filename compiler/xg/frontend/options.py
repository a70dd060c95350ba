"""List the choices of options that a block distinguishes, and the sizes it needs in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from graphlib import TopologicalSorter
from itertools import product
from math import prod

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.frontend.typed import Settings, mentions
from xg.ir.dim import Dim, Scalar, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram
from xg.ir.size_checks import axes_of, facts_of
from xg.ir.walk import inside
from xg.syntax import ast

PRODUCT_AT_MOST = 64  # combinations for one block; of more, each word once, with a warning

Words = Mapping[str, tuple[str, ...]]
Choice = dict[str, str]


def choices_of(block: ast.Block, options: Words, settings: Settings) -> list[Choice]:
    """The combinations of words that a block distinguishes; of too many, every word once."""
    words = mentioned_words(block, options, settings)
    if prod(map(len, words.values())) <= PRODUCT_AT_MOST:
        return [dict(zip(words, chosen, strict=True)) for chosen in product(*words.values())]
    return [{}, *({name: word} for name in words for word in words[name][1:])]


def mentioned_words(block: ast.Block, options: Words, settings: Settings) -> Words:
    """The options that are open and that a block mentions, with their words."""
    own = {option.name.name: tuple(w.name for w in option.words) for option in block.own}
    words = {**options, **{name: words for name, words in own.items() if words}}
    mentioned_names = mentions(block)
    return {n: words[n] for n in words if n not in settings and (n in own or n in mentioned_names)}


def joined(
    choice: Choice, waiting: Iterable[Sequence[Choice]], options: Set[str], turn: int
) -> Choice:
    """The choice, with what other blocks have yet to meet and does not contradict it.

    Each turn begins with others of a block.
    """
    together = dict(choice)
    for choices in waiting:
        if options <= together.keys():
            break
        place = turn % max(len(choices), 1)
        for other in (*choices[place:], *choices[:place]):
            shared = {name: word for name, word in other.items() if name in options}
            if not _contradict(shared, together):
                together.update(shared)
                break
    return together


def _contradict(one: Choice, other: Choice) -> bool:
    return any(other.get(name, word) != word for name, word in one.items())


# Sizes that blocks demand of their callers, by the choices of options that decide them.
#
# A block that splits D into thirds demands of every caller a length that three divides. Where an
# option decides what is called below a block, it decides on its demands too: a caller that calls a
# size by another name, or gives it another number, has to be checked in these choices, though its
# own text mentions no option. Who passes on a size as it is has nothing to meet.


Demand = tuple[Dim | Scalar, ...]  # to be whole, or a number, or the program's; or two in order
BlockId = tuple[int, str]
Chosen = tuple[str, ...]  # a word for each of a block's options
Table = dict[Chosen, frozenset[Demand]]


@dataclass(slots=True)
class _Met:
    """One graph of a block, the words of all options there, and the blocks that it calls."""

    graph: Graph
    words: Mapping[str, str]
    callees: Mapping[str, Graph]


@dataclass(slots=True)
class _Known:
    """The demands of a block in every choice that matters to them."""

    words: Words
    demands: Table = field(default_factory=dict[Chosen, frozenset[Demand]])

    def of(self, choice: Mapping[str, str]) -> frozenset[Demand]:
        """The demands in a choice that names all of its words."""
        return self.demands.get(tuple(choice[name] for name in self.words), frozenset())

    def deciding(self) -> list[str]:
        """The options that decide on the demands."""
        return [name for name in self.words if _decides(name, self.words, self.demands)]


class Demands:
    """All that typed programs tell of the demands of their blocks.

    `own` are the open options that each block mentions, by its place; `options` all of them.
    """

    def __init__(self, options: Words, own: Mapping[Span, Words]) -> None:
        self.options = options
        self.own = own
        self.words: dict[Span, Words] = {}  # the options that a block has to meet
        self._met: dict[BlockId, list[_Met]] = {}
        self._demands: dict[int, tuple[Graph, frozenset[Demand]]] = {}

    @classmethod
    def of(cls, modules: Sequence[ast.Module], options: Words, settings: Settings) -> Demands:
        """Return empty demands for the blocks of these files."""
        blocks = [block for module in modules for block in module.blocks]
        own = {block.span: mentioned_words(block, options, settings) for block in blocks}
        shared = {
            block: {name: each for name, each in words.items() if name in options}
            for block, words in own.items()
        }
        return cls(options, shared)

    def read(self, program: IRProgram, words: Mapping[str, str]) -> None:
        """Take note of the blocks of a program in one choice of options."""
        for graph in program.graphs.values():
            callees = {call.callee: program.graphs[call.callee] for call in graph.calls}
            self._met.setdefault(graph.block_id, []).append(_Met(graph, words, callees))

    def unmet(self) -> list[tuple[Span, Choice]]:
        """Blocks and choices in which they have not been met, but are to be; callers first."""
        calls = {
            block: {callee.block_id for each in met for callee in each.callees.values()}
            for block, met in self._met.items()
        }
        known: dict[BlockId, _Known] = {}
        found: list[tuple[Span, Choice]] = []
        for block in TopologicalSorter(calls).static_order():
            known[block], asked = self._know(block, calls[block], known)
            if asked:
                place = self._place(block)
                words = {**self.own[place], **{each: self.options[each] for each in asked}}
                self.words[place] = words
                found += [(place, c) for c in _choices(words) if not self._is_met(block, c)]
        return found[::-1]

    def _place(self, block: BlockId) -> Span:
        return self._met[block][0].graph.span

    def _is_met(self, block: BlockId, choice: Choice) -> bool:
        return any(choice.items() <= each.words.items() for each in self._met[block])

    def _know(
        self, block: BlockId, callees: set[BlockId], known: Mapping[BlockId, _Known]
    ) -> tuple[_Known, list[str]]:
        """The demands of a block, and options beside its own in which it is to be met."""
        own = self.own[self._place(block)]
        below = dict.fromkeys(name for each in sorted(callees) for name in known[each].deciding())
        words = {**own, **{name: self.options[name] for name in below}}
        found, changed = _Known(words), Table()
        first: dict[tuple[str | None, ...], _Met] = {}  # for each words of the block's own options
        for met in self._met[block]:
            first.setdefault(tuple(map(met.words.get, own)), met)
        for choice in _choices(words):
            if met := first.get(tuple(choice[name] for name in own)):
                key = tuple(choice.values())
                found.demands[key], changed[key] = self._demands_in_choice(met, choice, known)
        return found, [name for name in below if name not in own and _decides(name, words, changed)]

    def _demands_in_choice(
        self, met: _Met, choice: Choice, known: Mapping[BlockId, _Known]
    ) -> tuple[frozenset[Demand], frozenset[Demand]]:
        """Return a graph's demands in a choice, and its calls' demands that differ here."""
        demands = {*self._own_demands(met.graph)}
        changed: set[Demand] = set()
        bound = _bound_symbols(met.graph)
        for call in met.graph.calls:
            callee = met.callees[call.callee]
            asked = known[callee.block_id]
            names = {*met.graph.sizes.local, *(bound - call.sizes.keys())}
            for demand in asked.of({**met.words, **choice}):
                if _sets_size(demand, call):
                    continue
                here = _inside(demand, call, met.graph, callee)
                demands.add(here)
                if here != demand or not _symbols(demand).isdisjoint(names):
                    changed.add(here)
        return frozenset(demands), frozenset(changed)

    def _own_demands(self, graph: Graph) -> frozenset[Demand]:
        if id(graph) not in self._demands:
            self._demands[id(graph)] = graph, frozenset(_of(graph))  # which keeps the id
        return self._demands[id(graph)][1]


def _choices(words: Words) -> list[Choice]:
    """All combinations of words; of too many, every word once beside the first of all others."""
    if prod(map(len, words.values())) <= PRODUCT_AT_MOST:
        return [dict(zip(words, chosen, strict=True)) for chosen in product(*words.values())]
    first = {name: each[0] for name, each in words.items()}
    return [first, *({**first, name: word} for name in words for word in words[name][1:])]


def _decides(name: str, words: Words, table: Table) -> bool:
    """Whether two choices that differ in one option alone have other entries."""
    place = list(words).index(name)
    entries: dict[Chosen, set[frozenset[Demand]]] = {}
    for key, entry in table.items():
        entries.setdefault((*key[:place], *key[place + 1 :]), set()).add(entry)
    return any(len(each) > 1 for each in entries.values())


# ---- the demands of a graph ----------------------------------------------------------------------


def _of(graph: Graph) -> Iterator[Demand]:
    """The sizes and numbers of a graph that not all lengths allow, in its symbols.

    A size that no input gives is one, too: a caller is not to have another one of its name.
    """
    expand = graph.sizes.expand
    counts = [call.count for call in graph.calls if call.count is not None]
    given = {*_bound_symbols(graph), *graph.sizes.local, *graph.sizes.mesh}
    for dim in (*axes_of(graph), *counts):
        whole = expand(dim)
        yield from ((symbol(name),) for name in whole.symbols() if name not in given)
        if _may_fail(whole):
            yield (whole,)
    for _, fact in facts_of(graph):
        yield expand(fact.smaller), expand(fact.larger)
    for step in graph.steps:
        for each in step.attrs.values() if isinstance(step, Apply) else ():
            if isinstance(each, Scalar) and any(sign in str(each) for sign in ("-", "log")):
                yield (each,)


def _bound_symbols(graph: Graph) -> set[str]:
    """The symbols that the inputs of a graph bind."""
    shapes = [graph.sizes.expand_type(graph.types[value]).shape for value in graph.inputs]
    return {name for shape in shapes for dim in shape for name in dim.symbols()}


def _may_fail(dim: Dim) -> bool:
    """Whether a size is no length for some lengths of its symbols."""
    for monomial, factor in dim.terms:
        if factor < 0 or factor != int(factor) or any(power < 0 for _, power in monomial):
            return True
    return False


def _inside(demand: Demand, call: Call, caller: Graph, callee: Graph) -> Demand:
    """A demand of a callee in the sizes of its caller."""
    symbols = inside(call, caller, callee, {})
    there = [part.substitute(symbols) for part in demand]
    return tuple(caller.sizes.expand(part) if isinstance(part, Dim) else part for part in there)


def _sets_size(demand: Demand, call: Call) -> bool:
    """Whether a call gives a size that would else be the program's."""
    dims = [part for part in demand if isinstance(part, Dim)]
    return len(demand) == len(dims) == 1 and dims[0].name in call.sizes


def _symbols(demand: Demand) -> set[str]:
    return {name for part in demand for name in part.symbols()}
