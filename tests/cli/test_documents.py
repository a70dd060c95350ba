"""`xg verify --against document` as a user calls it."""

import json
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

CAT = DIAGRAMS / "examples" / "cat_sleeps.xg"

SCALED = """\
dim S
block Scale(x [S]) -> y [S] {
    param w [S]
    x -> ⊙<-w : y
}
example "Two numbers" of Scale {
    given x = [0.5, 0.25], w = [2, 4]
    expect y = [1.0, 1.0] "Step 1"
}
"""


@pytest.fixture
def scaled(folder: Path) -> Path:
    (folder / "scaled.xg").write_text(SCALED, encoding="utf-8")
    return folder / "scaled.xg"


def test_claims_that_hold(xg: Xg, scaled: Path) -> None:
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 0
    assert "  from the givens: true, 2 of 2 numbers hold, largest error 0\n" in said.out
    assert said.out.endswith("1 example, 1 claim: all as the document says\n")


def test_a_false_claim_fails_until_it_is_marked(xg: Xg, scaled: Path) -> None:
    scaled.write_text(SCALED.replace("[1.0, 1.0]", "[1.0, 1.2]"), encoding="utf-8")
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 1
    assert "false: y (Step 1)\n" in said.out
    assert said.out.endswith("1 example, 1 claim: 1 example FAILED\n")
    marked = SCALED.replace('[1.0, 1.0] "Step 1"', '[1.0, 1.2] "Step 1" wrong "a misprint"')
    scaled.write_text(marked, encoding="utf-8")
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 0
    assert "  marked wrong: a misprint\n" in said.out


def test_only_false_claims_are_summed_up(xg: Xg, scaled: Path) -> None:
    """The summary names claims by how they stand; a true one beside them is in none of its rows."""
    claims = '[1.0, 1.0] "Step 1"\n    expect y = [1.0, 1.2] "Step 2"'
    scaled.write_text(SCALED.replace('[1.0, 1.0] "Step 1"', claims), encoding="utf-8")
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 1
    assert "\nfalse: y (Step 2)\n" in said.out
    assert "marked wrong, but true" not in said.out


def test_a_mark_on_a_true_claim_fails(xg: Xg, scaled: Path) -> None:
    scaled.write_text(SCALED.replace('"Step 1"', 'wrong "no"'), encoding="utf-8")
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 1
    assert "marked wrong, but true: y\n" in said.out


def test_the_same_as_data(xg: Xg) -> None:
    said = xg("verify", CAT, "--against", "document", "--json")
    found = json.loads(said.out)
    assert found["passed"] is True
    assert "proofs" not in found
    first, second = found["documents"]
    assert (first["title"], first["block"]) == ("The cat sleeps", "Mini")
    claims = {claim["name"]: claim for claim in first["claims"]}
    assert claims["O"]["from_givens"]["holding"] == 9
    assert claims["O"]["from_printed"]["passed"] is False
    assert claims["Q"]["standing"] == "false, as marked"
    assert claims["loss"]["printed"] == 0.7153
    assert claims["dW_1"]["finite_differences"]["verdict"] == "ok"
    assert all(claim["standing"] == "true" for claim in second["claims"])


def test_proofs_and_documents_together(xg: Xg) -> None:
    said = xg("verify", CAT, "--against", "fd,document")
    assert said.code == 0
    assert "1 block, 7 gradients: all proven\n" in said.out
    assert said.out.endswith("2 examples, 24 claims: all as the document says\n")


def test_a_file_without_examples_proves_nothing(xg: Xg) -> None:
    said = xg("verify", "tiny.xg", "--against", "document")
    assert said.code == 1
    assert "tiny.xg has no example to check" in said.err
    said = xg("verify", CAT, "--against", "document", "--block", "Other")
    assert said.code == 1


def test_a_document_of_a_block_that_is_taken_from_another_file(xg: Xg, folder: Path) -> None:
    text = CAT.read_text(encoding="utf-8")
    example = text[text.index('example "The cat sleeps, corrected"') :]
    (folder / "mine.xg").write_text(f"use Mini from cat_sleeps\n\n{example}", encoding="utf-8")
    assert xg("check", "mine.xg").code == 0
    said = xg("verify", "mine.xg", "--against", "document")
    assert said.code == 0
    assert said.out.endswith("1 example, 12 claims: all as the document says\n")
    assert xg("explain", "mine.xg").out.startswith("# Mini: The cat sleeps, corrected\n")


def test_an_example_without_claims_proves_nothing(xg: Xg, scaled: Path) -> None:
    scaled.write_text(SCALED.replace("    expect y = [1.0, 1.0]", "#"), encoding="utf-8")
    assert xg("check", "scaled.xg").code == 0
    assert xg("verify", "scaled.xg", "--against", "document").code == 1


def test_a_mistake_in_an_example_is_told_by_check_and_verify(xg: Xg, scaled: Path) -> None:
    scaled.write_text(SCALED.replace("w = [2, 4]", "w = [2]"), encoding="utf-8")
    for words in (("check",), ("verify", "--against", "document")):
        said = xg(*words, "scaled.xg")
        assert said.code == 1
        assert "w is [S], which is [2] here" in said.err


def test_a_size_that_is_set_must_be_that_of_the_arrays(xg: Xg, scaled: Path) -> None:
    said = xg("verify", "scaled.xg", "--against", "document", "--set", "S=3")
    assert said.code == 1
    assert "x is [S], which is [3] here" in said.err
    assert xg("verify", "scaled.xg", "--against", "document", "--set", "S=2").code == 0


def test_a_large_claim_is_cut(xg: Xg, scaled: Path) -> None:
    many = ", ".join(["1"] * 20)
    text = SCALED.replace("[0.5, 0.25]", f"[{many}]").replace("[2, 4]", f"[{many}]")
    scaled.write_text(text.replace("[1.0, 1.0]", f"[{many}]"), encoding="utf-8")
    said = xg("verify", "scaled.xg", "--against", "document")
    assert said.code == 0
    assert "  1  1  1  1  1  1  1  1  …  " in said.out
