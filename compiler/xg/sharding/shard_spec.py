"""Which axes of a rank program's arrays are cut, and by which mesh axes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xg.ir.dim import product, symbol
from xg.ir.graph import Graph, Program, Value
from xg.ir.instances import Symbols
from xg.ir.mesh_axes import axis_of, ordered_axis
from xg.ir.parameters import param_specs
from xg.ir.placement import Placement
from xg.ir.plan import zigzag_axes

# Axes counted from the end; the outermost cut of one first, with its length where that is padded.
ShardSpec = tuple[tuple[int, str] | tuple[int, str, int], ...]


def cuts(program: Program) -> dict[str, ShardSpec]:
    """The cuts of every parameter (by path), input and output of a program that runs on a mesh."""
    main = program.main
    names = [*((str(value.name), value) for value in main.inputs)]
    names += zip(main.output_names, main.outputs, strict=True)
    found = {name: cuts_of_value(program, main, value, {}) for name, value in names}
    for path, param, graph, symbols in param_specs(program):
        found[path] = cuts_of_value(program, graph, param.value, symbols)
    return found


def cuts_of_value(program: Program, graph: Graph, value: Value, symbols: Symbols) -> ShardSpec:
    """The cuts of one value of a rank's program; the outermost of an axis has its length."""
    placement = graph.placements.get(value, {})
    cuts = placed_cuts(placement, program.mesh, zigzag_axes(program.plan))
    shape = graph.types[value].shape if program.lengths else ()
    known: set[int] = set()
    found: list[tuple[int, str] | tuple[int, str, int]] = []
    for axis, over in cuts:
        parts = [symbol(axis_of(each)) for at, each in cuts if at == axis]
        whole = product((shape[axis].substitute(symbols), *parts)).name if shape else ""
        if whole and whole in program.lengths and axis not in known:
            found.append((axis, over, program.lengths[whole]))
        else:
            found.append((axis, over))
        known.add(axis)
    return tuple(found)


def placed_cuts(
    placement: Placement, mesh: Mapping[str, int], zigzag: Collection[str]
) -> tuple[tuple[int, str], ...]:
    """The cuts of one tensor, in the order of the mesh; `zigzag` are mesh axes in that order."""
    states = [(placement[axis], ordered_axis(axis, zigzag)) for axis in mesh if axis in placement]
    return tuple((state.axis, over) for state, over in states if state.kind == "S")
