import io
import json
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from xg_runtime import arrays, tensorfile
from xg_runtime.errors import FileError
from xg_runtime.module import Arrays

HELD: Arrays = {
    "X": np.arange(6.0).reshape(2, 3).T,  # not laid out in order
    "file": np.array([1.5], np.float32),  # a name that np.savez cannot take
    "d/layers.3.W_Q": np.array(2.0),
    "ids": np.array([[1, 2]], np.int32),
}


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_arrays_come_back_as_they_were(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    arrays.write(path, HELD)
    found = arrays.read(path)
    assert found.keys() == HELD.keys()
    for name, array in HELD.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        found[name] += 1  # what was read can be worked on


def test_bytes_depend_on_the_arrays_only(tmp_path: Path) -> None:
    for path in (tmp_path / "a.npz", tmp_path / "a.safetensors"):
        assert arrays.pack(path, HELD) == arrays.pack(path, HELD)


def test_numpy_reads_what_was_written(tmp_path: Path) -> None:
    arrays.write(tmp_path / "a.npz", {"X": HELD["X"]})
    with np.load(tmp_path / "a.npz") as archive:
        assert np.array_equal(archive["X"], HELD["X"])


def test_a_npy_file_names_its_array(tmp_path: Path) -> None:
    arrays.write(tmp_path / "X.npy", {"anything": HELD["X"]})
    assert np.array_equal(arrays.read(tmp_path / "X.npy")["X"], HELD["X"])
    with pytest.raises(FileError, match="holds one array; found 4"):
        arrays.write(tmp_path / "X.npy", HELD)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"a file of arrays must end in \.npz"):
        arrays.read(tmp_path / "a.pkl")


def test_pickle_is_never_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="damaged, or not of the kind"):
        arrays.read(path)


@pytest.mark.parametrize("ending", [".npz", ".npy", ".safetensors"])
def test_cut_files_are_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    whole = arrays.pack(path, {"X": np.arange(100.0)})
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match="damaged"):
            arrays.read(path)


def test_a_claim_to_be_huge_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": (2**50, 2**20)}
    np.lib.format.write_array_header_1_0(header, claim)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    with pytest.raises(FileError, match="damaged"):
        arrays.read(tmp_path / "a.npz")


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    first, second = (arrays.pack(tmp_path / "a.npy", {"X": np.full(3, n)}) for n in (1.0, 2.0))
    for names in (("X.npy", "X.npy"), ("X.npy", "X")):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr(names[0], first)
            archive.writestr(names[1], second)
        with pytest.raises(FileError, match=r"a\.npz: it holds X twice"):
            arrays.read(tmp_path / "a.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "FREE", 2**16)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros(2**18))
    np.savez_compressed(tmp_path / "small.npz", X=np.zeros(2**12))
    np.savez_compressed(tmp_path / "full.npz", X=np.random.default_rng(0).random(2**15))
    with pytest.raises(FileError, match=r"bomb\.npz: its [0-9,]+ bytes claim to be 2,097,"):
        arrays.read(tmp_path / "bomb.npz")
    assert arrays.read(tmp_path / "small.npz")["X"].shape == (2**12,)
    assert arrays.read(tmp_path / "full.npz")["X"].shape == (2**15,)


def test_a_tensor_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    entry = '"X":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    header = ("{" + ",".join(entry % place for place in ((0, 4), (4, 8))) + "}").encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(FileError, match="damaged"):
        arrays.read(tmp_path / "a.safetensors")


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    first, *entries = arrays.pack(path, {"X": np.arange(3.0)}).split(b"PK\x01\x02")
    changed = [entry[:6] + b"\x63\0" + entry[8:] for entry in entries]  # the method, at byte 10
    path.write_bytes(b"PK\x01\x02".join([first, *changed]))
    with pytest.raises(FileError, match="damaged"):
        arrays.read(path)


def test_an_element_type_numpy_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="F8_E4M3"):
        tensorfile.unpack(_file_of("F8_E4M3", (2,), bytes(2)))


def test_half_precisions_are_read_exactly() -> None:
    import torch

    numbers = torch.tensor([0.0, -0.0, 1.0, -2.5, 3e38, 1e-40, float("inf"), float("-inf"), 0.1])
    for name, dtype in (("BF16", torch.bfloat16), ("F16", torch.float16)):
        half = numbers.to(dtype)
        data = half.view(torch.int16).numpy().tobytes()
        found = tensorfile.unpack(_file_of(name, (3, 3), data))["X"]
        assert np.array_equal(found.astype(np.float32), half.float().numpy().reshape(3, 3))
    assert np.isnan(tensorfile.from_bfloat16(np.array([0x7FC0], np.uint16))).all()


def _file_of(dtype: str, shape: tuple[int, ...], data: bytes) -> bytes:
    tensor = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
    header = json.dumps({"X": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + data
