"""Programs that cannot decode step by step are refused, with the node and its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from library import shipped
from passes.decode_step.stepping import LIBRARY, written

import xg
from xg_generate.decode_step import errors

CASES = sorted(Path(__file__).parent.glob("refused/*.xg"))


def refusal(program: xg.Program) -> str:
    with pytest.raises(xg.DiagnosticError) as caught:
        program.step()
    return str(caught.value) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_told_as_in_the_golden(case: Path, golden: Callable[[Path, str], None]) -> None:
    golden(case.with_suffix(".err"), refusal(xg.compile(case)).replace(str(case), case.name))


def test_every_kind_has_a_golden() -> None:
    kinds = {kind.code for kind in (errors.LooksAhead, errors.NoPositions, errors.NoStep)}
    told = {code for case in CASES for code in codes(xg.compile(case))}
    assert told == kinds


def codes(program: xg.Program) -> set[str]:
    with pytest.raises(xg.DiagnosticError) as caught:
        program.step()
    return {one.code for one in caught.value.diagnostics}


@pytest.mark.parametrize(
    ("file", "block", "code"),
    [
        ("bert", "BERT", "XG0551"),
        ("bert", "MLM", "XG0551"),
        ("encoder_decoder", "Encoder", "XG0551"),
        ("sentiment", "Sentiment", "XG0552"),
        ("vit", "ViT", "XG0552"),
        ("cat_sleeps", "Mini", "XG0551"),
    ],
)
def test_models_that_see_everything_at_once(file: str, block: str, code: str) -> None:
    assert codes(xg.compile(shipped(file), block)) == {code}


def test_the_same_block_with_a_mask_is_fine() -> None:
    text = (LIBRARY / "models" / "transformer.xg").read_text(encoding="utf-8")
    assert "mask = none | causal, p" in text
    causal = text.replace("mask = none | causal", "mask = causal | none")
    assert list(written(causal, "Layer").step().inputs) == ["X"]
    assert "SM(…, causal)" in refusal(written(text, "Layer"))
