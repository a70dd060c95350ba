"""Edges by the names a reader of the figure gives them: `H`, `attn.P`, `layers.0.attn.Q`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from xg.sharding.shard_spec import placed_cuts
from xg_runtime.errors import InputError
from xg_runtime.ranks import all_reduce, all_reduce_max, current, gather_shard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xg.ir.graph import Value
    from xg.verify.reference.interpret import Record


def kept(record: Record, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The arrays on these edges in one run of the interpreter; raises InputError."""
    calls = _calls(record)
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        path, _, edge = name.rpartition(".")
        if path not in calls:
            raise InputError(f"no call is named {path}{_instead(path, calls)}")
        values = {str(value.name): value for value in calls[path].values}
        if edge not in values:
            raise InputError(f"no edge is named {name}{_instead(edge, values)}")
        found[name] = _whole(calls[path], values[edge])
    return found


def _whole(run: Record, value: Value) -> NDArray[Any]:
    """The array of a value; on a rank gathered from all of them."""
    array, placement = run.values[value], run.graph.placements.get(value)
    if placement is None:
        return array
    for axis, state in placement.items():
        if state.kind in "PM":
            array = (all_reduce if state.kind == "P" else all_reduce_max)(array, axis)
    return gather_shard(array, placed_cuts(placement, current().sizes))


def _calls(record: Record) -> dict[str, Record]:
    """Every call's run by its path, the first where a call is made twice; the whole one is ""."""
    found: dict[str, Record] = {}
    waiting = [record]
    while waiting:
        run = waiting.pop(0)
        found.setdefault(run.path, run)
        waiting += [inner for rounds in run.calls.values() for inner in rounds]
    return found


def _instead(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    some = ", ".join(sorted(each for each in known if each not in ("", "None"))[:20])
    return f": did you mean {close[0]}?" if close else f": there are {some or 'none'}"
