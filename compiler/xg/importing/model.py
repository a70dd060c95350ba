"""From the bytes of an exported program to the text of a file and its parameters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg.importing.archive import Array, Damaged, read_archive
from xg.importing.diagram import Weight
from xg.importing.errors import NotAnArchive
from xg.importing.exported import Exported, read_exported
from xg.importing.fold import fold
from xg.importing.lower import lower
from xg.importing.names import identifier
from xg.importing.write import write

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class Imported:
    """A model as a file of the language.

    `text` is the file. `params` are the numbers of its parameters by their paths in it, `sources`
    where in the model each comes from. `notes` say what it does otherwise than the model.
    """

    text: str
    params: Mapping[str, Array]
    sources: Mapping[str, Weight]
    notes: Sequence[str] = ()


def import_archive(data: bytes, file: str, name: str | None = None) -> Imported:
    """Read what `torch.export.save` wrote; raises DiagnosticError with all that is in the way.

    `file` is how messages call it, `name` the name of the entry block. Nothing of it is run.
    """
    try:
        exported = read_exported(read_archive(data))
    except Damaged as damage:
        raise DiagnosticError.of(NotAnArchive(file, str(damage))) from None
    model = lower(exported)
    if not model.steps:
        raise DiagnosticError.of(NotAnArchive(file, "it computes nothing"))
    blocks = fold(model)
    entry = identifier(name or blocks.entry.kind, "Model")
    heading = (f"Imported from a torch.export program of {entry}.", *model.notes)
    written = write(model, blocks, entry, heading)
    params = {path: _numbers(weight, exported) for path, weight in written.weights.items()}
    return Imported(written.text, params, written.weights, model.notes)


def import_exported(program: ExportedProgram, name: str | None = None) -> Imported:
    """The model of `torch.export.export`, by the same way: saved in memory, and read as data.

    Raises DiagnosticError with all that is in the way.
    """
    import torch

    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return import_archive(buffer.getvalue(), "the exported program", name)


def _numbers(weight: Weight, exported: Exported) -> Array:
    """The numbers of a parameter: a tensor of the model, cut and turned."""
    array = exported.arrays[weight.source]
    if weight.start is not None:
        taken = slice(weight.start, weight.stop)
        array = array[taken] if weight.axis == 0 else array[:, taken]
    return np.ascontiguousarray(array.T if weight.transposed else array)
