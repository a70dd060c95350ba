"""`xg verify`: the proofs, as a table or as data."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xg.cli.arguments import add_files, add_kernels, open_project, settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.cli.ranks import add_ranks

if TYPE_CHECKING:
    from xg.cli.documents import Checked
    from xg.cli.proving import Proof
    from xg.cli.ranking import RankProof
    from xg.driver import Backend
    from xg.frontend import Settings
    from xg.project import Project

EXAMPLE = "xg verify diagrams/mha.xg"

KINDS = ("fd", "torch", "single", "exact", "document")
RANKS = ("single", "exact")
NAMES: Mapping[str, str] = {"numpy": "NumPy", "torch": "torch"}


def add_arguments(parser: ArgumentParser) -> None:
    """Files, what they are held against, and the form of the answer."""
    add_files(parser)
    parser.add_argument(
        "--against",
        type=against,
        metavar="KIND,...",
        help="fd (finite differences), torch (the torch code too), single (ranks against one "
        "device, under --plan or every plan of the file, and each collective taken away once), "
        "exact (the same over integers modulo primes), document (the claims of the file's "
        "examples); default: fd, with --plan single,exact, with --on processes single",
    )
    parser.add_argument(
        "--every-choice", action="store_true", help="of options, not only the defaults"
    )
    add_kernels(parser)
    parser.add_argument("--seed", type=int, default=0, help="draws parameters, inputs and dropout")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_ranks(parser)


def against(text: str) -> tuple[str, ...]:
    """`fd,torch`."""
    words = tuple(word.strip() for word in text.split(","))
    for word in words:
        if word not in KINDS:
            raise ArgumentTypeError(f"{word!r} is none of {', '.join(KINDS)}")
    return words


def run(options: Namespace, console: Console) -> int:
    """Prove every block, then every plan, then check every document; go on after one that fails."""
    kinds = _kinds(options)
    parts: list[_Part] = []
    if "fd" in kinds or ("torch" in kinds and not {*RANKS} & {*kinds}):
        parts.append(_gradients(options, console, kinds))
    if {*RANKS} & {*kinds}:
        parts.append(_ranks(options, console, kinds))
    if "document" in kinds:
        parts.append(_claims(options, console))
    passed = all(part.passed for part in parts)
    if options.json:
        from xg.cli.json_text import json_text

        data: dict[str, object] = {"passed": passed}
        console.write(json_text(data | {part.key: part.data for part in parts}))
    else:
        for part in parts:
            console.say(part.summary)
    return FINE if passed else PROBLEM


def _kinds(options: Namespace) -> Sequence[str]:
    """What is asked for; raises InputError for processes where they have nothing to run."""
    if options.on != "processes":
        return options.against or (RANKS if options.plan or options.on else ("fd",))
    kinds = options.against or ("single",)
    if not {*kinds} <= {"single", "torch"}:
        from xg_runtime.errors import InputError

        others = ",".join(kind for kind in kinds if kind not in ("single", "torch"))
        raise InputError(
            f"--on processes holds the torch code of ranks against one device: it goes with "
            f"--against single, and {others} is for a command without it"
        )
    return ("single",)


@dataclass(frozen=True, slots=True)
class _Part:
    """What was found of one kind: the last line, and under which key it stands as data."""

    passed: bool
    summary: str
    key: str
    data: list[Mapping[str, object]]


def _gradients(options: Namespace, console: Console, kinds: Sequence[str]) -> _Part:
    """Derived gradients, and the code of one device."""
    proofs = _proofs(options, console, kinds)
    passed = bool(proofs) and all(proof.passed for _, _, proof in proofs)
    said = _summary([proof for _, _, proof in proofs], passed)
    return _Part(passed, said, "proofs", [_as_data(*each) for each in proofs])


def _ranks(options: Namespace, console: Console, kinds: Sequence[str]) -> _Part:
    """Ranks against one device, under the plans that are asked for; people see each at once."""
    from xg.cli import proven_ranks

    prove = _on_processes if options.on == "processes" else _on_simulated
    found: list[tuple[str, Settings, RankProof]] = []
    for file in options.files:
        settings = settings_of(options)
        for proof in prove(open_project(file), settings, options, kinds):
            found.append((file, settings, proof))
            if not options.json:
                console.write("\n".join(proven_ranks.lines(*found[-1])) + "\n\n")
    proofs = [proof for _, _, proof in found]
    passed = bool(proofs) and all(proof.passed for proof in proofs)
    said = proven_ranks.summary(proofs, passed)
    return _Part(passed, said, "ranks", [proven_ranks.as_data(*each) for each in found])


def _on_simulated(
    project: Project, settings: Settings, options: Namespace, kinds: Sequence[str]
) -> Iterator[RankProof]:
    from xg.cli.ranking import prove_ranks, wanted

    for block, plan in wanted(project, options.block, options.plan, settings):
        yield prove_ranks(
            project,
            block,
            plan,
            settings,
            options.seed,
            _backends(kinds),
            floats="single" in kinds,
            exact="exact" in kinds,
            kernels=options.kernels,
        )


def _on_processes(
    project: Project, settings: Settings, options: Namespace, kinds: Sequence[str]
) -> Iterator[RankProof]:
    del kinds  # single is all there is
    from xg.cli.ranking import prepared, wanted
    from xg.cli.ranking_processes import prove_on_processes
    from xg.generated import require_torch

    require_torch()
    asked = wanted(project, options.block, options.plan, settings)
    found = [prepared(project, block, plan, settings) for block, plan in asked]
    yield from prove_on_processes(found, options.seed, options.timeout, kernels=options.kernels)


def _claims(options: Namespace, console: Console) -> _Part:
    """What the files' examples say."""
    from xg.cli.claims import as_data

    documents = _documents(options, console)
    passed = all(checked.passed for _, checked in documents)
    said = _said_of([checked for _, checked in documents])
    return _Part(passed, said, "documents", [as_data(*each) for each in documents])


