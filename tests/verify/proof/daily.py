"""Proofs of plans as they are tried daily: modulo one prime, and where thorough modulo all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tier import THOROUGH

from xg.driver import BACKENDS
from xg.frontend.project import Project
from xg.frontend.typed import Settings
from xg.verify import plan_proof
from xg.verify.plan_proof import RankProof, prove_ranks
from xg.verify.reference.residues import PRIMES as EVERY

LONGEST = 4 if THOROUGH else 3  # of a ring, in ranks
PRIMES = EVERY if THOROUGH else EVERY[:1]


def proof_of(
    project: Project,
    block: str,
    plan: str | None,
    settings: Settings,
    backends: Sequence[str] = BACKENDS[:1],
    *,
    kernels: bool = False,
    exact: bool = True,
) -> RankProof:
    """Prove a block under a plan.

    Residues are computed for what both forms of code are made of: a test that asks for both has
    them once, and twice only where thorough.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_proof, "PRIMES", PRIMES)
        return prove_ranks(
            project,
            block,
            plan,
            settings,
            0,
            backends,
            exact=THOROUGH or exact,
            kernels=kernels,
        )


def rings(*blocks: str) -> list[tuple[str, int, bool]]:
    """A block, a number of ranks around which its keys go, and whether its code has kernels.

    Daily the code of a block has kernels at every other length, and that of the next at others.
    """
    return [
        (block, ranks, kernels)
        for place, block in enumerate(blocks)
        for ranks in range(1, LONGEST + 1)
        for kernels in (False, True)
        if THOROUGH or kernels == ((ranks + place) % 2 == 1)
    ]
