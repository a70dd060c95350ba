"""The file that `torch.export.save` writes, opened as data: JSON and raw numbers, no pickle.

`torch.export.load` unpickles the example inputs and hands the texts of symbolic sizes to `eval`,
so a file can run code of its author. Here nothing of a file is ever run, and torch is not needed.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg_runtime.module import Array

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram


SCHEMA: Final = 8  # the major version of the serialized graph that is read here
Json = Mapping[str, Any]

# torch's numbers of element types. NumPy lacks bfloat16, which is the upper half of a float32.
BFLOAT16: Final = 13
DTYPES: Final[Mapping[int, str]] = {
    1: "u1",
    2: "i1",
    3: "i2",
    4: "i4",
    5: "i8",
    6: "f2",
    7: "f4",
    8: "f8",
    12: "?",
    BFLOAT16: "u2",
}


PART: Final = 2**20  # bytes of weights that are read at once
FREE: Final = 2**26  # numbers that any archive may have, views of others included
TIMES_AT_MOST: Final = 8  # as many as it has bytes, beyond that: weights may share their storage


class Damaged(Exception):
    """A file that is not what it should be, and why."""


@dataclass(frozen=True)
class Archive:
    """The graph as JSON, and every parameter, buffer and constant by its name in the model.

    `tied` names tensors that are another one, and which.
    """

    program: Json
    arrays: Mapping[str, Array]
    tied: Mapping[str, str]


# Raised by json, NumPy and zipfile on bytes that are cut, flipped, or packed in an unknown way.
_DAMAGE: Final = (
    *(KeyError, TypeError, AttributeError, ValueError, IndexError, EOFError, OSError),
    RuntimeError,  # also for a version of zip that there is not, and for a text too deep to read
)


def read_archive(data: bytes) -> Archive:
    """Open the bytes of a `.pt2` file; raises Damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.compress_size for member in archive.infolist()) > len(data):
                raise Damaged("its members claim to be more than it has")
            return _read(archive)
    except zipfile.BadZipFile:
        raise Damaged("it is not an archive") from None
    except _DAMAGE as error:
        raise Damaged(f"it is damaged ({type(error).__name__})") from None


def _read(archive: zipfile.ZipFile) -> Archive:
    names = archive.namelist()
    if len({*names}) < len(names):
        raise Damaged("it holds two members of one name")
    models = [name for name in names if name.endswith("/models/model.json")]
    if not models:
        old = "serialized_exported_program.json" in names
        why = (
            "torch before 2.9 wrote it; export it again" if old else "it holds no models/model.json"
        )
        raise Damaged(why)
    root = models[0].removesuffix("models/model.json")
    program = _json(archive, models[0])
    version = program["schema_version"]["major"]
    if version != SCHEMA:
        raise Damaged(f"its schema has version {version}, and {SCHEMA} is read here")
    arrays: dict[str, Array] = {}
    tied: dict[str, str] = {}
    for kind in ("weights", "constants"):
        config = f"{root}data/{kind}/model_{kind}_config.json"
        if config in names:
            entries = cast("Mapping[str, Json]", _json(archive, config)["config"])
            arrays |= _arrays(archive, f"{root}data/{kind}/", entries)
            tied |= _tied(entries)
    return Archive(program, arrays, tied)


def _tied(entries: Mapping[str, Json]) -> dict[str, str]:
    """Names of one tensor: all but the first, and the first."""
    first: dict[str, str] = {}
    tied: dict[str, str] = {}
    for name, entry in entries.items():
        meta = entry["tensor_meta"]
        where = ("dtype", "sizes", "strides", "storage_offset")
        place = json.dumps([entry["path_name"], *(meta[each] for each in where)])
        if first.setdefault(place, name) != name:
            tied[name] = first[place]
    return tied


def _json(archive: zipfile.ZipFile, name: str) -> Json:
    return cast("Json", json.loads(_bytes(archive, name)))


def _bytes(archive: zipfile.ZipFile, name: str) -> bytes:
    _refuse_compression(archive, name)
    return archive.read(name)


def _storage(archive: zipfile.ZipFile, name: str) -> Array:
    """The bytes of a member, read in parts: two copies of large weights need much memory."""
    _refuse_compression(archive, name)
    data = np.empty(archive.getinfo(name).file_size, np.uint8)
    with archive.open(name) as member:
        for first in range(0, data.size, PART):
            part = data[first : first + PART]
            part[:] = np.frombuffer(member.read(part.size), np.uint8)
    return data


def _refuse_compression(archive: zipfile.ZipFile, name: str) -> None:
    # torch stores and never compresses: a compressed entry could claim any size.
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise Damaged("it is compressed, which torch.export.save never does")


