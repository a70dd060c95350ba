"""The placement of a value that several entries of a plan name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.axis_cuts import Cuts, Layout
from xg.ir.dim import Dim
from xg.ir.plan import Entry
from xg.ir.tensor import Shape, Sizes


class Misfit(Exception):
    """A layout whose dims are not those of the value that it is said of."""

    def __init__(self, layout: Layout, shape: Shape) -> None:
        super().__init__(layout, shape)
        self.layout = layout
        self.shape = shape


class Clash(Exception):
    """Two entries that cut one value differently over one mesh axis."""

    def __init__(self, axis: str, first: Entry, second: Entry) -> None:
        super().__init__(axis, first, second)
        self.axis = axis
        self.first = first
        self.second = second


@dataclass(frozen=True, slots=True)
class Placing:
    """The combined placement of several entries: cuts at `rest`, cuts in `use`.

    Mesh axes are in the order in which they cut, the outermost first: those that stay in use come
    before those that are gathered, so that the gathered part is contiguous. A mesh axis of `over`
    that cuts nothing replicates the value; for other axes nothing is said.
    """

    rest: Cuts
    use: Cuts
    over: frozenset[str]


def cut_axes(layout: Layout, shape: Shape, sizes: Sizes) -> dict[str, int]:
    """The axis that each mesh axis cuts of a value of this shape; raises Misfit.

    Of mesh axes that cut the same axis, the program's mesh lists the outermost first.
    """
    count = len(layout.dims)
    fits = count <= len(shape) if layout.open else count == len(shape)
    pairs = list(zip(layout.dims, shape, strict=False))
    if not fits or not all(dim is None or sizes.same(dim, whole) for dim, whole in pairs):
        raise Misfit(layout, shape)
    return layout.axes(len(shape))


def sized(shape: Shape, cuts: Cuts) -> Iterator[tuple[Dim, tuple[str, ...]]]:
    """Every size that is cut, whole, with the mesh axes that cut it."""
    for axis in sorted(set(cuts.values())):
        yield shape[axis], tuple(name for name in cuts if cuts[name] == axis)


def placing(entries: Iterable[Entry], shape: Shape, sizes: Sizes) -> Placing:
    """The combined placement of a value of this shape; raises Misfit and Clash."""
    said: dict[str, tuple[Entry, int | None, int | None]] = {}
    for entry in entries:
        if entry.rest is None:
            continue
        rest = cut_axes(entry.rest, shape, sizes)
        use = rest if entry.use is None else cut_axes(entry.use, shape, sizes)
        written = dict.fromkeys((*rest, *use, *sorted(entry.over)))  # outermost first
        for axis in (axis for axis in written if axis in entry.over):
            place = rest.get(axis), use.get(axis)
            first, *numbers = said.setdefault(axis, (entry, *place))
            if tuple(numbers) != place:
                raise Clash(axis, first, entry)
    use = {axis: place for axis, (_, _, place) in said.items() if place is not None}
    order = sorted(said, key=lambda axis: axis not in use)
    rest = {axis: place for axis in order if (place := said[axis][1]) is not None}
    return Placing(rest, use, frozenset(said))
