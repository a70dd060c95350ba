"""A proof of gradients and of the code of one device, as people and as programs read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xg.cli.render import proven_edges
from xg.cli.render.amounts import data_of
from xg.codegen.backend import backends
from xg.diagnostics.wording import counted
from xg.ir.graph import Apply, Graph
from xg.ir.scalar import Scalar
from xg.ir.walk import having
from xg_runtime.gradtable import as_json, table

if TYPE_CHECKING:
    from xg.frontend.typed import Settings
    from xg.ir.graph import Program
    from xg.verify.gradient_proof import GradientProof, Reference
    from xg.verify.rank_comparison import RankAgreement
    from xg.verify.zeros import ZeroProof


def lines(file: str, settings: Settings, proof: GradientProof) -> Iterator[str]:
    """One proof as people read it."""
    main = proof.program.graphs.main
    chosen = [f"{name}={value}" for name, value in settings.items()]
    yield " ".join([f"{file}: {main.block}", *chosen])
    domain = f", {proof.domain}" if proof.domain else ""
    drops = dropout_said(proof.program.graphs)
    yield f"at {spelled_sizes(proof.sizes, settings)}, float64{drops}{domain}"
    yield table(proof.gradients).rstrip()
    for backend, reference in proof.references.items():
        yield f"{backends()[backend].title} code and interpreter {agreement_said(reference)}"
    if proof.edges is not None:
        yield from proven_edges.lines(file, settings, proof.edges, main.block, proof.gradients.seed)


def agreement_said(found: Reference | RankAgreement) -> str:
    """The verdict on outputs and gradients that were computed in two ways."""
    if found.first is not None:
        return f"DIFFER: first in {found.first}, error {found.error:.1e}"
    numbers = f"{counted(found.outputs, 'output')} and {counted(found.gradients, 'gradient')}"
    return f"agree: {numbers}, error at most {found.error:.1e}"


def spelled_sizes(sizes: Mapping[str, int], settings: Settings) -> str:
    """The sizes of a proof; those that no setting gives are chosen, whatever the file has."""
    chosen = "sizes chosen small, " if sizes.keys() - settings.keys() else ""
    spelled = ", ".join(f"{name} = {size}" for name, size in sorted(sizes.items()))
    return f"{chosen}{spelled}" or "fixed sizes"


def dropout_said(program: Program) -> str:
    """That dropout is on, where there is some."""

    def drops(graph: Graph) -> bool:
        steps = (step for step in graph.steps if isinstance(step, Apply))
        chances = (step.attrs["p"] for step in steps if step.op.name == "dropout")
        return any(not isinstance(p, Scalar) or p.constant != 0 for p in chances)

    return ", dropout on" if having(program, drops) else ""


def summary(proofs: Sequence[GradientProof], passed: bool) -> str:
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


def as_data(file: str, settings: Settings, proof: GradientProof) -> Mapping[str, object]:
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
        "references": {
            backend: {"error": data_of(reference.error), "first_difference": reference.first}
            for backend, reference in proof.references.items()
        },
        "edges": proof.edges and proven_edges.as_data(proof.edges),
    }
