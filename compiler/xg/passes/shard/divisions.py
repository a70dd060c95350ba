"""Which axes of a shape the ranks of a mesh axis can share, as far as numbers are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, Dim, DimError, product, symbol
from xg.ir.placement import AxisState
from xg.ir.tensor import Shape

Cut = tuple[str, int]  # a mesh axis and the axis that it cuts, counted from the end


@dataclass(slots=True)
class Divisions:
    """Answers for one mesh axis under the same numbers of sizes and of the mesh."""

    axis: str
    numbers: Mapping[str, int]
    shapes: dict[tuple[Shape, tuple[Cut, ...]], tuple[int, ...]] = field(
        default_factory=dict[tuple[Shape, "tuple[Cut, ...]"], "tuple[int, ...]"]
    )
    dims: dict[tuple[Dim, tuple[str, ...]], bool] = field(
        default_factory=dict[tuple[Dim, "tuple[str, ...]"], bool]
    )

    def cuts(self, shape: Shape, elsewhere: Mapping[str, AxisState]) -> tuple[int, ...]:
        """The axes that can be cut behind the cuts of other mesh axes, counted from the end."""
        others = tuple((a, state.axis) for a, state in elsewhere.items() if state.kind == "S")
        key = shape, others
        if key not in self.shapes:
            places = range(-len(shape), 0)
            self.shapes[key] = tuple(
                place
                for place in places
                if shape[place] != ONE
                and self._divides(shape[place], [a for a, axis in others if axis == place])
            )
        return self.shapes[key]

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
