"""Products of plans that no file names: two of them, and the sweep over many."""

from __future__ import annotations

import pytest
from frontend.plans.shipped import MODELS
from tier import THOROUGH
from verify.proof import products
from verify.proof.products import Drawn, Outcome, drawn, proof_of, proven


@pytest.mark.parametrize(
    "one",
    [
        *([Drawn("models/transformer.xg", "TP × DP × CP")] if THOROUGH else []),
        Drawn("models/gpt2.xg", "TP × DP × FSDP × Stream"),
    ],
    ids=str,
)
def test_a_product_that_no_file_names_is_proven(one: Drawn) -> None:
    """Exactly, over residues: in floats, with each collective left out, the sweep does it."""
    proof, _ = proof_of(one, floats=False)
    assert proof.passed
    assert proof.exact
    assert all(each.edges > 50 for each in proof.exact)


def test_a_seed_draws_the_same_products_of_every_model() -> None:
    for file in MODELS:
        found = list(drawn(file, 2, 7))
        assert found == list(drawn(file, 2, 7))
        assert {one.plan.count("×") for one in found} <= {2, 3}
        assert found


def test_a_refusal_is_told_and_a_proof_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = proven(Drawn("models/transformer.xg", "DP × Replicas × CP × Ulysses"))
    assert refused.verdict == "refused"
    assert "error[XG" in refused.said
    monkeypatch.setattr(products, "SECONDS", 0.05)  # less than a process takes to start
    assert proven(Drawn("models/gpt2.xg", "TP × DP × FSDP")).verdict == "TOO LONG"


def test_what_is_wrong_fails_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(one: Drawn) -> Outcome:
        return Outcome(one, "WRONG" if "clip" in one.file else "refused", 0.0)

    monkeypatch.setattr(products, "proven", found)
    assert not products.main(1)
    monkeypatch.setattr(products, "MODELS", {"models/gpt2.xg": "GPT2"})
    assert products.main(1)
