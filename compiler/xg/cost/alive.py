"""The bytes alive beside the saved ones: the arrays of the blocks that run, and of their step.

A function of a generated module lets its arrays go when it returns. So while the inmost block runs,
all is there that its callers have made, but for what a line makes and reads at once. Parameters,
saved values and gradients of parameters are counted elsewhere; views are no arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from xg.cost.cost import BYTES, BlockCost, Cost
from xg.cost.largest import NO_ARRAYS, width_of
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import is_inline
from xg.ir.dim import ONE, ZERO, Coefficient, Dim, Monomial, product
from xg.ir.graph import Apply, Backward, Call, Graph, Step, Value
from xg.ir.instances import inside
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType

Types = Mapping[Value, TensorType]
Peaks = tuple[Dim, ...]  # sums of bytes: the largest of them is the most that is alive
Made = tuple[list[tuple[Value, Dim]], Peaks]
Terms = Mapping[Monomial, Coefficient]  # those of a sum


@dataclass(frozen=True, slots=True)
class Alive:
    """Sums of which the largest is the most that is alive, in the sizes of the entry.

    `whole` are those of both passes, `rows` those of the entry's rows alone: of a stage that has
    nothing else.
    """

    whole: Peaks
    rows: Peaks


def alive(cost: Cost) -> Alive:
    """Count what a program has beside saved values."""
    program, walk = cost.program, _Alive(cost)
    for key, graph in program.graphs.items():  # callees come first
        walk.forward[key] = walk.peaks(graph, graph.types, walk.blocks[key].kept)
        if reverse := program.backwards.get(key):
            gradients = frozenset(gradient for _, gradient in reverse.param_gradients())
            walk.backward[key] = walk.peaks(reverse, {**graph.types, **reverse.types}, gradients)
    forward, backward = walk.forward[program.entry], walk.backward.get(program.entry, ())
    given = walk.cotangents(program.backwards.get(program.entry))
    whole = _largest((*forward, *(given + each for each in backward)))
    return Alive(whole, _largest(walk.rows(program.main)))


@dataclass(slots=True)
class _Alive:
    """The peaks of both passes of every graph, in its own symbols."""

    cost: Cost
    blocks: Mapping[str, BlockCost] = field(init=False)
    forward: dict[str, Peaks] = field(default_factory=dict[str, Peaks])
    backward: dict[str, Peaks] = field(default_factory=dict[str, Peaks])

    def __post_init__(self) -> None:
        """Find blocks by their keys."""
        self.blocks = {block.graph.key: block for block in self.cost.blocks}

    def peaks(self, graph: Graph, types: Types, counted: frozenset[Value]) -> Peaks:
        """Those of one pass, which has no array of its own for what is `counted` elsewhere."""
        reads = Counter(value for step in graph.steps for value in step.reads)
        reads.update(graph.outputs)
        local, passing, found = ZERO, dict[Value, Dim](), [ZERO]
        for step in graph.steps:
            there = sum(passing.values(), local)
            if isinstance(step, Apply):
                sizes, inner = self._operator(step, types, counted)
            else:
                sizes, inner = self._call(step, graph, types)
            found += (there + each for each in inner)
            for value in step.reads:
                passing.pop(value, None)
            for value, size in sizes:
                if reads[value] == 1 and self._is_passing(step, value, graph, types):
                    passing[value] = size
                elif reads[value] and value not in counted:
                    local = local + size
            if isinstance(step, Call) and step.again:
                local = local + self._saved_again(step, graph)
            found.append(sum(passing.values(), local))
        return _largest(graph.sizes.expand(each) for each in found)

    def rows(self, main: Graph) -> Iterator[Dim]:
        """The peaks of the backward passes of a graph's rows, with what every round gives."""
        width = BYTES[self.cost.dtype]
        for call in main.calls:
            if call.count is not None:
                callee = self.blocks[call.callee].graph
                symbols = inside(call, main, callee, {})
                given = sum((_bytes(main.types[value], width) for value in call.outputs), ZERO)
                for each in self.backward.get(call.callee, self.forward[call.callee]):
                    yield main.sizes.expand(given + each.substitute(symbols))

    def _is_passing(self, step: Step, value: Value, graph: Graph, types: Types) -> bool:
        """Whether a value that is read once is written where it is read: it has no name.

        In a backward pass it is of one or two primitives too.
        """
        forward = not isinstance(graph, Backward)
        short = isinstance(step, Apply) and (forward or is_inline(step.body(types)))
        return short and value.name is None

    def cotangents(self, reverse: Backward | None) -> Dim:
        """The bytes of the gradients that a pass is given: zeros where the caller gives none."""
        if reverse is None:
            return ZERO
        width = BYTES[self.cost.dtype]
        sizes = (_bytes(reverse.types[value], width) for value in reverse.inputs)
        return reverse.sizes.expand(sum(sizes, ZERO))

    def _operator(self, step: Apply, types: Types, counted: frozenset[Value]) -> Made:
        """The sizes of what a step makes, and the sums of what is there while it does."""
        body, width = step.body(types), BYTES[self.cost.dtype]
        results = dict(zip(step.outputs, map(id, map(_array, body.outputs)), strict=True))
        elsewhere = {results[value] for value in step.outputs if value in counted}
        lasting = frozenset(results.values())
        order = [expr for expr in body.order() if expr.prim not in NO_ARRAYS]
        last = {id(_array(arg)): place for place, expr in enumerate(order) for arg in expr.args}
        there, found = dict[int, Dim](), list[Dim]()
        for place, expr in enumerate(order):
            size = product(expr.shape) * width_of(expr, width)
            there[id(expr)] = ZERO if id(expr) in elsewhere else size
            found.append(sum(there.values(), ZERO))
            there = {
                each: size
                for each, size in there.items()
                if each in lasting or last.get(each, 0) > place
            }
        sizes = [(value, there[array]) for value, array in results.items() if array in there]
        return sizes, _largest(found)

    def _call(self, call: Call, graph: Graph, types: Types) -> Made:
        """The same of a call; a row has the results of the round before beside those of one."""
        callee, width = self.blocks[call.callee], BYTES[self.cost.dtype]
        pairs = [*zip(call.outputs, callee.graph.outputs, strict=False)]
        kept = {value for value, result in pairs if not call.origin and result in callee.kept}
        made = (value for value in call.outputs if value not in kept)
        sizes = [(value, _bytes(types[value], width)) for value in made]
        base = sum((size for _, size in sizes), ZERO) if call.rounds else ZERO
        base = base + (self._saved_again(call, graph) if call.again else ZERO)
        symbols = inside(call, graph, callee.graph, {})
        peaks = (self.backward if call.origin else self.forward)[call.callee]
        return sizes, tuple(base + each.substitute(symbols) for each in peaks)

    def _saved_again(self, call: Call, graph: Graph) -> Dim:
        """The bytes that a call saves which the backward pass runs again."""
        callee = self.blocks[call.callee]
        saved = callee.total.saved * (call.rounds or ONE)
        return saved.substitute(inside(call, graph, callee.graph, {}))


def _bytes(type_: TensorType, floats: int) -> Dim:
    return product(type_.shape) * (floats if type_.is_float else BYTES["int"])


def _array(expr: Expr) -> Expr:
    """The array that an expression is, or is a view of."""
    while expr.prim in NO_ARRAYS and expr.args:
        expr = expr.args[0]
    return expr


def _largest(sums: Iterable[Dim]) -> Peaks:
    """The sums without those that are nowhere above another one."""
    found: list[tuple[Dim, Terms]] = []
    for one in dict.fromkeys(sums):
        terms = dict(one.terms)
        if any(_covers(other, terms) for _, other in found):
            continue
        found = [pair for pair in found if not _covers(terms, pair[1])]
        found.append((one, terms))
    return tuple(one for one, _ in found)


def _covers(large: Terms, small: Terms) -> bool:
    """Whether a sum is at least another at every size: none of its terms is smaller.

    Asked of every pair of sums, most of which differ: the difference itself would be made in vain.
    """
    for term, factor in small.items():
        if large.get(term, 0) < factor:
            return False
    return all(factor >= 0 or term in small for term, factor in large.items())