def _backends(kinds: Sequence[str]) -> list[Backend]:
    """NumPy, and torch where it is asked for; raises DiagnosticError if it is not installed."""
    from xg.generated import require_torch

    if "torch" not in kinds:
        return ["numpy"]
    require_torch()
    return ["numpy", "torch"]


def _proofs(
    options: Namespace, console: Console, kinds: Sequence[str]
) -> list[tuple[str, Settings, Proof]]:
    """Every block of every file, proven; people see each as soon as it is there."""
    from xg.cli.proving import prove

    backends = _backends(kinds)
    found: list[tuple[str, Settings, Proof]] = []
    for file in options.files:
        project = open_project(file)
        for block, settings in _wanted(project, options):
            proof = prove(project, block, settings, options.seed, backends, kernels=options.kernels)
            found.append((file, settings, proof))
            if not options.json:
                console.write("\n".join(_lines(file, settings, proof)) + "\n\n")
    return found


def _documents(options: Namespace, console: Console) -> list[tuple[str, Checked]]:
    """Every example of every file, checked."""
    from xg.cli.claims import lines
    from xg.cli.documents import checked

    found: list[tuple[str, Checked]] = []
    for file in options.files:
        project = open_project(file)
        for each in checked(project, options.block, settings_of(options), options.seed):
            found.append((file, each))
            if not options.json:
                console.write("\n".join(lines(file, each)) + "\n\n")
    return found


def _summary(proofs: list[Proof], passed: bool) -> str:
    failed = sum(not proof.passed for proof in proofs)
    gradients = sum(len(proof.gradients.rows) for proof in proofs)
    words = f"{_counted(len(proofs))}, {gradients} gradients: "
    return words + ("all proven" if passed else f"{_counted(failed)} FAILED")


def _said_of(documents: list[Checked]) -> str:
    failed = sum(not checked.passed for checked in documents)
    claims = sum(len(checked.claims) for checked in documents)
    counted = "1 claim" if claims == 1 else f"{claims} claims"
    words = f"{_examples(len(documents))}, {counted}: "
    return words + (f"{_examples(failed)} FAILED" if failed else "all as the document says")


def _examples(count: int) -> str:
    return "1 example" if count == 1 else f"{count} examples"


def _counted(blocks: int) -> str:
    return "1 block" if blocks == 1 else f"{blocks} blocks"


def _wanted(project: Project, options: Namespace) -> Iterator[tuple[str | None, Settings]]:
    """The blocks to prove: the one named, or callers first those not yet met in another."""
    from xg.choices import choices_to_meet

    settings = settings_of(options)
    if options.block is not None or not project.main.blocks:
        yield options.block, settings
    elif options.every_choice:
        yield from choices_to_meet(project, settings)
    else:
        yield from by_default(project, settings)


def by_default(project: Project, settings: Settings) -> Iterator[tuple[str, Settings]]:
    """The blocks to prove, callers first, without those already met in another one."""
    from xg.blocks import concerning
    from xg.driver import compile_project

    met: set[str] = set()
    for block in reversed(project.main.blocks):
        name = block.name.name
        if name not in met:
            graphs = compile_project(project, name, concerning(project, name, settings)).graphs
            met.update(graph.block for graph in graphs.graphs.values())
            yield name, settings


def _lines(file: str, settings: Settings, proof: Proof) -> Iterator[str]:
    """One proof as people read it."""
    from xg_runtime.gradtable import table

    main = proof.program.graphs.main
    chosen = [f"{name}={value}" for name, value in settings.items()]
    yield " ".join([f"{file}: {main.block}", *chosen])
    sizes = ", ".join(f"{name} = {size}" for name, size in sorted(proof.sizes.items()))
    yield f"at {sizes or 'fixed sizes'}, float64, dropout on"
    yield table(proof.gradients).rstrip()
    for backend, reference in proof.references.items():
        counted = f"{reference.outputs} outputs and {reference.gradients} gradients"
        if reference.first is None:
            said = f"agree: {counted}, error at most {reference.error:.1e}"
        else:
            said = f"DIFFER: first in {reference.first}, error {reference.error:.1e}"
        yield f"{NAMES[backend]} code and interpreter {said}"


def _as_data(file: str, settings: Settings, proof: Proof) -> Mapping[str, object]:
    return {
        "file": file,
        "block": proof.program.graphs.main.block,
        "settings": dict(settings),
        "sizes": dict(sorted(proof.sizes.items())),
        "seed": proof.gradients.seed,
        "passed": proof.passed,
        "gradients": [
            {
                "name": row.name,
                "shape": list(row.shape),
                "coordinates": row.coordinates,
                "directions": row.directions,
                "error": _finite(row.error),
                "tolerance": row.tolerance,
                "verdict": row.verdict,
                "reason": row.reason,
            }
            for row in proof.gradients.rows
        ],
        "references": {
            backend: {"error": _finite(reference.error), "first_difference": reference.first}
            for backend, reference in proof.references.items()
        },
    }


def _finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if abs(number) < float("inf") else None