def _arrays(archive: zipfile.ZipFile, folder: str, entries: Mapping[str, Json]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    stored: dict[str, Array] = {}
    used = Counter(entry["path_name"] for entry in entries.values())
    claimed = 0
    for name, entry in entries.items():
        if entry["use_pickle"]:
            raise Damaged(f"{name} is pickled, and nothing is unpickled here")
        path = folder + entry["path_name"]
        if path not in stored:
            stored[path] = _storage(archive, path)
        claimed += math.prod(int(size["as_int"]) for size in entry["tensor_meta"]["sizes"])
        if claimed > max(FREE, TIMES_AT_MOST * sum(map(len, stored.values()))):
            raise Damaged(f"its weights claim to be {claimed:,} numbers, and it has far fewer")
        view = _array(stored[path], entry["tensor_meta"])
        alone = used[entry["path_name"]] == 1 and view.flags.c_contiguous
        arrays[name] = view if alone else np.array(view)
    return arrays


def _array(data: Array, meta: Json) -> Array:
    """A tensor inside the storage that it may share with others."""
    if meta["dtype"] not in DTYPES:
        raise Damaged(f"element type {meta['dtype']} is unknown to NumPy")
    storage = data.view(np.dtype(DTYPES[meta["dtype"]]).newbyteorder("<"))
    shape = [int(size["as_int"]) for size in meta["sizes"]]
    strides = [int(size["as_int"]) for size in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if min(shape, default=1) < 0 or min(strides, default=1) < 0 or offset < 0:
        raise Damaged("a weight has a negative size")
    if math.prod(shape) and last >= storage.size:
        raise Damaged("a weight is cut off")
    if not math.prod(shape):
        return np.zeros(shape, storage.dtype)
    steps = [step * storage.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
    if meta["dtype"] == BFLOAT16:
        return (view.astype("u4") << 16).view("f4")
    return view.astype(storage.dtype.newbyteorder("="), copy=False)


# The weights of a program in memory, read where they are: an archive of them would be two copies.
#
# The program is saved with one number in the place of each. Tensors that NumPy does not read as
# they are remain, and an archive reads or refuses them.


# pyright: reportUnknownMemberType=false


def without_weights(program: ExportedProgram) -> tuple[ExportedProgram, dict[str, Array]]:
    """The program with one number for each weight that can be read, and these weights by name.

    Weights that are one tensor remain one.
    """
    import torch

    state: dict[str, Tensor] = dict(program.state_dict)
    live: dict[str, Array] = {}
    stand_ins: dict[Any, Tensor] = {}
    for name, tensor in program.state_dict.items():
        if _is_plain(tensor):
            trained = isinstance(tensor, torch.nn.Parameter)
            place = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), trained
            if place not in stand_ins:
                one = torch.zeros(1, dtype=tensor.dtype)
                stand_ins[place] = torch.nn.Parameter(one, requires_grad=False) if trained else one
            state[name] = stand_ins[place]
            live[name] = _live_weights_array(tensor)
    lighter: Any = copy(program)
    lighter._state_dict = state  # the property has no setter
    return lighter, live


def with_weights(archive: Archive, live: Mapping[str, Array]) -> Archive:
    """The archive of such a program with the weights in the place of their numbers."""
    return replace(archive, arrays={**archive.arrays, **live})


def _is_plain(tensor: Tensor) -> bool:
    """Whether NumPy can read a tensor in the memory that it has."""
    import torch

    known = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool}
    known |= {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    return (
        type(tensor.data) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.dtype in known
        and tensor.numel() > 0
    )


def _live_weights_array(tensor: Tensor) -> Array:
    import torch

    held = tensor.detach()
    return (held.float() if held.dtype == torch.bfloat16 else held).numpy()


# The tensors of a folder that transformers saves, where they are not those of the modules.
#
# A saved folder has names and cuts of its own, such as one matrix for each expert. How transformers
# gets from the modules to them is not read but tried, on the places of the numbers: each saved
# tensor shows where in the modules its numbers are from.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false


@dataclass(frozen=True)
class SavedTensor:
    """A tensor of a folder: for each of its numbers the place in the module's tensor.

    A `whole` one is the module's tensor under another name.
    """

    name: str
    places: Array
    whole: bool


# By the names of modules' tensors; those that are not here are saved as they are.
SavedTensors: TypeAlias = Mapping[str, Sequence[SavedTensor]]


def saved_tensors(model: Any) -> SavedTensors:  # noqa: ANN401 - a model of transformers
    """The tensors that `save_pretrained` writes under other names, or cut in another way.

    There are none for a tensor of which a number is saved together with those of another.
    """
    loading: Any = import_module("transformers.core_model_loading")
    state: Mapping[str, Any] = model.state_dict()
    plain = loading.revert_weight_conversion(model, {k: x.to("meta") for k, x in state.items()})
    others = [k for k, x in state.items() if k not in plain or plain[k].shape != x.shape]
    places, starts = _places([tuple(state[name].shape) for name in others])
    found = loading.revert_weight_conversion(model, dict(zip(others, places, strict=True)))
    saved: dict[str, list[SavedTensor]] = {name: [] for name in others}
    mixed: set[str] = set()
    for name, tensor in found.items():
        numbers: Array = tensor.numpy()
        first, last = (bisect_right(starts, int(end)) - 1 for end in (numbers.min(), numbers.max()))
        whole = np.array_equal(numbers, places[first].numpy())
        saved[others[first]].append(SavedTensor(name, numbers - starts[first], whole))
        mixed |= set(others[first : last + 1]) if first != last else set()
    return {name: [] if name in mixed else tensors for name, tensors in saved.items()}


def _places(shapes: Sequence[Sequence[int]]) -> tuple[list[Any], list[int]]:
    """Tensors in which every number is its own place in all of them, and where each starts."""
    import torch

    lengths = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    starts = [0, *accumulate(lengths)][:-1]
    return [
        torch.arange(start, start + length).reshape(tuple(shape))
        for shape, start, length in zip(shapes, starts, lengths, strict=True)
    ], starts
