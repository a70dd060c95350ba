"""Assertions about diagrams, for tests of your own.

    from xg_testing import assert_proven

    def test_gradients() -> None:
        assert_proven("mlp.xg")

Each raises AssertionError with a report that names the file, the block and the edge, and
DiagnosticError if the file has errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

import numpy as np

from xg.cli.verification import by_default, gradient_lines, rank_lines
from xg.codegen.backend import backends, default
from xg.driver import compile_project
from xg.frontend.project import Project, read_project
from xg.frontend.typed import Settings
from xg.ir.walk import loss_of
from xg.verify.gradient_proof import prove
from xg.verify.plan_proof import prove_ranks, select_proofs
from xg_runtime import arrays
from xg_runtime.module import Arrays, in_type, is_float
from xg_testing.lockfile import meaning

PathLike = str | os.PathLike[str]
RANKS: Final = ("single", "exact")


@np.errstate(all="ignore")
def assert_proven(
    file: PathLike,
    *,
    against: Sequence[str] = ("fd",),
    block: str | None = None,
    plan: str | None = None,
    seed: int = 0,
) -> None:
    """Raise AssertionError if a gradient or a plan of a file is not proven.

    `against` has the words of `xg verify --against`: `fd` compares gradients with finite
    differences and the code at its edges, `torch` and `jax` also run that code, `single` and
    `exact` compare the ranks of every plan with one device. A `plan` is proven both ways.
    """
    project = read_project(file)
    unknown = {*against} - {"fd", *RANKS, *backends()}
    if unknown:
        raise ValueError(f"no such proof: {', '.join(sorted(unknown))}")
    ranks = RANKS if plan is not None else [kind for kind in RANKS if kind in against]
    reports: list[str] = []
    if {*against} - {*RANKS}:
        reports += _unproven_gradients(project, os.fspath(file), against, block, seed)
    if ranks:
        reports += _unproven_plans(project, os.fspath(file), ranks, block, plan, seed)
    if reports:
        raise AssertionError("\n\n".join(reports))


def _unproven_gradients(
    project: Project, file: str, against: Sequence[str], block: str | None, seed: int
) -> Iterator[str]:
    """Yield the report of every block whose gradients or code are wrong."""
    chosen = [default().name, *(each for each in against if each in backends())]
    blocks = by_default(project, {}) if block is None else [(block, dict[str, str | int]())]
    for name, settings in blocks:
        proof = prove(project, name, settings, seed, [*dict.fromkeys(chosen)], edges=True)
        if not proof.passed:
            yield "\n".join(gradient_lines(file, settings, proof))


def _unproven_plans(
    project: Project,
    file: str,
    kinds: Sequence[str],
    block: str | None,
    plan: str | None,
    seed: int,
) -> Iterator[str]:
    """Yield the report of every plan whose ranks differ from one device."""
    for name, chosen, settings in select_proofs(project, block, plan, {}):
        floats, exact = ("single" in kinds), ("exact" in kinds)
        proof = prove_ranks(project, name, chosen, settings, seed, floats=floats, exact=exact)
        if not proof.passed:
            yield "\n".join(rank_lines(file, settings, proof))


def assert_code_unchanged(
    file: PathLike,
    golden: PathLike,
    *,
    backend: str | None = None,
    block: str | None = None,
    plan: str | None = None,
    settings: Settings | None = None,
) -> None:
    """Raise AssertionError with the difference if a file compiles to other code than `golden`.

    The header with the release of xg, and the comments that quote the diagram, may differ.
    `xg show FILE --as numpy --whole > golden.py` writes a golden.
    """
    program = compile_project(read_project(file), block, settings or {}, plan)
    expected = meaning(Path(golden).read_text("utf-8"))
    found = meaning(program.source(backend))
    if found != expected:
        lines = (expected.splitlines(), found.splitlines())
        difference = unified_diff(*lines, os.fspath(golden), os.fspath(file), lineterm="")
        raise AssertionError("\n".join([f"{file} compiles to other code:", *difference]))


def assert_numbers(
    file: PathLike,
    numbers: PathLike,
    *,
    block: str | None = None,
    settings: Settings | None = None,
    rtol: float = 1e-6,
) -> None:
    """Raise AssertionError if a block computes other numbers than an `.npz` file has.

    The file has inputs and parameters by their names in the diagram (``X``, ``layers.0.W_Q``), and
    outputs (``Y``). For a block with a loss it may have gradients too (``dX``). `rtol` is relative
    to the largest number of each array. Raises ValueError if an input or a parameter is missing.
    """
    program = compile_project(read_project(file), block, settings or {}).on_one_device
    known = arrays.read(Path(numbers))
    taken = [*program.inputs, *program.params]
    missing = [name for name in taken if name not in known]
    if missing:
        raise ValueError(f"{numbers} lacks {', '.join(missing)}")
    module = program.on_arrays()
    floats = [known[name].dtype for name in taken if is_float(known[name])]
    given = in_type({n: known[n] for n in taken}, np.result_type(*floats) if floats else None)
    params = {name: given[name] for name in program.params}
    outputs, saved = module.forward(params, {name: given[name] for name in program.inputs})
    found: Arrays = dict(outputs)
    wanted_gradients = [
        name for name in known if name.removeprefix("d") in taken and name not in taken
    ]
    loss = loss_of(program.graphs.main)
    if wanted_gradients and loss is not None:
        slopes = module.backward(params, saved, {loss: np.ones((), outputs[loss].dtype)})
        found |= {f"d{name}": slope for name, slope in slopes.items()}
    compared = [name for name in known if name not in taken]
    unknown = [name for name in compared if name not in found]
    if unknown or not compared:
        words = ", ".join(unknown) or "no output"
        raise ValueError(f"{numbers} has {words}; {file} computes {', '.join(found)}")
    wrong = [
        line for name in compared for line in _difference(name, found[name], known[name], rtol)
    ]
    if wrong:
        raise AssertionError("\n".join([f"{file} computes other numbers than {numbers}:", *wrong]))


def _difference(name: str, found: np.ndarray, expected: np.ndarray, rtol: float) -> Iterator[str]:
    """Yield a line about an array that is further from the expected one than is allowed."""
    if found.shape != expected.shape:
        yield f"  {name} has shape {list(found.shape)}, expected {list(expected.shape)}"
        return
    finite = np.abs(expected[np.isfinite(expected)])
    room = rtol * float(finite.max(initial=0.0))
    off = ~((np.abs(found - expected) <= room) | (found == expected))
    off &= ~(np.isnan(found) & np.isnan(expected))
    if off.any():
        place = np.unravel_index(int(np.argmax(off)), off.shape)
        at = f" at {[int(i) for i in place]}" if place else ""
        yield (
            f"  {name}{at}: {found[place]:.9g}, expected {expected[place]:.9g}; "
            f"{int(off.sum())} of {off.size} numbers differ by more than {room:.3g}"
        )
