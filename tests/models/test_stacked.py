"""Numbers in a file of names: rows of experts, layers in turns, layers behind others."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from xg_runtime import names, rename, weights
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
    assert all(tensor.flags.c_contiguous for tensor in tensors.values())
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


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_experts_go_from_file_to_file_one_by_one(dtype: str | None, tmp_path: Path) -> None:
    """A parameter of twenty experts is written, both ways, in the memory of one."""
    drawn = np.random.default_rng(1).normal(size=(20, 500, 400)).astype(np.float32)
    weights.write(tmp_path / "it", {f"layer.experts.{i}.w1": drawn[i].T for i in range(20)}, {})
    shapes, held = {"moe.W_gate": drawn.shape}, weights.read(tmp_path / "it", kept=True)
    tracemalloc.start()
    stored = rename.read_later(known(tmp_path), held, shapes, {}, "MoE")
    weights.write_params(tmp_path / "own.safetensors", stored, {}, dtype)
    weights.write(tmp_path / "to", rename.later(known(tmp_path), stored, {}), {}, dtype=dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6  # of 16 MB: an expert of 0.8, turned, in other bits, and its bytes
    own = weights.read(tmp_path / "own.safetensors").tensors["moe.W_gate"]
    again = weights.read(tmp_path / "to").tensors
    for i in range(20):
        assert np.allclose(own[i], drawn[i], rtol=0.0 if dtype is None else 2**-8, atol=0)
        assert np.array_equal(again[f"layer.experts.{i}.w1"], own[i].T)


def test_a_stack_is_written_as_one_tensor_where_that_is_its_name(tmp_path: Path) -> None:
    drawn = np.random.default_rng(1).normal(size=SHAPES["moe.W_gate"])
    tensors = {f"layer.experts.{i}.w1": drawn[i].T for i in range(3)}
    stored = rename.read_later(known(tmp_path), Weights("it", tensors), SHAPES, {}, "MoE")
    (tmp_path / "one.toml").write_text('[tensors]\n"gate" = "T : moe.W_gate"\n', encoding="utf-8")
    (found,) = rename.later(names.read(tmp_path / "one.toml"), stored, {}).values()
    assert found.shape == (3, 5, 4)
    assert np.array_equal(found.array(), drawn.swapaxes(-1, -2))


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


BEHIND = """\
ignored = ["layers.{*+N_0}.mask"]

[tensors]
"layers.*.w" = "first.*.W"
"layers.{*+N_0}.w" = "T : rest.*.W"
"""
PARAMS = {
    f"{call}.{i}.W": (4, 5) for call, count in (("first", 2), ("rest", 3)) for i in range(count)
}


def counted(folder: Path) -> names.Names:
    path = folder / "it.names.toml"
    path.write_text(BEHIND, encoding="utf-8")
    return names.read(path)


def test_layers_behind_others_are_counted_from_a_size(tmp_path: Path) -> None:
    rng, sizes = np.random.default_rng(1), {"N_0": 2}
    params = {name: rng.normal(size=shape) for name, shape in PARAMS.items()}
    tensors = rename.to_checkpoint(counted(tmp_path), params, sizes)
    assert list(tensors) == [f"layers.{i}.w" for i in range(5)]
    assert np.array_equal(tensors["layers.4.w"], params["rest.2.W"].T)
    masked = {**tensors, "layers.3.mask": np.ones(2)}
    back = rename.to_diagram(counted(tmp_path), Weights("it", masked), PARAMS, sizes, "it")
    assert all(np.array_equal(back[name], params[name]) for name in params)
    held = rename.owners(counted(tmp_path), list(tensors), list(PARAMS), "it", sizes)
    assert held["layers.1.w"] == [["first.1.W"]]
    assert held["layers.2.w"] == [["rest.0.W"]]


def test_what_is_ignored_is_counted_too(tmp_path: Path) -> None:
    tensors = {"layers.0.w": np.ones((5, 4)), "layers.1.mask": np.ones(2)}
    held, shapes = Weights("it", tensors), {"rest.0.W": (4, 5)}
    assert rename.to_diagram(counted(tmp_path), held, shapes, {"N_0": 0}, "it").keys() == {*shapes}
    with pytest.raises(InputError) as caught:
        rename.to_diagram(counted(tmp_path), held, shapes, {"N_0": 2}, "it")
    assert caught.value.details == (
        "missing: layers.2.w, for rest.0.W [4, 5]",
        "left over: layers.0.w [5, 4]",
        "left over: layers.1.mask [2]",
    )


def test_a_size_without_a_number_is_named(tmp_path: Path) -> None:
    params = {name: np.ones(shape) for name, shape in PARAMS.items()}
    with pytest.raises(InputError, match=r"layers\.\{\*\+N_0\}\.w counts from N_0, which has no"):
        rename.to_checkpoint(counted(tmp_path), params, {"N_1": 2})


def test_a_size_is_needed_where_it_counts_alone(tmp_path: Path) -> None:
    """Not where a block has no layer behind others."""
    params = {name: np.ones(shape) for name, shape in PARAMS.items() if "first" in name}
    assert len(rename.to_checkpoint(counted(tmp_path), params, {})) == 2


@pytest.mark.parametrize(("name", "may"), [("layers.0.w", True), ("layers.x.w", False)])
def test_before_its_size_is_known_a_name_may_fit(name: str, may: bool) -> None:
    assert rename.fits("layers.{*+N_0}.w", name) == may
