"""Tell in words what differs between the record of a block and the block as it is now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from math import isfinite
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg_pages.diff.compare import otherwise
from xg_testing.lockfile import EMISSIONS, ENTERS, BlockLock, Lock, LockedEdge

FIGURES: Final = "figure."


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences of one block: `meaning` fails a check, `notes` don't.

    `unified` are the lines of both programs as `diff -u` prints them.
    """

    block: str
    file: str
    meaning: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unified: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether the block means what its record says."""
        return not self.meaning

    def lines(self) -> Iterator[str]:
        """Yield the report of one block as people read it."""
        verdict = "as locked" if self.passed else "CHANGED"
        yield f"{self.file}: {self.block}: {verdict}"
        yield from (f"  {line}" for line in (*self.meaning, *self.notes))
        if self.unified:
            yield ""
            yield from (f"  {line}" for line in self.unified)


def changes(lock: Lock, old: BlockLock | None, new: BlockLock) -> Changes:
    """Compare a block with its record, which is None if the lock has none."""
    if old is None:
        return Changes(new.block, new.file, ("is not in the lock",))
    renamed = _find_renames(old, new)
    found = [
        *(
            f"{name} is now {other}: renamed, nothing else changes"
            for name, other in renamed.items()
        ),
        *_edges(_renaming(old.edges, renamed), new.edges),
        *_outputs(_rename_outputs(old.outputs, renamed), new.outputs),
        *_plans(old.plans, new.plans),
        *_numbers(lock, old, new, renamed),
    ]
    notes: list[str] = []
    kinds = [kind for kind in new.code if old.code.get(kind, new.code[kind]) != new.code[kind]]
    if kinds and not found:
        if lock.emission < len(EMISSIONS):
            notes += [f"{', '.join(kinds)}: written otherwise since {EMISSIONS[-1]}"]
        else:
            found.append(f"{', '.join(kinds)}: the text changed, though the program did not")
    before, after = ([*map(str, each.edges)] for each in (old, new))
    unified = unified_diff(before, after, "locked", "now", lineterm="", n=1)
    return Changes(new.block, new.file, tuple(found), tuple(notes), tuple(unified))


def _edges(old: Sequence[LockedEdge], new: Sequence[LockedEdge]) -> Iterator[str]:
    """Yield what changed in each edge; unnamed ones are matched by their place."""
    pairs = _pairs(old, new)
    before = {each.name: each for each in _renaming(old, pairs)}
    after = {each.name: each for each in new}
    for name, edge in after.items():
        was = before.get(name)
        if was is None:
            yield f"{_shown(edge)} is new: {_making(edge)}"
        elif was != edge:
            yield f"{_shown(edge)} {'; '.join(_edge(was, edge))}"
    yield from (
        f"{_shown(each)} is gone: {_making(each)}"
        for name, each in before.items()
        if name not in after
    )


def _edge(old: LockedEdge, new: LockedEdge) -> Iterator[str]:
    if old.shape != new.shape:
        yield f"has shape {new.shape}, was {old.shape}"
    if old.maker != new.maker:
        yield f"is made by {new.maker}, was {old.maker}"
    else:
        yield from otherwise(old.making, new.making, new.maker)


def _shown(edge: LockedEdge) -> str:
    return f"{edge.maker} {edge.name}" if edge.maker in ENTERS else edge.name


def _making(edge: LockedEdge) -> str:
    operands = ", ".join(name for name, _ in edge.making.operands)
    return edge.shape if edge.maker in ENTERS else f"{edge.maker}({operands}) {edge.shape}"


def _renaming(some: Sequence[LockedEdge], names: Mapping[str, str]) -> tuple[LockedEdge, ...]:
    """Return edges under other names, as operands too."""

    def named(edge: LockedEdge) -> LockedEdge:
        operands = tuple((names.get(name, name), known) for name, known in edge.making.operands)
        return replace(
            edge,
            name=names.get(edge.name, edge.name),
            making=replace(edge.making, operands=operands),
        )

    return tuple(map(named, some))


def _rename_outputs(names: Sequence[str], other: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(other.get(name, name) for name in names)


def _pairs(old: Sequence[LockedEdge], new: Sequence[LockedEdge]) -> dict[str, str]:
    """Match the unnamed edges of two programs by what makes them, in order."""
    before, after = ([each for each in some if each.maker not in ENTERS] for some in (old, new))
    was_keys, now_keys = ([*map(_signature, some)] for some in (before, after))
    found: dict[str, str] = {}
    taken = {each.name for each in new}
    for tag, i, i_end, j, j_end in SequenceMatcher(None, was_keys, now_keys, False).get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            for was, now in zip(before[i:i_end], after[j:j_end], strict=True):
                if not was.is_named and not now.is_named:
                    found[was.name] = now.name
    for each in before:
        if not each.is_named and each.name not in found and each.name in taken:
            found[each.name] = f"{each.name} before"
    return found


def _signature(edge: LockedEdge) -> tuple[str, tuple[str, ...], str]:
    named = tuple(name for name, is_named in edge.making.operands[1:] if is_named)
    return edge.maker, named, edge.name if edge.is_named else ""


def _find_renames(old: BlockLock, new: BlockLock) -> dict[str, str]:
    """Return the named edges that have another name now and are otherwise as they were.

    Names follow each other: a renamed input changes the operands of what reads it.
    """
    gone = {each.name for each in old.edges} - {each.name for each in new.edges}
    come = {each.name for each in new.edges} - {each.name for each in old.edges}
    found: dict[str, str] = {}
    for was in old.edges:
        if not was.is_named or was.name not in gone:
            continue
        (moved,) = _renaming([was], found)
        for now in new.edges:
            if now.name in come and now.is_named and replace(now, name=was.name) == moved:
                found[was.name] = now.name
                come.discard(now.name)
                break
    return found


def _outputs(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if tuple(old) != tuple(new):
        yield f"returns {', '.join(new)}, was {', '.join(old)}"


def _plans(old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for plan in dict.fromkeys([*new, *old]):
        if plan not in old:
            yield f"plan {plan} is new"
        elif plan not in new:
            yield f"plan {plan} is gone"
        else:
            now, was = new[plan], old[plan]
            yield from (f"plan {plan} no longer sends: {line}" for line in was if line not in now)
            yield from (f"plan {plan} also sends: {line}" for line in now if line not in was)


def _numbers(
    lock: Lock, old: BlockLock, new: BlockLock, renamed: Mapping[str, str]
) -> Iterator[str]:
    """Yield results whose numbers differ by more than the tolerance, at the same sizes."""
    if old.sizes != new.sizes:
        return  # the sizes follow from the program, whose change is reported
    names = {**renamed, **{f"d{name}": f"d{other}" for name, other in renamed.items()}}
    before = {names.get(name, name): pair for name, pair in old.numbers.items()}
    room = lock.tolerance * max((norm for norm, _ in before.values() if isfinite(norm)), default=0)
    differing = [
        name
        for name, pair in new.numbers.items()
        if name in before and not _agree(before[name], pair, room)
    ]
    if differing:
        yield f"numbers differ: {', '.join(differing)}"


def _agree(old: tuple[float, float], new: tuple[float, float], room: float) -> bool:
    """Compare two summaries; equal infinities agree, and NaN with NaN."""
    return all(
        a == b or abs(a - b) <= room or (a != a and b != b) for a, b in zip(old, new, strict=True)
    )
