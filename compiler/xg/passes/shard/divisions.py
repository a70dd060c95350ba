"""Which axes of a shape the ranks of a mesh axis can share, as far as numbers are known."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import ONE, Dim, DimError, product, symbol
from xg.ir.graph import Program
from xg.ir.tensor import Shape, Sizes

Cut = tuple[str, int]  # a mesh axis and the axis that it cuts, counted from the end
Question = tuple[Shape, tuple[Cut, ...]]  # a shape and where other mesh axes cut it


def bound_by_calls(
    program: Program, outside: Mapping[str, frozenset[str]]
) -> Mapping[str, frozenset[str]]:
    """For every graph the symbols that a call, also one further out, binds to another size.

    `outside` are those of graphs that are called from outside of the program.
    """
    bound = {key: outside.get(key, frozenset[str]()) for key in program.graphs}
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        for call in graph.calls:
            callee = program.graphs[call.callee].sizes
            other = {name for name, size in call.sizes.items() if size != symbol(name)}
            own = callee.local & callee.defaults.keys()
            bound[call.callee] |= (bound[key] - own) | other
    return bound


@dataclass(slots=True)
class Divisions:
    """Answers for one mesh axis under the same numbers of the program's sizes and of the mesh.

    Symbols that are `bound` by calls have the numbers of callers, which are not asked here.
    """

    axis: str
    sizes: Sizes
    given: Mapping[str, int]
    bound: frozenset[str] = frozenset()
    numbers: Mapping[str, int] = field(init=False)
    shapes: dict[Question, tuple[int, ...]] = field(
        default_factory=dict["Question", "tuple[int, ...]"]
    )
    dims: dict[tuple[Dim, tuple[str, ...]], bool] = field(
        default_factory=dict[tuple[Dim, "tuple[str, ...]"], bool]
    )

    def __post_init__(self) -> None:
        """Number the symbols; the program gives those of a block's own no number."""
        others = self.sizes.local | self.bound
        sizes = self.sizes.without(self.bound)
        self.numbers = sizes.bind({n: v for n, v in self.given.items() if n not in others})

    def cuts(self, question: Question) -> tuple[int, ...]:
        """The axes that can be cut behind the cuts of other mesh axes, counted from the end."""
        if question not in self.shapes:
            shape, others = question
            self.shapes[question] = tuple(
                place
                for place in range(-len(shape), 0)
                if shape[place] != ONE
                and self._divides(shape[place], [a for a, axis in others if axis == place])
            )
        return self.shapes[question]

    def answer(self, answers: Mapping[Question, tuple[int, ...]]) -> bool:
        """Whether questions have these answers here too."""
        return all(self.cuts(question) == answer for question, answer in answers.items())

    def are_same(self, given: Mapping[str, int]) -> bool:
        """Whether all that was asked has the same answer under other numbers."""
        return Divisions(self.axis, self.sizes, given, self.bound).answer(self.shapes)

    def _divides(self, dim: Dim, others: list[str]) -> bool:
        key = dim, (*others, self.axis)
        if key not in self.dims:
            self.dims[key] = self._is_whole(dim / product(map(symbol, key[1])))
        return self.dims[key]

    def _is_whole(self, dim: Dim) -> bool:
        if any(name not in self.numbers for name in dim.symbols()):
            return True
        try:
            return dim.evaluate(self.numbers) > 0
        except DimError:
            return False
