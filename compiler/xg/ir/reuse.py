"""Which values are arrays of their own, so that the step that reads them may write into them.

A primitive either computes a new array, or it may give its argument, or a view of it: windows that
overlap, rows repeated without a copy, the whole array unchanged. Writing into a view would change
what it is a view of. `Graph.reusable` records the values for which that is safe, and the verifier
asks for the reason of each after every pass.

A result of a module may be an argument or a view of one, as in torch: a copy would cost memory that
few callers need. So a kernel never writes into a result either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Backward, Graph, Program, Value
from xg.ir.parameters import PREPARED
from xg.ir.prim import ARITHMETIC, UNARY, Expr

# In every backend these give a new array without a second reader. A primitive that is not listed
# counts as a view: dropout and `draw` give their argument itself if there is no seed.
NEW: Final = (
    (UNARY - {"stop"})
    | ARITHMETIC
    | {"pow", "where", "sum", "mean", "max", "contract", "concat", "pad", "overlap"}
    | {"gather", "scatter_add", "pick", "place"}
)


def viewed(expr: Expr) -> Iterator[Expr]:
    """The expressions whose array an expression may be, or may be a view of; itself first."""
    waiting = [expr]
    while waiting:
        found = waiting.pop()
        yield found
        if found.prim not in NEW:
            waiting += found.args


@dataclass(frozen=True, slots=True)
class Reuse:
    """Makers and readers of the values of a graph; `kept` are read after its last step."""

    graph: Graph
    makers: dict[Value, Apply]
    readers: dict[Value, Apply]
    reads: Counter[Value]
    kept: frozenset[Value]

    @classmethod
    def of(cls, program: Program, graph: Graph) -> Reuse:
        """The makers and readers of a graph of a program."""
        steps = [step for step in graph.steps if isinstance(step, Apply)]
        reads = Counter(value for step in graph.steps for value in step.inputs)
        return cls(
            graph,
            {value: step for step in steps for value in step.outputs},
            {value: step for step in steps for value in step.inputs},
            reads,
            frozenset(_kept(program, graph)),
        )

    def values(self) -> tuple[Value, ...]:
        """The values that their reader may write into, in the order in which they are made."""
        return tuple(value for value in self.makers if not self.refusal(value))

    def refusal(self, value: Value) -> str:
        """Why the step that reads a value may not write into it; empty if it may."""
        maker, reader = self.makers.get(value), self.readers.get(value)
        if maker is None or maker.op.glyph == PREPARED:
            return "belongs to the caller"
        if value in self.kept or self.reads[value] != 1 or reader is None:
            return "has another reader than one step"
        type_ = self.graph.types[value]
        shapes = [self.graph.types[output].shape for output in reader.outputs]
        if not type_.is_float or type_.shape not in shapes:
            return "has no room for a result of its reader"
        body = maker.body(self.graph.types)
        place = maker.outputs.index(value)
        mine = body.outputs[place]
        if mine.prim not in NEW:
            of = [str(each.name) for each in viewed(mine) if each.prim == "operand"]
            return f"may be a view of {', '.join(of) or 'another array'}"
        others = (other for n, other in enumerate(body.outputs) if n != place)
        if any(each is mine for other in others for each in viewed(other)):
            return "shares its array with another result"
        return ""


def _kept(program: Program, graph: Graph) -> Iterable[Value]:
    """The values of a graph that are read after its last step."""
    yield from graph.outputs
    yield from (state.next for state in graph.states)
    yield from (carry.next for carry in graph.carries)
    if isinstance(graph, Backward):
        yield from graph.gradients.values()
        yield from (value for value, _ in graph.rows)
    elif graph.key in program.backwards:
        yield from program.backwards[graph.key].saved
