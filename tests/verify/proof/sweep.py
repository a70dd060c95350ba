"""Every shipped plan on several meshes against one device: ``python -m proof.sweep simulated``.

``processes`` does the same on 2 and 4 gloo processes, readable code and kernels. One line for every
model and mesh; what fails is printed in full.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from multiprocessing import Pool

from frontend.plans.shipped import DIAGRAMS, MODELS, names

from xg.cli.rank_proofs import prove_on_processes, prove_pipeline_on_processes
from xg.cli.verification import rank_lines as lines
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import Project, read_project
from xg.verify.plan_proof import RankProof, prepared, prove_ranks
from xg_runtime.errors import XgRuntimeError

MESHES = ((2, 3), (3, 2), (2, 4), (4, 2), (3, 4), (4, 3))  # N_D and N_T
GROUPS = {(2, 3): 2, (3, 2): 3, (2, 4): 3, (4, 2): 3, (3, 4): 2, (4, 3): 2}  # N_G of them
TIMEOUT = 300.0
Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Job:
    """The plans of one file to be proven on one mesh; `on` is simulated, processes or kernels."""

    file: str
    mesh: Mesh
    plans: tuple[str, ...]
    on: str


def jobs(on: str) -> Iterator[Job]:
    """Every plan of every file on every mesh that it has the axes of, once."""
    for file in MODELS:
        found: dict[Mesh, list[str]] = {}
        for plan, axes in axes_of_plans(file).items():
            meshes = _simulated(axes) if on == "simulated" else _processes(axes)
            for mesh in dict.fromkeys(meshes):
                found.setdefault(mesh, []).append(plan)
        for mesh, plans in found.items():
            yield Job(file, mesh, tuple(plans), on)


@cache
def shipped_project(file: str) -> Project:
    """A shipped file with all that it uses."""
    return read_project(DIAGRAMS / file)


@cache
def axes_of_plans(file: str) -> Mapping[str, tuple[str, ...]]:
    """The plans that a file names itself, and the axes of the mesh that each cuts over."""
    project = shipped_project(file)
    plans = plans_of(project)
    return {plan: tuple(plans[plan].mesh) for plan in names(project)}


def _simulated(axes: Sequence[str]) -> Iterator[Mesh]:
    """Neighboring axes differ."""
    for data, tensor in MESHES:
        sizes = {"N_D": data, "N_T": tensor, "N_G": GROUPS[data, tensor]}
        sizes |= {"N_R": tensor, "N_S": tensor, "N_PP": data}
        yield tuple((axis, sizes[axis]) for axis in axes)


def _processes(axes: Sequence[str]) -> Iterator[Mesh]:
    """All ways in which 2 or 4 ranks have these axes, or 8 three of them; of several none has 4."""
    for sizes in product((1, 2, 4), repeat=len(axes)):
        if prod(sizes) in (2, 4, 8) and (len(axes) == 1 or 4 not in sizes):
            yield tuple(zip(axes, sizes, strict=True))


def prove(job: Job) -> tuple[str, bool]:
    """One line about a job, with what failed before it; and whether nothing did."""
    said = f"{job.file} on " + " × ".join(f"{axis} = {size}" for axis, size in job.mesh)
    settings = dict(job.mesh)
    try:
        proofs = list(_proofs(job, settings))
    except (DiagnosticError, XgRuntimeError) as error:
        return f"{error}\n{said}, {job.on}: {', '.join(job.plans)} STOPPED", False
    wrong = [proof for proof in proofs if not proof.passed]
    details = [line for proof in wrong for line in lines(job.file, settings, proof)]
    counted = (
        f"{len(proofs)} plans, {len(wrong)} FAILED" if wrong else f"{len(proofs)} plans proven"
    )
    line = f"{said}, {job.on}: {counted} ({', '.join(job.plans)}){_measured(proofs)}"
    return "\n".join([*details, line]), not wrong


def _proofs(job: Job, settings: Mapping[str, int]) -> Iterator[RankProof]:
    project, block = shipped_project(job.file), MODELS[job.file]
    if job.on == "simulated":
        yield from (prove_ranks(project, block, plan, settings, seed=0) for plan in job.plans)
        return
    found = [prepared(project, block, plan, settings) for plan in job.plans]
    kernels, flat = job.on == "kernels", [each for each in found if not each.many.stages]
    for each in found:
        if each.many.stages:
            yield prove_pipeline_on_processes(each, 0, TIMEOUT, kernels=kernels)
    if flat:
        yield from (proof for _, proof in prove_on_processes(flat, 0, TIMEOUT, kernels=kernels))


def _measured(proofs: Sequence[RankProof]) -> str:
    floats = [proof.floats for proof in proofs if proof.floats]
    error = max(found.error for each in floats for found in each.agreements.values())
    controls = [control for each in floats for control in each.controls]
    needed = sum(control.verdict == "needed" for control in controls)
    missed = f", {needed} of {len(controls)} collectives missed" if controls else ""
    return f", error at most {error:.1e}{missed}"


if __name__ == "__main__":
    asked = sys.argv[1:] or ["simulated", "processes", "kernels"]
    failed = 0
    for on in asked:
        todo = list(jobs(on))
        with Pool(None if on == "simulated" else 1) as pool:
            for text, passed in pool.imap(prove, todo):
                print(text, flush=True)  # noqa: T201
                failed += not passed
        plans = sum(len(job.plans) for job in todo)
        print(f"{on}: {plans} plans on {len(todo)} meshes of models, {failed} FAILED")  # noqa: T201
    sys.exit(failed > 0)
