"""Which axes of a rank program's arrays are cut, and by which mesh axes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xg.ir.graph import Program
from xg.ir.mesh_axes import ordered_axis
from xg.ir.parameters import param_specs
from xg.ir.placement import Placement
from xg.ir.plan import zigzag_axes

ShardSpec = tuple[tuple[int, str], ...]  # axes counted from the end; the outermost cut of one first


def cuts(program: Program) -> dict[str, ShardSpec]:
    """The cuts of every parameter (by path), input and output of a program that runs on a mesh."""
    main = program.main
    named = [(str(value.name), main.placements.get(value, {})) for value in main.inputs]
    pairs = zip(main.output_names, main.outputs, strict=True)
    named += [(name, main.placements.get(value, {})) for name, value in pairs]
    named += [
        (path, graph.placements.get(param.value, {}))
        for path, param, graph, _ in param_specs(program)
    ]
    mesh = program.mesh, zigzag_axes(program.plan)
    return {name: placed_cuts(placement, *mesh) for name, placement in named}


def placed_cuts(
    placement: Placement, mesh: Mapping[str, int], zigzag: Collection[str]
) -> ShardSpec:
    """The cuts of one tensor, in the order of the mesh; `zigzag` are mesh axes in that order."""
    states = [(placement[axis], ordered_axis(axis, zigzag)) for axis in mesh if axis in placement]
    return tuple((state.axis, over) for state, over in states if state.kind == "S")
