"""Find what the entries of a plan reach, and the placement that several give a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import Dim
from xg.ir.plan import EVERY, INSIDE, WHOLE, BlockId, Cuts, Entry, Layout, Plan
from xg.ir.tensor import Shape, Sizes

# The entries of a plan inside the calls of a program.


@dataclass(frozen=True, slots=True)
class Reach:
    """The entries that reach into one call, their paths shortened by the way there.

    Calls with equal reaches are parallel in the same way. `waiting` are the entries of a plan,
    which begin wherever their block is called.
    """

    here: tuple[Entry, ...]
    waiting: tuple[Entry, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.here))

    def __hash__(self) -> int:
        return self._hash  # asked for at every call, and entries are many

    def inside(self, block: BlockId, path: str, *, repeated: bool) -> Reach:
        """Enter a call of a block under the name `path`, `repeated` in a row.

        Entries of plans of that block begin here. A row takes the segment of its rounds too.
        """
        gone = (
            (WHOLE,)
            if entry.memory and entry.path == (path,)
            else _entered(entry.path, path, repeated=repeated)
            for entry in self.here
        )
        inside = [
            replace(entry, path=rest) for entry, rest in zip(self.here, gone, strict=True) if rest
        ]
        begun = (entry for entry in self.waiting if entry.block == block)
        return replace(self, here=tuple(dict.fromkeys([*inside, *begun])))

    def of(self, name: str, *, is_param: bool) -> tuple[Entry, ...]:
        """The placements of a value of this block."""
        near = [entry for entry in self.here if entry.path in ((name,), (EVERY,))]
        return placements_of(near, is_param=is_param)


def reach_of(plan: Plan, block: BlockId) -> Reach:
    """The entries that apply inside the entry block."""
    return Reach((), plan.entries).inside(block, "", repeated=False)


@dataclass(slots=True)
class Reaches:
    """Reaches of one plan inside calls, each computed once."""

    known: dict[tuple[Reach, BlockId, str, bool], Reach] = field(
        default_factory=dict[tuple[Reach, BlockId, str, bool], Reach]
    )
    entries: dict[BlockId, Reach] = field(default_factory=dict["BlockId", Reach])

    def of(self, plan: Plan | None, block: BlockId) -> Reach:
        """The entries that apply inside an entry block; all calls give one plan."""
        if block not in self.entries:
            self.entries[block] = reach_of(plan, block) if plan else Reach((), ())
        return self.entries[block]

    def inside(self, reach: Reach, block: BlockId, path: str, *, repeated: bool) -> Reach:
        """The result of `reach.inside`."""
        key = reach, block, path, repeated
        if key not in self.known:
            self.known[key] = reach.inside(block, path, repeated=repeated)
        return self.known[key]


def placements_of(entries: Sequence[Entry], *, is_param: bool) -> tuple[Entry, ...]:
    """The placements of a value, from entries that end at its name or at ``*``.

    A name is more specific than the ``*`` of its plan. A parameter of a call that the block reads
    itself (``bert.E``) is placed inside that call.
    """
    named = [entry for entry in entries if entry.path != (EVERY,)]
    plans = {entry.plan for entry in named}
    every = (e for e in entries if is_param and e.path == (EVERY,) and e.plan not in plans)
    return (*named, *every)


def _entered(path: Sequence[str], call: str, *, repeated: bool) -> tuple[str, ...]:
    """The rest of a path inside a call; nothing if it leads elsewhere."""
    if tuple(path) == (EVERY,):
        return (EVERY,)
    if tuple(path) in ((WHOLE,), (INSIDE,)):
        return (INSIDE,)
    if path[0] not in (call, EVERY):
        return ()
    below = tuple(path[1:])
    if not repeated or below == (EVERY,):
        return below
    return below[1:] if below[:1] == (EVERY,) else ()


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
