"""Try the edges of a parallel program: simulated ranks against one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.frontend.project import Project
from xg.frontend.typed import shape_project
from xg.verify.domains import free_axes, refusal
from xg.verify.edges.point import Point
from xg.verify.plan_proof import Prepared, RankEdges, comparison_of, prepared
from xg_runtime.errors import InputError, RankError

DRAWS: Final = 3  # few numbers may meet at no kink, or all be stopped by a rectifier
ALONE: Final = "ranks cannot share one position"


def try_rank_edges(
    project: Project, programs: Prepared, seed: int, backends: Sequence[str], *, kernels: bool
) -> RankEdges:
    """Run each backend's code of ranks and of one device at ties, at zeros and on short axes."""
    trial = _RankTrial(tuple(backends), kernels)
    base = _point(programs, "", seed)
    trial.hold(programs, [base.tied(number) for number in range(DRAWS)])
    trial.hold(programs, [base.zeros()])
    for edge, short in _short(project, programs):
        reason = ALONE if short is None else refusal(short.one.graphs)
        if short is None or reason:
            trial.left_out[edge] = reason or ALONE
        else:
            trial.hold(short, [_point(short, edge, seed)])
    return RankEdges((*trial.tried,), trial.left_out, trial.first)


@dataclass(slots=True)
class _RankTrial:
    """The edges of a parallel program as they are tried, up to the first that differs."""

    backends: tuple[str, ...]
    kernels: bool
    tried: dict[str, None] = field(default_factory=dict[str, None])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    first: str | None = None

    def hold(self, programs: Prepared, points: Sequence[Point]) -> None:
        """Compare ranks with one device at points of one edge, until they differ."""
        for point in points:
            if point.undefined_output is not None or point.undefined_gradient is not None:
                if point.edge not in self.tried:
                    self.left_out[point.edge] = "a result or a gradient is not finite there"
                continue
            self.tried[point.edge] = None
            self.left_out.pop(point.edge, None)
            for name in self.backends if self.first is None else ():
                found = self._difference(programs, point, name)
                if found is not None:
                    self.first = f"{point.edge}, {name}: {found}"

    def _difference(self, programs: Prepared, point: Point, backend: str) -> str | None:
        """The first array that is wrong on ranks."""
        comparison = replace(
            comparison_of(programs.one, programs.many, point.draw),
            params=point.params,
            inputs=point.inputs,
            cotangents=point.cotangents,
        )
        one, many = (
            program.on_arrays(backend, kernels=self.kernels)
            for program in (programs.one, programs.many)
        )
        try:
            return comparison.compare(
                comparison.on_one_device(one), comparison.on_ranks(many)
            ).first
        except RankError as error:
            return str(error)


def _point(programs: Prepared, edge: str, seed: int) -> Point:
    """Numbers in general position, as the comparison draws them."""
    drawn = comparison_of(programs.one, programs.many, seed)
    params, inputs = dict(drawn.params), dict(drawn.inputs)
    return Point(edge, programs.one.graphs, params, inputs, seed, seed)


def _short(project: Project, programs: Prepared) -> Iterator[tuple[str, Prepared | None]]:
    """The programs with each free axis of length 1; None if ranks can't share it."""
    block, plan, settings = programs.case.block, programs.case.plan, programs.settings
    assert block is not None
    file = shape_project(project, block, settings).main.sizes.defaults
    for name in free_axes(programs.one.graphs, file):
        edge = f"length 1 of {name}"
        try:
            yield edge, prepared(project, block, plan, {**settings, name: 1})
        except (DiagnosticError, InputError):
            yield edge, None
