"""A rank's parts of whole tensors: memory of their own, and together the whole again."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

import numpy as np
import torch

from xg_runtime.ranks import gather_shards, local_shards, simulate

MESH = {"N_D": 2, "N_T": 3}
CUTS = {"W": ((-1, "N_T"),), "V": ((-2, "N_D"), (-1, "N_T")), "E": ((-2, "N_T"),)}


def test_a_part_does_not_keep_the_whole_alive() -> None:
    whole = {name: np.arange(24.0).reshape(6, 4).T.reshape(4, 6) for name in "WV"}
    whole["E"] = np.arange(24.0).reshape(6, 4)

    def kept() -> bool:
        arrays = local_shards(whole, CUTS)
        tensors = local_shards(
            {name: torch.from_numpy(array) for name, array in whole.items()}, CUTS
        )
        assert all(array.flags.c_contiguous for array in arrays.values())
        assert all(tensor.is_contiguous() for tensor in tensors.values())
        assert all(tensor.untyped_storage().nbytes() < 24 * 8 for tensor in tensors.values())
        return any(np.shares_memory(arrays[name], whole[name]) for name in whole)

    assert not any(simulate(MESH, kept))


def test_parts_are_the_whole_again() -> None:
    whole = {name: np.arange(24.0).reshape((6, 4) if name == "E" else (4, 6)) for name in CUTS}

    def again() -> bool:
        found = gather_shards(local_shards(whole, CUTS), CUTS)
        return all(np.array_equal(found[name], whole[name]) for name in CUTS)

    assert all(simulate(MESH, again))
