"""Checkpoints that xg writes load in transformers: the same tensors, the same logits."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from models.witness import Witness

from xg.cli import main
from xg_runtime import weights


def test_there_and_back_again(one_of_each: Witness, tmp_path: Path) -> None:
    """To the diagram's names, and from these to a folder that transformers loads."""
    file, params, folder = (
        str(one_of_each.family.path),
        tmp_path / "p.safetensors",
        tmp_path / "back",
    )
    wide = ["--dtype", "float64"]
    assert main(["weights", file, "--from", str(one_of_each.folder), "-o", str(params), *wide]) == 0
    said = one_of_each.family.says_names
    assert main(["weights", file, "--from", str(params), "--to", str(folder), *wide, *said]) == 0
    found, wanted = weights.read(folder).tensors, weights.read(one_of_each.folder).tensors
    wanted = {n: array for n, array in wanted.items() if not n.endswith("num_batches_tracked")}
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert np.array_equal(found[name], array), name
    assert np.allclose(one_of_each.asked_again(folder), one_of_each.logits, rtol=0, atol=1e-12)


def test_a_config_means_what_the_witness_says(witness: Witness, tmp_path: Path) -> None:
    """As transformers reads both: all that is written, and the sizes that follow from it."""
    config: Any = import_module("transformers").AutoConfig
    folder = tmp_path / "back"
    file = str(witness.family.path)
    assert main(["weights", file, "--from", str(witness.folder), "--to", str(folder)]) == 0
    found, wanted = (config.from_pretrained(f).to_dict() for f in (folder, witness.folder))
    written = {*json.loads((folder / weights.CONFIG).read_bytes()), "scale_decoder_outputs"}
    assert len(written) > 10 or {"text_config", "vision_config"} <= written
    for each in (found, wanted):  # of Phi-3, whose turns are of all columns
        turns: dict[str, Any] = each.get("rope_parameters") or {}
        turns.pop("partial_rotary_factor", None)
    assert {name: found.get(name) for name in written} == {
        name: wanted.get(name) for name in written
    }


def test_a_saved_checkpoint_that_was_changed_gives_other_logits(
    one_of_each: Witness, tmp_path: Path
) -> None:
    """The comparison above could fail."""
    held = weights.read(one_of_each.folder)
    assert held.config is not None
    first = min(name for name, array in held.tensors.items() if array.ndim == 1)
    weights.write(tmp_path / "other", {**held.tensors, first: -held.tensors[first]}, held.config)
    assert not np.allclose(
        one_of_each.asked_again(tmp_path / "other"), one_of_each.logits, atol=1e-6
    )
