"""Run the proofs of `xg verify`, and show them as a table or as data."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.cli.arguments import OTHERS, settings_of
from xg.cli.claims import as_data, lines
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cli.rank_proofs import prove_on_processes, prove_pipeline_on_processes
from xg.codegen.backend import Form, backends, default, find, on_processes
from xg.cost.table import Column, Table, data_of
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.terminal import counted
from xg.driver import compile_project
from xg.frontend.choices import choices_to_meet
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, takes_own
from xg.ir.dim import Scalar
from xg.ir.graph import Apply, Graph
from xg.ir.walk import having
from xg.verify.claim_check import CheckedDocument, checked
from xg.verify.edge_proof import try_rank_edges
from xg.verify.gradient_proof import GradientProof, prove
from xg.verify.plan_proof import (
    RankProof,
    prepared,
    prove_ranks,
    select_proofs,
    wanted_in_every_choice,
)
from xg_runtime.errors import InputError
from xg_runtime.gradcheck import as_json, table

if TYPE_CHECKING:
    from xg.ir.graph import IRProgram
    from xg.verify.controls import Control
    from xg.verify.edge_proof import Disagreement, EdgeProof
    from xg.verify.gradient_proof import Reference
    from xg.verify.plan_proof import Exact, Floats, RankEdges
    from xg.verify.rank_comparison import Edges, RankAgreement, TrafficCheck
    from xg.verify.zeros import ZeroProof
    from xg_runtime.ranks.run_task import Place


# The edges that a proof tried, as people and as programs read them.


LENGTH = re.compile(r"length (?P<length>\d+) of (?P<axis>.+)")
FLOAT = re.compile(r"b?float\d+")
INTEGER = re.compile(r"bool|u?int\d+")


def edge_lines(
    file: str, settings: Settings, edges: EdgeProof, block: str, seed: int
) -> Iterator[str]:
    """One line of what was tried, one of what was not, and each disagreement."""
    if edges.passed:
        verdict = f"all agree in {counted(len(edges.forms), 'form')}"
    else:
        verdict = f"{counted(len(edges.disagreements), 'form')} DISAGREE"
    yield f"edge cases tried: {_list(edge_words(edges.tried))}: {verdict}"
    if edges.left_out:
        yield f"edge cases not tried: {'; '.join(_left_out(edges.left_out))}"
    for each in edges.disagreements:
        yield f"  {_at(each)}: {each.form}: {each.mismatch}"
    if not edges.passed:
        chosen = [f"--set {name}={value}" for name, value in settings.items()]
        against = "" if len(edges.backends) < 2 else f"--against {','.join(edges.backends[1:])}"
        words = ["xg verify", file, f"--block {block}", *chosen, against, f"--seed {seed}"]
        yield f"  to see it again: {' '.join(filter(None, words))}"


def edge_words(edges: Iterable[str]) -> list[str]:
    """Edges in words: lengths of all axes together, and types as a range."""
    words: list[str] = []
    lengths: dict[str, list[str]] = {}
    types: dict[str, list[str]] = {"integer": [], "float": []}
    for edge in edges:
        found = LENGTH.fullmatch(edge)
        if found:
            lengths.setdefault(found["axis"], []).append(found["length"])
        elif INTEGER.fullmatch(edge):
            types["integer"].append(edge)
        elif FLOAT.fullmatch(edge):
            types["float"].append(edge)
        else:
            words.append(edge)
    axes: dict[str, list[str]] = {}
    for axis, numbers in lengths.items():
        numbers.sort(key=int)
        plural = f"lengths {_and(numbers)}" if len(numbers) > 1 else f"length {numbers[0]}"
        axes.setdefault(plural, []).append(axis)
    words += [f"{length} of {_and(names)}" for length, names in axes.items()]
    return words + [f"{_range(names)}" for names in types.values() if names]


def _range(types: Sequence[str]) -> str:
    return _and(types) if len(types) < 3 else f"{types[0]} to {types[-1]}"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none"


def _left_out(reasons: Mapping[str, str]) -> Iterator[str]:
    """Edges with the reasons; those with the same reason together."""
    edges: dict[str, list[str]] = {}
    for edge, reason in reasons.items():
        edges.setdefault(reason, []).append(edge)
    for reason, names in edges.items():
        yield f"{_and(edge_words(names))} ({reason})"


def _at(each: Disagreement) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in each.sizes.items())
    return f"{each.edge}, {sizes}" if sizes else each.edge


def edge_data(edges: EdgeProof) -> Mapping[str, object]:
    """The same as data."""
    return {
        "passed": edges.passed,
        "tried": list(edges.tried),
        "forms": list(edges.forms),
        "not_tried": dict(edges.left_out),
        "disagreements": [
            {
                "edge": each.edge,
                "form": each.form,
                "sizes": dict(each.sizes),
                "tensor": each.mismatch.tensor,
                "place": list(each.mismatch.place),
                "found": _edge_number(each.mismatch.found),
                "expected": _edge_number(each.mismatch.expected),
                "what": each.mismatch.what or str(each.mismatch),
            }
            for each in edges.disagreements
        ],
    }


def _edge_number(number: float) -> float | str:
    """A number as JSON has it, which knows no infinity."""
    return number if abs(number) < float("inf") else str(number)


# A proof of gradients and of the code of one device, as people and as programs read it.


def gradient_lines(file: str, settings: Settings, proof: GradientProof) -> Iterator[str]:
    """One proof as people read it."""
    main = proof.program.graphs.main
    chosen = [f"{name}={value}" for name, value in settings.items()]
    yield " ".join([f"{file}: {main.block}", *chosen])
    domain = f", {proof.domain}" if proof.domain else ""
    drops = dropout_note(proof.program.graphs)
    yield f"at {spelled_sizes(proof.sizes, settings)}, float64{drops}{domain}"
    yield table(proof.gradients).rstrip()
    if proof.ties:
        yield f"ties at all inputs: {_list(proof.ties)}; gradients are those of the conventions"
    for backend, reference in proof.references.items():
        yield f"{backends()[backend].title} code and interpreter {agreement_text(reference)}"
    if proof.edges is not None:
        yield from edge_lines(file, settings, proof.edges, main.block, proof.gradients.seed)


def agreement_text(found: Reference | RankAgreement) -> str:
    """The verdict on outputs and gradients that were computed in two ways."""
    if found.first is not None:
        return f"DIFFER: first in {found.first}, error {found.error:.1e}"
    numbers = f"{counted(found.outputs, 'output')} and {counted(found.gradients, 'gradient')}"
    return f"agree: {numbers}, error at most {found.error:.1e}"


def spelled_sizes(sizes: Mapping[str, int], settings: Settings) -> str:
    """The sizes of a proof; those that no setting gives are chosen, whatever the file has."""
    chosen = "small sizes that xg chose, " if sizes.keys() - settings.keys() else ""
    spelled = ", ".join(f"{name} = {size}" for name, size in sorted(sizes.items()))
    return f"{chosen}{spelled}" or "fixed sizes"


def dropout_note(program: IRProgram) -> str:
    """Return a note that dropout is on, or an empty text if the program has none."""

    def drops(graph: Graph) -> bool:
        steps = (step for step in graph.steps if isinstance(step, Apply))
        chances = (step.attrs["p"] for step in steps if step.op.name == "dropout")
        return any(not isinstance(p, Scalar) or p.constant != 0 for p in chances)

    return ", dropout on" if having(program, drops) else ""


def gradient_summary(proofs: Sequence[GradientProof], passed: bool) -> str:
    """The last line."""
    failed = sum(not proof.passed for proof in proofs)
    gradients = sum(len(proof.gradients.rows) for proof in proofs)
    words = f"{counted(len(proofs), 'block')}, {counted(gradients, 'gradient')}: "
    return words + ("all proven" if passed else f"{counted(failed, 'block')} FAILED")


def _zero_data(path: str, zero: ZeroProof) -> Mapping[str, object]:
    """A gradient that the file expects to be zero."""
    return {
        "name": path,
        "line": zero.meant.span.line,
        "text": zero.meant.text,
        "passed": bool(zero.proven_by),
        "proven_by": zero.proven_by,
        "otherwise": zero.otherwise,
    }


def gradient_data(file: str, settings: Settings, proof: GradientProof) -> Mapping[str, object]:
    """The same as data."""
    return {
        "file": file,
        "block": proof.program.graphs.main.block,
        "settings": dict(settings),
        "sizes": dict(sorted(proof.sizes.items())),
        "domain": proof.domain,
        "seed": proof.gradients.seed,
        "passed": proof.passed,
        "gradients": as_json(proof.gradients)["gradients"],
        "zeros": [_zero_data(path, zero) for path, zero in proof.zeros.items()],
        "ties": list(proof.ties),
        "references": {
            backend: {"error": data_of(reference.error), "first_difference": reference.first}
            for backend, reference in proof.references.items()
        },
        "edges": proof.edges and edge_data(proof.edges),
    }


# A proof of a parallel program, as people and as programs read it.


PLACES: Final[Mapping[Place, str]] = {
    "simulated": "{} simulated ranks",
    "processes": "{} ranks that are processes",
}
WHY: Final[Mapping[str, str]] = {
    "zeros": "only adds to what is zero",
    "unused": "brings what no output or gradient depends on",
    "not needed": "NOT NEEDED: without it nothing differs",
}


def rank_lines(file: str, settings: Settings, proof: RankProof) -> Iterator[str]:
    """One proof as people read it."""
    yield _title(file, settings, proof)
    sizes = spelled_sizes(proof.case.sizes, settings)
    ranks = " × ".join(f"{axis} = {size}" for axis, size in proof.program.mesh.items())
    on = PLACES[proof.on].format(prod(proof.program.mesh.values()))
    yield f"at {sizes}, on {on}, {ranks}{dropout_note(proof.program.graphs)}"
    if proof.floats:
        yield from _floats(proof.floats)
    if proof.edges:
        yield from _rank_edges(proof.edges)
    if proof.exact:
        yield _exact(proof.exact)


def _rank_edges(edges: RankEdges) -> Iterator[str]:
    """One line of what was tried, and one of what was not."""
    verdict = "agree" if edges.first is None else f"DIFFER: first at {edges.first}"
    tried = _list(edge_words(edges.tried))
    yield f"edge cases tried: {tried}: ranks and one device {verdict}"
    if edges.left_out:
        yield f"edge cases not tried: {'; '.join(_left_out(edges.left_out))}"


def _title(file: str, settings: Settings, proof: RankProof) -> str:
    plan = [f"plan {proof.case.plan}"] if proof.case.plan else ["as it is written"]
    chosen = [f"{name}={value}" for name, value in settings.items()]
    return " ".join([f"{file}: {proof.program.graphs.main.block},", *plan, *chosen])


def _floats(floats: Floats) -> Iterator[str]:
    yield from _sent(floats).lines()
    for backend, agreement in floats.agreements.items():
        said = agreement_text(agreement)
        yield f"{backends()[backend].title} code of ranks and of one device {said}"
    if floats.edges is not None:
        yield _edges(floats.edges)
    yield from _controls(floats.controls)


def _edges(edges: Edges) -> str:
    if edges.first is None:
        agree = "agrees" if edges.count == 1 else "agree"
        tensors = counted(edges.count, "tensor")
        return f"interpreter: {tensors} {agree}, replicated ones bit for bit"
    return f"interpreter: tensors DIFFER: first {edges.first}"


def _controls(controls: Sequence[Control]) -> Iterator[str]:
    needed = sum(each.verdict == "needed" for each in controls)
    if controls:
        yield (
            f"{needed} of {len(controls)} collectives are needed: "
            "the check fails without any one of them"
        )
    for each in controls:
        if each.verdict != "needed":
            yield f"  {each.kind} over {each.over} {WHY[each.verdict]}: {each.code}"


def _sent(floats: Floats) -> Table[TrafficCheck]:
    """The collectives that ran, and what the formulas say of them."""
    return Table(
        (
            Column("pass", "pass", lambda sent: sent.direction),
            Column("collective", "collective", lambda sent: sent.kind),
            Column("over", "over", lambda sent: sent.over),
            _number("calls", lambda sent: sent.counted[0]),
            _number("elements", lambda sent: sent.counted[1]),
            Column("matches formula", "expected", _expected_traffic, _agreement),
        ),
        floats.sent,
    )


def _number(name: str, value: Callable[[TrafficCheck], int]) -> Column[TrafficCheck]:
    return Column(name, name, value, lambda sent: f"{value(sent):,}", right=True)


def _expected_traffic(sent: TrafficCheck) -> Mapping[str, object]:
    return {"calls": sent.said[0], "elements": sent.said[1]}


def _agreement(sent: TrafficCheck) -> str:
    agrees = "yes" if sent.agrees else "NO: {:,} calls of {:,}".format(*sent.said)
    return agrees + (f", bundling {sent.said[0]:,} calls" if sent.saves_calls else "")


def _exact(found: Sequence[Exact]) -> str:
    wrong = next((each for each in found if each.first is not None), None)
    if wrong is not None:
        return f"modulo {wrong.prime}: ranks and one device DIFFER: first {wrong.first}"
    primes = ", ".join(str(each.prime) for each in found)
    return f"modulo {primes}: all {found[0].edges} tensors and {found[0].arrays} results are equal"


def rank_summary(proofs: Sequence[RankProof], passed: bool) -> str:
    """The last line."""
    if not proofs:
        return "nothing is proven: no plan applies to a block, and no block mentions ranks"
    failed = sum(not proof.passed for proof in proofs)
    words = counted(len(proofs), "parallel program")
    return f"{words}: all proven" if passed else f"{words}: {failed} FAILED"


def rank_data(file: str, settings: Settings, proof: RankProof) -> Mapping[str, object]:
    """The same as data."""
    data: dict[str, object] = {
        "file": file,
        "block": proof.program.graphs.main.block,
        "plan": proof.case.plan,
        "settings": dict(settings),
        "sizes": dict(sorted(proof.case.sizes.items())),
        "mesh": dict(proof.program.mesh),
        "on": proof.on,
        "passed": proof.passed,
    }
    if proof.floats:
        data["single"] = _floats_data(proof.floats)
    if proof.edges:
        data["edges"] = {
            "tried": list(proof.edges.tried),
            "not_tried": dict(proof.edges.left_out),
            "first_difference": proof.edges.first,
        }
    if proof.exact:
        data["exact"] = [
            {"prime": each.prime, "edges": each.edges, "first_difference": each.first}
            for each in proof.exact
        ]
    return data


def _floats_data(floats: Floats) -> Mapping[str, object]:
    return {
        "passed": floats.passed,
        "code": {
            backend: {"error": data_of(agreement.error), "first_difference": agreement.first}
            for backend, agreement in floats.agreements.items()
        },
        "edges": floats.edges
        and {"compared": floats.edges.count, "first_difference": floats.edges.first},
        "sent": _sent(floats).data(),
        "controls": [
            {"collective": c.kind, "over": c.over, "code": c.code, "verdict": c.verdict}
            for c in floats.controls
        ],
    }


RANKS = ("single", "exact")


@np.errstate(all="ignore")  # every proof asks whether all is finite
def verify(options: Namespace, console: Console) -> int:
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
            f"--on processes only compares {chosen.title} ranks with one device: write "
            f"--against single here, and check {others} in a run without --on"
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
        for block, settings in _blocks_to_prove(project, options):
            console.working(f"{doing}, {block}" if block else doing)
            given = project, block, settings, options.seed, backends
            proof = prove(*given, kernels=options.kernels, edges=True)
            proven.append((file, settings, proof))
            if not options.json:
                console.judge_lines([*gradient_lines(*proven[-1]), ""])
    proofs = [proof for _, _, proof in proven]
    passed = bool(proofs) and all(proof.passed for proof in proofs)
    said = gradient_summary(proofs, passed)
    return _KindOfProof(passed, said, "proofs", [gradient_data(*each) for each in proven])


def _ranks(options: Namespace, console: Console, kinds: Sequence[str]) -> _KindOfProof:
    """Ranks against one device, under the plans that are asked for; people see each at once."""
    prove = _on_processes if options.on == "processes" else _on_simulated_ranks
    proven: list[tuple[str, Settings, RankProof]] = []
    for file, doing in _at_work(options):
        console.working(f"{doing} on ranks")
        for settings, proof in prove(open_project(file), options, kinds):
            proven.append((file, settings, proof))
            if not options.json:
                console.judge_lines([*rank_lines(*proven[-1]), ""])
            console.working(f"{doing} on ranks")
    proofs = [proof for _, _, proof in proven]
    passed = bool(proofs) and all(proof.passed for proof in proofs)
    said = rank_summary(proofs, passed)
    return _KindOfProof(passed, said, "ranks", [rank_data(*each) for each in proven])


def _at_work(options: Namespace) -> Iterator[tuple[str, str]]:
    """Every file, and what is done with it."""
    files = options.files
    for place, file in enumerate(files, 1):
        yield file, f"{place}/{len(files)} proving {file}" if len(files) > 1 else f"proving {file}"


def _on_simulated_ranks(
    project: Project, options: Namespace, kinds: Sequence[str]
) -> Iterator[tuple[Settings, RankProof]]:
    backends = _backends(kinds, "ranks")
    single, kernels = "single" in kinds, options.kernels
    for block, plan, settings in _wanted_plans(project, options):
        given = project, block, plan, settings
        proof = prove_ranks(
            *given, options.seed, backends, floats=single, exact="exact" in kinds, kernels=kernels
        )
        if single:
            programs = prepared(*given)
            edges = try_rank_edges(project, programs, options.seed, backends, kernels=kernels)
            proof = replace(proof, edges=edges)
        yield settings, proof


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
        yield from select_proofs(project, options.block, options.plan, settings)


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
                console.judge_lines([*lines(file, each), ""])
    return documents


def _said_of(documents: list[CheckedDocument]) -> str:
    failed = sum(not checked.passed for checked in documents)
    claims = sum(len(checked.claims) for checked in documents)
    words = f"{counted(len(documents), 'example')}, {counted(claims, 'claim')}: "
    return words + (
        f"{counted(failed, 'example')} FAILED" if failed else "all as the document says"
    )


def _blocks_to_prove(project: Project, options: Namespace) -> Iterator[tuple[str | None, Settings]]:
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
