"""Weights of an exported program, read as data: in little memory, and each by itself."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from xg_runtime.module import Array
from xg_torch.importing.archive import Damaged, read_archive


def arrays_of(model: nn.Module) -> tuple[int, int, Mapping[str, Array]]:
    """The bytes of the archive, the most memory that its reading took, and its arrays."""
    buffer = io.BytesIO()
    width = next(model.parameters()).shape[-1]
    torch.export.save(torch.export.export(model, (torch.ones(2, width),)), buffer)
    data = buffer.getvalue()
    tracemalloc.start()
    arrays = read_archive(data).arrays
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return len(data), peak, arrays


def test_weights_are_in_memory_once() -> None:
    length, peak, arrays = arrays_of(nn.Linear(2000, 1000))
    assert peak < 1.3 * length
    arrays["weight"][:] = 7  # the importer's own


class Halves(nn.Module):
    """Two parameters in one storage, one of them within the other."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(12.0).reshape(4, 3)
        self.whole, self.rows = nn.Parameter(whole), nn.Parameter(whole[:2])

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.whole.T + (x @ self.rows.T).sum()


def test_arrays_of_one_storage_do_not_share_it() -> None:
    _, _, arrays = arrays_of(Halves())
    arrays["rows"][:] = 7
    np.testing.assert_array_equal(arrays["whole"], np.arange(12.0).reshape(4, 3))


def test_sizes_that_a_file_only_claims_take_no_memory() -> None:
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),)), buffer)
    data = buffer.getvalue()
    with zipfile.ZipFile(buffer) as archive:
        member = next(one for one in archive.infolist() if one.filename.endswith("/weight_0"))
    length = struct.pack("<LL", member.file_size, member.file_size)
    at = data.index(length, archive.start_dir)  # in the list at the end, which readers believe
    claimed = struct.pack("<LL", 2**31, 2**31)
    tracemalloc.start()
    with pytest.raises(Damaged, match="claim to be more"):
        read_archive(data[:at] + claimed + data[at + 8 :])
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
