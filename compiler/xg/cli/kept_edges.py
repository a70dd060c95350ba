"""Edges by the names a reader of the figure gives them: `H`, `attn.P`, `layers.0.attn.Q`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from xg.codegen.variables import variables
from xg.diagnostics.wording import similar
from xg.ir.labels import place_names
from xg.sharding.local import cuts_of_value
from xg_runtime.errors import InputError
from xg_runtime.ranks import all_reduce, all_reduce_max, gather_shard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xg.ir.graph import Backward, IRProgram, Value
    from xg.verify.reference.interpret import Record

GRADIENT: Final = "d/"  # in front of the name of what it is the gradient of


def kept(
    program: IRProgram, record: Record, names: Sequence[str], *, reverse: bool = False
) -> dict[str, NDArray[Any]]:
    """The arrays on these edges in one run of the interpreter; raises InputError.

    ``d/H`` is the gradient of H, which there is where the run was one in `reverse`, too.
    """
    backwards = program.backwards if reverse else None
    calls = record.by_path()
    arrays: dict[str, NDArray[Any]] = {}
    for name in names:
        of_gradient = name.startswith(GRADIENT)
        path, _, edge = name.removeprefix(GRADIENT).rpartition(".")
        if path not in calls:
            raise InputError(f"no call is named {path}{_instead(path, calls)}")
        values = _named(calls[path], edge, program)
        if edge not in values:
            raise InputError(f"no edge is named {name}{_edge_instead(path, edge, values)}")
        if of_gradient:
            arrays[name] = _gradient(calls[path], values[edge], name, backwards)
        else:
            arrays[name] = _whole(calls[path], values[edge], program)
    return arrays


def _named(run: Record, edge: str, program: IRProgram) -> dict[str, Value]:
    """The values of a run by their names: in the file, or else in code and figures.

    Values that code and figures leave unnamed have the name of what gives them.
    """
    named = sorted((value for value in run.values if value.name), key=lambda v: v.role != "cache")
    names = {str(value.name): value for value in named}  # an edge before a mask called as it is
    if edge in names:
        return names
    places = {name: v for v, name in place_names(run.graph).items() if v in run.values}
    if edge in places:
        return places | names
    of_code = variables(program).get(run.graph.key, {})
    return {name: v for v, name in of_code.items() if v in run.values} | names


def _gradient(
    run: Record, value: Value, name: str, backwards: Mapping[str, Backward] | None
) -> NDArray[Any]:
    """The gradient of a value; raises InputError where none reaches it."""
    if backwards is None:
        raise InputError(f"{name} is a gradient: it needs those of the outputs, --d-outputs G.npz")
    gradient = backwards[run.graph.key].totals.get(value)
    if gradient is None or gradient not in run.reverse:
        raise InputError(f"{name} is not there: no gradient reaches {name.removeprefix(GRADIENT)}")
    return run.reverse[gradient]


def _edge_instead(path: str, edge: str, values: Collection[str]) -> str:
    """The names that an unknown edge may have been: figures show the gradient of H as dH."""
    if edge.startswith("d") and edge[1:] in values:
        return f": the gradient is {GRADIENT}{path + '.' if path else ''}{edge[1:]}"
    return _instead(edge, values)


def _whole(run: Record, value: Value, program: IRProgram) -> NDArray[Any]:
    """The array of a value; on a rank gathered from all of them."""
    array, placement = run.values[value], run.graph.placements.get(value)
    if placement is None:
        return array
    for axis, state in placement.items():
        if state.kind in "PM":
            array = (all_reduce if state.kind == "P" else all_reduce_max)(array, axis)
    return gather_shard(array, cuts_of_value(program, run.graph, value, {}))


def _instead(name: str, known: Collection[str]) -> str:
    other = similar(name, known)
    some = ", ".join(sorted(each for each in known if each not in ("", "None"))[:20])
    return f": did you mean {other}?" if other else f": there are {some or 'none'}"
