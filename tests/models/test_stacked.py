"""Numbers in a file of names: rows of experts, layers in turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xg_runtime import names, rename
from xg_runtime.errors import InputError
from xg_runtime.weights import Weights

SHAPES = {"moe.W_gate": (3, 4, 5)}
FILE = """\
[tensors]
"layer.experts.*.w1" = "T -> stack : moe.W_gate"
"""


def known(folder: Path) -> names.Names:
    path = folder / "it.names.toml"
    path.write_text(FILE, encoding="utf-8")
    return names.read(path)


def test_each_row_is_the_tensor_of_its_number(tmp_path: Path) -> None:
    gate = np.random.default_rng(1).normal(size=SHAPES["moe.W_gate"])
    tensors = rename.to_checkpoint(known(tmp_path), {"moe.W_gate": gate}, {})
    assert list(tensors) == [f"layer.experts.{i}.w1" for i in range(3)]
    assert all(np.array_equal(tensors[f"layer.experts.{i}.w1"], gate[i].T) for i in range(3))
    back = rename.to_diagram(known(tmp_path), Weights("it", tensors), SHAPES, {}, "MoE")
    assert np.array_equal(back["moe.W_gate"], gate)


@pytest.mark.parametrize(
    ("count", "shape", "said"),
    [
        (2, (5, 4), "missing: layer.experts.2.w1, for moe.W_gate [3, 4, 5]"),
        (4, (5, 4), "left over: layer.experts.3.w1 [5, 4]"),
        (3, (4, 5), "layer.experts.0.w1 [4, 5] gives row 0 of moe.W_gate [5, 4]"),
    ],
)
def test_what_does_not_fit_is_told_by_its_number(
    count: int, shape: tuple[int, ...], said: str, tmp_path: Path
) -> None:
    tensors = {f"layer.experts.{i}.w1": np.ones(shape) for i in range(count)}
    with pytest.raises(InputError) as caught:
        rename.to_diagram(known(tmp_path), Weights("it", tensors), SHAPES, {}, "MoE")
    assert said in str(caught.value)


def test_a_stack_needs_a_number_more(tmp_path: Path) -> None:
    path = tmp_path / "it.names.toml"
    path.write_text(FILE.replace(".*.", ".0."), encoding="utf-8")
    with pytest.raises(InputError, match="another number of"):
        names.read(path)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("layers.{2*}.w", "layers.4.w", ("2",)),
        ("layers.{2*}.w", "layers.5.w", None),
        ("layers.{2*+1}.w", "layers.5.w", ("2",)),
        ("layers.{2*+1}.w", "layers.0.w", None),
        ("layers.{*+3}.w.*", "layers.3.w.07", ("0", "07")),
        ("layers.{*+3}.w.*", "layers.2.w.1", None),
    ],
)
def test_layers_in_turns_are_found_by_their_numbers(
    pattern: str, name: str, found: tuple[str, ...] | None
) -> None:
    assert names.numbers(pattern, name) == found
    if found is not None:
        assert names.filled(pattern, found) == name
