"""A mesh to verify a parallel program on, and sizes that its ranks can share.

Neighbouring axes of the mesh differ in size, so that a sum over the wrong one shows; what ranks cut
is a prime times their number, also where that follows only from what they compute, as heads do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.choose_plan import plan_named
from xg.frontend.project import Project
from xg.frontend.typed import Settings, dims_of, shape_project
from xg.ir.axes import axes_of
from xg.ir.dim import Dim, DimError, number
from xg.ir.graph import Graph, Program
from xg.ir.instances import instances
from xg.passes.pipelines import RANK, SINGLE
from xg.passes.runner import run
from xg.sharding.apply_plan import is_about_calls, placed_values, with_mesh
from xg.sharding.check_plan import check_placed
from xg.sharding.cut_rows import cut_row
from xg.sharding.divisibility import check_shares
from xg.sharding.padding import PaddedCut, padded_cuts, padded_numbers
from xg.verify.facts import bounds, shard_sizes
from xg.verify.proof_sizes import lengths_left_out, verification_sizes
from xg_runtime.errors import InputError

RANKS: Final = (2, 3)  # along the axes of a mesh, in turn
ROUNDS_OF_STAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A block under a plan (None for one that is parallel by hand), with all that is set."""

    block: str | None
    plan: str | None
    settings: Settings
    sizes: Mapping[str, int]


def case(project: Project, block: str | None, plan: str | None, settings: Settings) -> Case:
    """A block with a number for every size and mesh axis that is not set.

    Raises DiagnosticError where the plan does not fit, or numbers that are set cannot be shared.
    """
    mesh = mesh_sizes(project)
    if plan is not None:  # neighbours of the axes that it has differ
        axes = plan_named(project, plan, {**mesh, **settings}).mesh
        mesh |= dict(zip(axes, cycle(RANKS), strict=False))
    chosen: dict[str, str | int] = {**mesh, **settings}
    typed = _typed(project, block, plan, chosen)
    set_numbers = {name: value for name, value in settings.items() if isinstance(value, int)}
    whole = run(SINGLE, typed).result
    own = {name: size for name, size in set_numbers.items() if name not in mesh}
    own |= _rounds(typed, own)
    free = _free(typed, own)
    reached = tuple(placed_values(free))
    padded = padded_numbers(free, reached)
    check_shares(replace(free, numbers={**free.numbers, **padded}), reached)  # of what is set
    try:
        # What a choice of options leaves unused is cut and bounded as well.
        unused = tuple(dim for dim in shard_sizes(free) if dim.constant is None)
        even, shared = {**own, **padded}, (*_shared(free), *unused)
        bounded = (*bounds(free), *lengths_left_out(free, whole))  # the file is refused without
        sizes = verification_sizes(whole, even, shared, bounded)
    except DimError as error:
        raise InputError(f"no sizes that the ranks can share: {error}") from error
    declared = dims_of(project, block)
    true = {name: own[name] for name in padded}
    uneven = _uneven(padded_cuts(free, reached), sizes, own) | true
    numbers = {name: n for name, n in {**sizes, **uneven}.items() if name in declared}
    return Case(block, plan, {**chosen, **numbers}, {**sizes, **uneven})


def _uneven(
    cuts: Iterable[PaddedCut], sizes: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that are padded, one less than what ranks can share: the last has one pad."""
    return {
        cut.name: max(sizes[cut.name], 2 * cut.parts) - 1
        for cut in cuts
        if cut.name in sizes and cut.name not in given and cut.parts > 1
    }


def mesh_sizes(project: Project) -> dict[str, int]:
    """A small size for every mesh axis that the files declare."""
    names = dict.fromkeys(mesh.name.name for each in project.modules for mesh in each.meshes)
    return dict(zip(names, cycle(RANKS), strict=False))


def reaches(project: Project, block: str | None, plan: str, settings: Settings) -> bool:
    """Whether a plan places anything in a block, or says what it computes again."""
    chosen: dict[str, str | int] = {**mesh_sizes(project), **settings}
    typed = shape_project(project, block, chosen)
    named = replace(typed, plan=plan_named(project, plan, chosen))
    return next(iter(placed_values(named)), None) is not None or is_about_calls(named)


def _typed(project: Project, block: str | None, plan: str | None, settings: Settings) -> Program:
    """The typed program on its mesh, without the numbers that its sizes have in the file."""
    typed = shape_project(project, block, settings)
    if plan is not None:
        typed = replace(typed, plan=plan_named(project, plan, settings))
        check_placed(placed_values(typed))
    return with_mesh(typed)


def _rounds(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """Two rounds for each stage of a pipeline, where the number of rounds is not set."""
    row = cut_row(_free(program, given))
    name = row.call.count.name if row and row.call.count else None
    if row is None or name is None or name in given:
        return {}
    return {name: ROUNDS_OF_STAGE * (row.ranks or 1) * row.turns}


def _free(program: Program, given: Mapping[str, int]) -> Program:
    """The program without the numbers of the file, which may be none that ranks can share."""

    def free(graph: Graph) -> Graph:
        sizes = graph.sizes
        defaults = {name: size for name, size in sizes.defaults.items() if name in given}
        return replace(graph, sizes=replace(sizes, defaults=defaults))

    graphs = {key: free(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, numbers=dict(given))


def _shared(program: Program) -> tuple[Dim, ...]:
    """Every length of an axis in the program of one rank that ranks share, the mesh in numbers."""
    ranks = run(RANK, program).result
    mesh = {axis: number(size) for axis, size in program.mesh.items()}
    dims = (
        dim.substitute(symbols).substitute(mesh)
        for graph, symbols in instances(ranks)
        for dim in axes_of(graph)
        if not mesh.keys().isdisjoint(dim.symbols())
    )
    return tuple(dict.fromkeys(dim for dim in dims if dim.constant is None))
