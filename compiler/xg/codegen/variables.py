"""The names of a program's values in its code."""

from __future__ import annotations

from collections.abc import Mapping

from xg.codegen.backend import default
from xg.codegen.emit.module import ModuleWriter, marked
from xg.codegen.emit.names import plain, write_with_stable_names
from xg.ir.graph import IRProgram, Value


def written(program: IRProgram) -> ModuleWriter:
    """The writer of a program's module by the default backend, once it has written it."""
    return write_with_stable_names(lambda: marked(program, default().parts))[1]


def names_of(writer: ModuleWriter, key: str) -> dict[Value, str]:
    """The text of every value in the forward function of a block; of most a variable."""
    return {value: plain(name) for value, name in writer.saved[key][0].names.items()}


def variables(program: IRProgram) -> Mapping[str, Mapping[Value, str]]:
    """By the key of each block the values that are variables there, with their names."""
    writer = written(program)
    return {
        key: {v: name for v, name in names_of(writer, key).items() if name.isidentifier()}
        for key in writer.saved
    }
