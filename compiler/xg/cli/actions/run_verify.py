"""`xg verify`: the proofs, as a table or as data."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xg.cli.arguments import settings_of
from xg.cli.commands.verify import OTHERS
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cli.ranking_pipelines import prove_pipeline_on_processes
from xg.cli.ranking_processes import prove_on_processes
from xg.cli.render import proven_gradients, proven_ranks
from xg.cli.render.claims import as_data, lines
from xg.cli.render.json_text import json_text
from xg.codegen.backend import Form, default, find, on_processes
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.diagnostics.wording import counted
from xg.driver import compile_project
from xg.frontend.choices import choices_to_meet
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, takes_own
from xg.verify.examples.claim_check import CheckedDocument, checked
from xg.verify.gradient_proof import GradientProof, prove
from xg.verify.plan_proof import RankProof, prepared, prove_ranks, wanted, wanted_in_every_choice
from xg_runtime.errors import InputError

RANKS = ("single", "exact")


@np.errstate(all="ignore")  # every proof asks whether all is finite
def run(options: Namespace, console: Console) -> int:
    """Prove every block, then every plan, then check every document; a failure stops nothing."""
    kinds = _kinds(options)
    parts: list[_KindOfProof] = []
    ranks = {*RANKS} & {*kinds}
    alone = () if options.plan else _without_ranks(kinds)  # these have no other proof
    if "fd" in kinds or alone or ({*OTHERS} & {*kinds} and not ranks):
        parts.append(_gradients(options, console, kinds))
    if ranks:
        of_ranks = [kind for kind in kinds if kind not in alone]
        parts.append(_ranks(options, console, of_ranks))
    if "document" in kinds:
        parts.append(_claims(options, console))
    passed = all(part.passed for part in parts)
    if options.json:
        data: dict[str, object] = {"passed": passed}
        console.write(json_text(data | {part.key: part.data for part in parts}))
    else:
        for part in parts:
            console.judge(part.summary)
    return FINE if passed else PROBLEM


def _without_ranks(kinds: Sequence[str]) -> Sequence[str]:
    """The backends asked for whose code is for one device only."""
    return [name for name in OTHERS if name in kinds and "ranks" not in find(name).forms]


def _kinds(options: Namespace) -> Sequence[str]:
    """The kinds of proof asked for; raises InputError for processes with nothing to run."""
    if options.on != "processes":
        return options.against or (RANKS if options.plan or options.on else ("fd",))
    kinds = options.against or ("single",)
    chosen = on_processes()
    if not {*kinds} <= {"single", chosen.name}:
        others = ",".join(kind for kind in kinds if kind not in ("single", chosen.name))
        raise InputError(
            f"--on processes holds the {chosen.title} code of ranks against one device: it goes "
            f"with --against single, and {others} is for a command without it"
        )
    return ("single",)


@dataclass(frozen=True, slots=True)
class _KindOfProof:
    """The results of one kind: the last line, and its key in the data."""

    passed: bool
    summary: str
    key: str
    data: list[Mapping[str, object]]


def _gradients(options: Namespace, console: Console, kinds: Sequence[str]) -> _KindOfProof:
    """Derived gradients, and the code of one device; people see each at once."""
    backends = _backends(kinds)
    proven: list[tuple[str, Settings, GradientProof]] = []
    for file, doing in _at_work(options):
        project = open_project(file)
        for block, settings in _wanted(project, options):
            console.working(f"{doing}, {block}" if block else doing)
            given = project, block, settings, options.seed, backends
            proof = prove(*given, kernels=options.kernels, edges=True)
            proven.append((file, settings, proof))
            if not options.json:
                console.judge_all([*proven_gradients.lines(*proven[-1]), ""])
    proofs = [proof for _, _, proof in proven]
    passed = bool(proofs) and all(proof.passed for proof in proofs)
    said = proven_gradients.summary(proofs, passed)
    return _KindOfProof(
        passed, said, "proofs", [proven_gradients.as_data(*each) for each in proven]
    )


def _ranks(options: Namespace, console: Console, kinds: Sequence[str]) -> _KindOfProof:
    """Ranks against one device, under the plans that are asked for; people see each at once."""
    prove = _on_processes if options.on == "processes" else _on_simulated
    proven: list[tuple[str, Settings, RankProof]] = []
    for file, doing in _at_work(options):
        console.working(f"{doing} on ranks")
        for settings, proof in prove(open_project(file), options, kinds):
            proven.append((file, settings, proof))
            if not options.json:
                console.judge_all([*proven_ranks.lines(*proven[-1]), ""])
            console.working(f"{doing} on ranks")
    proofs = [proof for _, _, proof in proven]
    passed = bool(proofs) and all(proof.passed for proof in proofs)
    said = proven_ranks.summary(proofs, passed)
    return _KindOfProof(passed, said, "ranks", [proven_ranks.as_data(*each) for each in proven])


def _at_work(options: Namespace) -> Iterator[tuple[str, str]]:
    """Every file, and what is done with it."""
    files = options.files
    for place, file in enumerate(files, 1):
        yield file, f"{place}/{len(files)} proving {file}" if len(files) > 1 else f"proving {file}"


def _on_simulated(
    project: Project, options: Namespace, kinds: Sequence[str]
) -> Iterator[tuple[Settings, RankProof]]:
    for block, plan, settings in _wanted_plans(project, options):
        yield (
            settings,
            prove_ranks(
                project,
                block,
                plan,
                settings,
                options.seed,
                _backends(kinds, "ranks"),
                floats="single" in kinds,
                exact="exact" in kinds,
                kernels=options.kernels,
            ),
        )


def _on_processes(
    project: Project, options: Namespace, kinds: Sequence[str]
) -> Iterator[tuple[Settings, RankProof]]:
    del kinds  # single is all there is
    on_processes().require()
    cases = [prepared(project, *each) for each in _wanted_plans(project, options)]
    terms = options.seed, options.timeout
    plain = [case for case in cases if not case.many.stages]
    for what, proof in prove_on_processes(plain, *terms, kernels=options.kernels):
        yield what.settings, proof
    for case in cases:
        if case.many.stages:
            proof = prove_pipeline_on_processes(case, *terms, kernels=options.kernels)
            yield case.settings, proof


def _wanted_plans(
    project: Project, options: Namespace
) -> Iterator[tuple[str, str | None, Settings]]:
    settings = settings_of(options)
    if options.every_choice:
        yield from wanted_in_every_choice(project, options.block, options.plan, settings)
    else:
        yield from wanted(project, options.block, options.plan, settings)


def _claims(options: Namespace, console: Console) -> _KindOfProof:
    """The claims of the files' examples."""
    documents = _documents(options, console)
    passed = all(checked.passed for _, checked in documents)
    said = _said_of([checked for _, checked in documents])
    return _KindOfProof(passed, said, "documents", [as_data(*each) for each in documents])


