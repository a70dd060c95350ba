"""The proofs of a diagram file: which there are, and what each says if it fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.cli.render.claims import lines
from xg.cli.verification import by_default, gradient_lines, rank_lines
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.frontend.examples.binding import bind
from xg.frontend.project import Project, read_project
from xg.verify.claim_check import check_document
from xg.verify.gradient_proof import prove
from xg.verify.plan_proof import prove_ranks, select_proofs
from xg_runtime.errors import XgRuntimeError
from xg_testing.checking import accept, check_file

if TYPE_CHECKING:
    from xg.syntax import ast

__all__ = ["DiagnosticError", "failure_text", "proof_cases", "read_project", "run_proof"]

SEED: Final = 0

# The kind of a proof, its block, and the plan or the title of an example.
Case = tuple[str, str, str]


class ProofFailed(Exception):
    """A proof that failed: its text says everything, so no traceback is shown."""


def proof_cases(project: Project) -> Iterator[tuple[str, str, str, int]]:
    """Find the examples, gradients and plans of a file, each with its line.

    Raises DiagnosticError if the file has errors.
    """
    places = {each.name.name: each.span.line for each in project.main.blocks}
    plans = {each.name.name: each.span.line for each in project.main.plan_decls}
    for title, example in _examples(project):
        yield ("example", example.block.name, title, example.span.line)
    for block, settings in by_default(project, {}):
        graphs = compile_project(project, block, settings).on_one_device.graphs
        if any(each.gradients for each in graphs.backwards.values()):
            yield ("gradients", block, "", places[block])
    for block, plan, _ in select_proofs(project, None, None, {}):
        yield ("plan", block, plan or "", plans.get(plan or "", places[block]))


def _examples(project: Project) -> Iterator[tuple[str, ast.Example]]:
    """Yield the examples that claim something, by title or number."""
    for number, example in enumerate(project.main.examples, 1):
        if example.expects:
            yield example.title.value if example.title else str(number), example


def run_proof(project: Project, path: Path, case: Case, *, update: bool) -> None:
    """Run one proof; raises ProofFailed with its report, and DiagnosticError."""
    kind, block, detail = case
    with np.errstate(all="ignore"):  # every proof asks whether all is finite
        report: Iterable[str]
        match kind:
            case "example":
                report = _example_report(project, path.name, block, detail)
            case "gradients":
                proof = prove(project, block, {}, SEED, edges=True)
                report = () if proof.passed else gradient_lines(path.name, {}, proof)
            case "plan":
                ranks = prove_ranks(project, block, detail or None, {}, SEED)
                report = () if ranks.passed else rank_lines(path.name, {}, ranks)
            case _:
                report = _accept(path) if update else _lock_report(path)
    text = "\n".join(report)
    if text:
        raise ProofFailed(text)


def failure_text(error: BaseException) -> str | None:
    """Return what a failure says by itself; None for one that needs its traceback."""
    match error:
        case ProofFailed() | DiagnosticError():
            return str(error)
        case XgRuntimeError():
            return error.message
        case _:
            return None


def _example_report(project: Project, file: str, block: str, name: str) -> Iterator[str]:
    for title, example in _examples(project):
        if (example.block.name, title) == (block, name):
            found = check_document(bind(project, example), SEED)
            if not found.passed:
                yield from lines(file, found)


def _accept(path: Path) -> Sequence[str]:
    for _ in accept([path]):
        pass
    return ()


def _lock_report(path: Path) -> Iterator[str]:
    changed = [each for each in check_file(path) if not each.passed]
    for each in changed:
        yield from (*each.lines(), "")
    if changed:
        accepting = f"pytest --xg-update {path.name}, or xg lock {path.name}"
        yield f"If this is meant, accept it: {accepting}"
