"""From the bytes of an exported program to the text of a file and its parameters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.gc_pause import resting_collector
from xg.diagnostics.lazy_dataclass import dataclass
from xg_torch.importing.archive import Array, Damaged, read_archive
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import NotAnArchive, NotAnInput, Unspeakable, first_line
from xg_torch.importing.exported import Exported, read_exported
from xg_torch.importing.fold import fold
from xg_torch.importing.live_weights import with_weights, without_weights
from xg_torch.importing.lower import lower
from xg_torch.importing.names import identifier
from xg_torch.importing.names_file import names_file
from xg_torch.importing.proof import ModelComparison, Witness, part, prove
from xg_torch.importing.respelled import with_equal_sizes
from xg_torch.importing.saved import SavedTensors
from xg_torch.importing.write import write

if TYPE_CHECKING:
    from torch.export import ExportedProgram

IN_MEMORY: Final = "the exported program"


@dataclass(frozen=True)
class Imported:
    """A model as a file of the language.

    `text` is the file. `params` are the numbers of its parameters by their paths in it, `sources`
    where in the model each comes from, `names` the same as a file of names. `proof` says how far
    it was off from the model at worst, `notes` what it does otherwise.
    """

    text: str
    params: Mapping[str, Array]
    sources: Mapping[str, Weight]
    names: str
    proof: ModelComparison
    notes: Sequence[str] = ()


def import_archive(data: bytes, file: str, name: str | None = None) -> Imported:
    """Read what `torch.export.save` wrote; raises DiagnosticError with all that is in the way.

    `file` is how messages call it, `name` the name of the entry block. Nothing of it is run but
    the operators of torch that it calls, to compare (`Imported.proof`).
    """
    return import_read(_read(data, file), file, name)


def import_exported(program: ExportedProgram, name: str | None = None) -> Imported:
    """The model of `torch.export.export`, by the same way: saved in memory, and read as data.

    Raises DiagnosticError with all that is in the way.
    """
    return import_program(program, name)


def import_program(
    program: ExportedProgram,
    name: str | None = None,
    *,
    equal_sizes: bool = False,
    first_output: bool = False,
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
) -> Imported:
    """A program of torch; with `equal_sizes` axes that were equally long are one size.

    `config` is what a config.json says of it, which the file of names keeps, and `saved` what else
    than the modules' tensors its folder has. Raises DiagnosticError with all that is in the way.
    """
    exported = read_program(program, equal_sizes=equal_sizes)
    if first_output:
        exported = replace(exported, outputs=exported.outputs[:1])
    return import_read(exported, IN_MEMORY, name, config=config, saved=saved)


@resting_collector()
def read_program(program: ExportedProgram, *, equal_sizes: bool = True) -> Exported:
    """A program of torch as data; raises DiagnosticError."""
    import torch  # heavy, and here in the user's program already

    buffer = io.BytesIO()
    lighter, live = without_weights(program)
    try:
        torch.export.save(lighter, buffer)
    except RuntimeError as error:  # of tensors that hold nothing, for instance
        raise DiagnosticError.of(NotAnArchive(IN_MEMORY, first_line(error))) from error
    exported = _read(buffer.getvalue(), IN_MEMORY, live)
    return with_equal_sizes(exported) if equal_sizes else exported


def _read(data: bytes, file: str, live: Mapping[str, Array] = MappingProxyType({})) -> Exported:
    try:
        return read_exported(with_weights(read_archive(data), live))
    except Damaged as damage:
        raise DiagnosticError.of(NotAnArchive(file, str(damage))) from None


def import_read(
    exported: Exported,
    file: str,
    name: str | None,
    *,
    origin: str = "a torch.export program",
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
    witness: Witness | None = None,
) -> Imported:
    """The diagram of a program that was read; a `witness` computes its outputs in another way.

    Raises DiagnosticError with all that is in the way.
    """
    model = lower(exported)
    if not model.steps:
        raise DiagnosticError.of(NotAnArchive(file, "it computes nothing"))
    blocks = fold(model)
    entry = identifier(name or blocks.entry.kind, "Model")
    heading = (f"Imported from {origin} of {entry}.", *model.notes)
    written = write(model, blocks, entry, heading)
    proof = prove(written.text, written.weights, model, exported, witness)
    params = {
        path: np.array(part(exported.arrays[weight.source], weight), order="C")
        for path, weight in written.weights.items()
    }
    names = _names(written.weights, exported, config, saved)
    return Imported(written.text, params, written.weights, names, proof, model.notes)


def _names(
    sources: Mapping[str, Weight],
    exported: Exported,
    config: Mapping[str, Any] | None,
    saved: SavedTensors | None,
) -> str:
    try:
        return names_file(sources, exported, config, saved)
    except Unspeakable as problem:
        raise DiagnosticError.of(NotAnInput("a weight", problem.reason)) from None
