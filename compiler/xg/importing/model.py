"""From the bytes of an exported program to the text of a file and its parameters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.importing.archive import Array, Damaged, read_archive
from xg.importing.diagram import Weight
from xg.importing.errors import NotAnArchive, NotAnInput, Unspeakable
from xg.importing.exported import Exported, read_exported, with_equal_sizes
from xg.importing.fold import fold
from xg.importing.lower import lower
from xg.importing.names import identifier
from xg.importing.names_file import names_file
from xg.importing.proof import ModelComparison, part, prove
from xg.importing.write import write

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
    return _imported(_read(data, file), file, name)


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
) -> Imported:
    """A program of torch; with `equal_sizes` axes that were equally long are one size.

    `config` is what a config.json says of it, which the file of names keeps. Raises
    DiagnosticError with all that is in the way.
    """
    import torch  # heavy, and here in the user's program already

    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    exported = _read(buffer.getvalue(), IN_MEMORY)
    if equal_sizes:
        exported = with_equal_sizes(exported)
    if first_output:
        exported = replace(exported, outputs=exported.outputs[:1])
    return _imported(exported, IN_MEMORY, name, config)


def _read(data: bytes, file: str) -> Exported:
    try:
        return read_exported(read_archive(data))
    except Damaged as damage:
        raise DiagnosticError.of(NotAnArchive(file, str(damage))) from None


def _imported(
    exported: Exported, file: str, name: str | None, config: Mapping[str, Any] | None = None
) -> Imported:
    model = lower(exported)
    if not model.steps:
        raise DiagnosticError.of(NotAnArchive(file, "it computes nothing"))
    blocks = fold(model)
    entry = identifier(name or blocks.entry.kind, "Model")
    heading = (f"Imported from a torch.export program of {entry}.", *model.notes)
    written = write(model, blocks, entry, heading)
    proof = prove(written.text, written.weights, model, exported)
    params = {
        path: part(exported.arrays[weight.source], weight)
        for path, weight in written.weights.items()
    }
    names = _names(written.weights, exported, config)
    return Imported(written.text, params, written.weights, names, proof, model.notes)


def _names(
    sources: Mapping[str, Weight], exported: Exported, config: Mapping[str, Any] | None
) -> str:
    try:
        return names_file(sources, exported, config)
    except Unspeakable as problem:
        raise DiagnosticError.of(NotAnInput("a weight", problem.reason)) from None
