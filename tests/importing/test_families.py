"""A few families of transformers as the recorded table has them; `sweep.py` makes the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from importing.families import FAMILIES
from importing.sweep import TABLE, outcome_of
from tier import THOROUGH

RECORDED = {
    line.split("\t")[0]: line.split("\t")[2]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
}
# tied two calls deep, a shared table, a norm per head, 1 + g, partial rotary, patches
# whose sizes calls show in products only
FEW = ("albert", "bart", "qwen3", "gemma", "phi", "clip-vision")
# speeds of turns that are scaled: another buffer; sinks of attention, and experts with biases;
# latents and groups of experts, which tests/cli/test_import_command.py imports with one layer more
MORE = ("llama-3.1", "gpt-oss", "deepseek-v3")
# Daily these have one layer, in which all is that they are here for; others show repetitions.
ONE_LAYER = {"bart", "qwen3", "gemma", "phi", "clip-vision"}
ONE = dict.fromkeys(("encoder_layers", "decoder_layers", "num_hidden_layers"), 1)


def test_the_table_has_every_family_and_no_defect() -> None:
    assert list(RECORDED) == list(FAMILIES)
    assert set(RECORDED.values()) <= {"agrees", "refused"}
    assert len(FAMILIES) > 80


@pytest.mark.parametrize("name", [*FEW, *(MORE if THOROUGH else [])])
def test_a_family_is_as_recorded(name: str) -> None:
    family = FAMILIES[name]
    if name in ONE_LAYER and not THOROUGH:
        family = replace(family, config={**family.config, **ONE})
    assert outcome_of(family)[0] == RECORDED[name]