def _backends(kinds: Sequence[str], form: Form | None = None) -> list[str]:
    """The default one and those asked for; raises DiagnosticError if one cannot be run."""
    chosen = [default().name, *(name for name in OTHERS if name in kinds)]
    for name in chosen:
        find(name).require_form(form)
        find(name).require()
    return chosen


def _documents(options: Namespace, console: Console) -> list[tuple[str, CheckedDocument]]:
    """Every example of every file, checked."""
    documents: list[tuple[str, CheckedDocument]] = []
    for file in options.files:
        project = open_project(file)
        for each in checked(project, options.block, settings_of(options), options.seed):
            documents.append((file, each))
            if not options.json:
                console.judge_all([*lines(file, each), ""])
    return documents


def _said_of(documents: list[CheckedDocument]) -> str:
    failed = sum(not checked.passed for checked in documents)
    claims = sum(len(checked.claims) for checked in documents)
    words = f"{counted(len(documents), 'example')}, {counted(claims, 'claim')}: "
    return words + (
        f"{counted(failed, 'example')} FAILED" if failed else "all as the document says"
    )


def _wanted(project: Project, options: Namespace) -> Iterator[tuple[str | None, Settings]]:
    """The blocks to prove: the one named, or callers first those not yet met in another."""
    settings = settings_of(options)
    if options.every_choice and project.main.blocks:
        yield from choices_to_meet(project, settings, options.block)
    elif options.block is not None or not project.main.blocks:
        yield options.block, settings
    else:
        yield from by_default(project, settings)


def by_default(project: Project, settings: Settings) -> Iterator[tuple[str, Settings]]:
    """The blocks to prove, callers first, without those already met in another one.

    One that expects a zero is proven by itself too: it claims that for whatever arrives.
    """
    met: set[Span] = set()
    for block in reversed(project.main.blocks):
        if block.span not in met or takes_own(block, settings) or block.expects:
            name = block.name.name
            own = concerning(project, name, settings)
            graphs = compile_project(project, name, own).graphs
            met.update(graph.span for graph in graphs.graphs.values())
            yield name, own
