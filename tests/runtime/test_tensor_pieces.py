"""Weights go from file to file in pieces, in the type that is asked for."""

from __future__ import annotations

import json
import tracemalloc
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xg.cli.console import Console
from xg_runtime import files, names, rename, tensorfile, weights
from xg_runtime import tensorfile as tensor_pieces
from xg_runtime.errors import FileError
from xg_runtime.module import Arrays
from xg_torch.commands.weights import run

DRAW = np.random.default_rng(0)
ARRAYS: Arrays = {
    "b.é": DRAW.standard_normal((3, 4)).astype(np.float32),
    "a": DRAW.standard_normal((5, 2)).astype(np.float32).T,
    "one": np.full((), 2.5, np.float32),
    "none": np.zeros((0, 3), np.float32),
}
GPT2 = Path(__file__).parents[2] / "diagrams" / "models" / "gpt2.xg"


def test_the_pieces_are_the_file_that_the_package_writes() -> None:
    for metadata in (None, {"format": "pt"}):
        found = b"".join(tensor_pieces.pieces(ARRAYS, metadata))
        assert found == tensorfile.pack(ARRAYS, metadata)


def test_large_arrays_come_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = b"".join(tensor_pieces.pieces(ARRAYS))
    monkeypatch.setattr(tensor_pieces, "PIECE", 16)
    pieces = list(tensor_pieces.pieces(ARRAYS))
    assert len(pieces) > 1 + len(ARRAYS)
    assert b"".join(pieces) == whole


def test_a_mapped_file_holds_what_was_written(tmp_path: Path) -> None:
    files.write(tmp_path / "a.safetensors", tensor_pieces.pieces(ARRAYS, {"x": "y"}))
    found = tensorfile.map_file(tmp_path / "a.safetensors")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.float32
    before = (tmp_path / "a.safetensors").read_bytes()
    found["a"][:] = 7  # a change stays in memory
    assert (tmp_path / "a.safetensors").read_bytes() == before


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_file_is_copied_in_the_memory_of_a_piece(
    dtype: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_pieces, "PIECE", 2**16)
    rows = {name: np.zeros((1000, 1000), np.float32) for name in "ab"}
    weights.write_params(tmp_path / "a.safetensors", rows, {})
    del rows
    tracemalloc.start()
    held = weights.read(tmp_path / "a.safetensors", kept=True).tensors
    turned = {name: array.T for name, array in held.items()}
    weights.write_params(tmp_path / "b.safetensors", turned, {}, dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21  # of 8 MB


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("T : W.*", (500, 500)),
        ("split : W.*, V.*", (500, 250)),
        ("T -> rows : W.*, V.*", (250, 500)),
        ("R[a=N, b=N -> (b, a)] : W.*", (250_000,)),
    ],
)
def test_a_tensor_is_put_together_when_it_is_written(
    line: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "names.toml").write_text(f'[tensors]\n"at.*" = "{line}"\n', encoding="utf-8")
    known, owned = names.read(tmp_path / "names.toml"), "WV" if "V" in line else "W"
    params = {f"{name}.{i}": np.zeros(shape, np.float32) for i in range(8) for name in owned}
    tracemalloc.start()
    weights.write(tmp_path / "to", rename.later(known, params, {"N": 500}), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.5e6  # of 8 MB: a tensor, its piece and the one before, of 1 MB each


def test_bfloat16_is_rounded_as_torch_rounds() -> None:
    torch: Any = import_module("torch")
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.00390625, 1.01171875, 3.4e38, 1e-40]
    drawn = DRAW.standard_normal(1000) * 10.0 ** DRAW.integers(-30, 30, 1000)
    numbers = np.concatenate([special, drawn]).astype(np.float32)
    bits = tensor_pieces.convert_dtype(numbers, tensorfile.BFLOAT16)
    wanted = torch.from_numpy(numbers).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(tensorfile.widen_bfloat16(bits), wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_half_precisions_are_kept(dtype: str, tmp_path: Path) -> None:
    """A published model in 16 bits has the same bits by the diagram's names, and back."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    config = transformers.GPT2Config(vocab_size=17, n_embd=12, n_layer=2, n_head=2, n_positions=9)
    config.bos_token_id = config.eos_token_id = 0
    model = transformers.GPT2LMHeadModel(config).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "published")
    options = Namespace(
        file=str(GPT2), block=None, settings=(), names=None, plan=None, dtype=dtype,
        source=tmp_path / "published", out=tmp_path / "own.safetensors", to=tmp_path / "again",
    )  # fmt: skip
    run(options, Console())
    header = (tmp_path / "own.safetensors").read_bytes()
    entries = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])
    kind = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}[dtype]
    assert {e["dtype"] for name, e in entries.items() if name != "__metadata__"} == {kind}
    own = weights.read(tmp_path / "own.safetensors").tensors["layers.1.attn.W_K"]
    wanted = model.transformer.h[1].attn.c_attn.weight[:, 12:24].float().detach().numpy()
    np.testing.assert_array_equal(own.astype(np.float32), wanted)
    (source, copy) = (weights.read(tmp_path / f, kept=True).tensors for f in ("published", "again"))
    assert source.keys() == copy.keys()
    for name, array in source.items():
        assert copy[name].dtype == array.dtype
        np.testing.assert_array_equal(copy[name], array)


def test_numpys_files_have_no_bfloat16(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write bfloat16 to"):
        weights.write_params(tmp_path / "a.npz", ARRAYS, {}, "bfloat16")
