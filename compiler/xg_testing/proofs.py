"""Check a file against its lock, and list the proofs of a diagram: what each says if it fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.cli.claims import lines
from xg.cli.verification import by_default, gradient_lines, rank_lines
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.driver import compile_project
from xg.frontend.examples import bind
from xg.frontend.project import Project, read_project
from xg.verify.claim_check import check_document
from xg.verify.gradient_proof import prove
from xg.verify.plan_proof import prove_ranks, select_proofs
from xg_runtime.errors import FileError, XgRuntimeError
from xg_testing.lockfile import (
    EMISSIONS,
    NAME,
    BlockLock,
    Changes,
    Lock,
    changes,
    lock_project,
    read_lock,
    write_lock,
)

if TYPE_CHECKING:
    from xg.syntax import ast


# Compare the files of a folder with its lock.


def lock_of(file: Path) -> Path:
    """Return the lock beside a diagram."""
    return file.parent / NAME


def sibling_diagrams(lock: Path) -> list[str]:
    """Return the names of the diagrams in the folder of a lock."""
    return sorted(path.name for path in lock.parent.glob("*.xg"))


def check_project(project: Project, lock: Lock, folder: Path) -> Iterator[Changes]:
    """Yield the changes of every block of a file, and of recorded blocks that it lost."""
    present = sibling_diagrams(folder / NAME)
    found: list[BlockLock] = []
    for new in lock_project(project):
        old = lock.find(new, present)
        found += [old] if old is not None else []
        yield changes(lock, old, new)
    for (file, name), old in lock.blocks.items():
        if file == Path(project.main.span.source.name).name and old not in found:
            yield Changes(name, file, ("is gone from the file",))


def check_file(file: Path) -> Iterator[Changes]:
    """Yield the changes of one file; raises FileError if its folder has no lock."""
    lock = read_lock(lock_of(file))
    if lock is None:
        raise FileError(f"there is no {NAME} beside {file}: `xg lock {file}` writes one")
    yield from check_project(read_project(file), lock, file.parent)


def accept(files: Sequence[Path]) -> Iterator[tuple[Path, int, bool]]:
    """Write the locks of these files; yield each lock, its blocks, and whether it changed.

    The records of files in the folder that are not among these stay, those of removed files go.
    """
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    for folder, mine in folders.items():
        path = folder / NAME
        old = read_lock(path) or Lock({})
        names = {file.name for file in mine}
        present = {*sibling_diagrams(path)} - names
        kept = {key: each for key, each in old.blocks.items() if key[0] in present}
        for file in mine:
            for block in lock_project(read_project(file)):
                kept[block.file, block.block] = block
        new = replace(old, blocks=kept, emission=len(EMISSIONS))
        yield path, len(kept), write_lock(path, new)


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
