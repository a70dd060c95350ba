"""The entries of a plan inside the calls of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.plan import EVERY, INSIDE, WHOLE, BlockId, Entry, Plan


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
