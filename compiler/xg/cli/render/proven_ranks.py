"""A proof of a parallel program, as people and as programs read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from xg.cli.render.amounts import data_of
from xg.cli.render.proven_gradients import agreement_said, dropout_said, spelled_sizes
from xg.cli.render.table import Column, Table
from xg.codegen.backend import backends
from xg.diagnostics.wording import counted

if TYPE_CHECKING:
    from xg.frontend.typed import Settings
    from xg.verify.controls import Control
    from xg.verify.first_edge import Edges
    from xg.verify.plan_proof import Floats, RankProof
    from xg.verify.rank_comparison import TrafficCheck
    from xg.verify.residues import Exact
    from xg_runtime.ranks.run_task import Place

PLACES: Final[Mapping[Place, str]] = {
    "simulated": "{} simulated ranks",
    "processes": "{} ranks that are processes",
}
WHY: Final[Mapping[str, str]] = {
    "zeros": "only adds to what is zero",
    "unused": "brings what no output or gradient depends on",
    "not needed": "NOT NEEDED: without it nothing differs",
}


def lines(file: str, settings: Settings, proof: RankProof) -> Iterator[str]:
    """One proof as people read it."""
    yield _title(file, settings, proof)
    sizes = spelled_sizes(proof.case.sizes, settings)
    ranks = " × ".join(f"{axis} = {size}" for axis, size in proof.program.mesh.items())
    on = PLACES[proof.on].format(prod(proof.program.mesh.values()))
    yield f"at {sizes}, on {on}, {ranks}{dropout_said(proof.program.graphs)}"
    if proof.floats:
        yield from _floats(proof.floats)
    if proof.exact:
        yield _exact(proof.exact)


def _title(file: str, settings: Settings, proof: RankProof) -> str:
    plan = [f"plan {proof.case.plan}"] if proof.case.plan else ["as it is written"]
    chosen = [f"{name}={value}" for name, value in settings.items()]
    return " ".join([f"{file}: {proof.program.graphs.main.block},", *plan, *chosen])


def _floats(floats: Floats) -> Iterator[str]:
    yield from _sent(floats).lines()
    for backend, agreement in floats.agreements.items():
        said = agreement_said(agreement)
        yield f"{backends()[backend].title} code of ranks and of one device {said}"
    if floats.edges is not None:
        yield _edges(floats.edges)
    yield from _controls(floats.controls)


def _edges(edges: Edges) -> str:
    if edges.first is None:
        return f"{edges.count} edges of the interpreter agree, in bits where ranks hold the same"
    return f"the first edge that DIFFERS: {edges.first}"


def _controls(controls: Sequence[Control]) -> Iterator[str]:
    needed = sum(each.verdict == "needed" for each in controls)
    if controls:
        yield f"{needed} of {len(controls)} collectives: without it the check fails, as it should"
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
            Column("as formulas say", "expected", _expected, _agreement),
        ),
        floats.sent,
    )


def _number(name: str, value: Callable[[TrafficCheck], int]) -> Column[TrafficCheck]:
    return Column(name, name, value, lambda sent: f"{value(sent):,}", right=True)


def _expected(sent: TrafficCheck) -> Mapping[str, object]:
    return {"calls": sent.said[0], "elements": sent.said[1]}


def _agreement(sent: TrafficCheck) -> str:
    agrees = "yes" if sent.agrees else "NO: {:,} calls of {:,}".format(*sent.said)
    return agrees + (f", bundling {sent.said[0]:,} calls" if sent.saves_calls else "")


def _exact(found: Sequence[Exact]) -> str:
    wrong = next((each for each in found if each.first is not None), None)
    if wrong is not None:
        return f"modulo {wrong.prime} ranks and one device DIFFER: first {wrong.first}"
    primes = ", ".join(str(each.prime) for each in found)
    return f"modulo {primes} all {found[0].edges} edges and {found[0].arrays} results are equal"


def summary(proofs: Sequence[RankProof], passed: bool) -> str:
    """The last line."""
    if not proofs:
        return "no plan reaches a block, and no block speaks of ranks: nothing is proven"
    failed = sum(not proof.passed for proof in proofs)
    words = counted(len(proofs), "parallel program")
    return f"{words}: all proven" if passed else f"{words}: {failed} FAILED"


def as_data(file: str, settings: Settings, proof: RankProof) -> Mapping[str, object]:
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
