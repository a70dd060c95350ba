"""Shards of tokens, as tools for pretraining write them: numbers of one width, one after the other.

    find(Path("data/shard_*.bin")) -> paths      by name; of one file that alone
    read(paths, "uint16") -> Shards              the tokens of all, in this order

nanoGPT writes nothing but tokens, so their width has to be named. llm.c and what follows it begin
a file with 256 numbers of 32 bits, of which the first says the width and the third how many tokens
there are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.files import file_errors, refuse_special
from xg_runtime.module import Array

TokenType: TypeAlias = Literal["uint16", "uint32"]
ENDING: Final = ".bin"
_LITTLE: Final = {"uint16": "<u2", "uint32": "<u4"}
_KNOWN: Final[dict[tuple[int, int], TokenType]] = {  # by the first two numbers of a header
    (20240520, 1): "uint16",
    (20240801, 7): "uint32",
}
_HEADER: Final = 256  # numbers of 32 bits


@dataclass(frozen=True)
class Shards:
    """The tokens [N] of all files, and the SHA-256 of their bytes."""

    ids: Array
    sha256: str


def find(path: Path) -> list[Path]:
    """Return the files of a name in which `*` is any text, in the order of their names.

    Raises InputError where there is none.
    """
    if "*" not in path.name or path.is_file():
        return [path]
    found = sorted(each for each in path.parent.glob(path.name) if each.is_file())
    if not found:
        raise InputError(f"there is no file {path}")
    return found


def read(paths: Sequence[Path], type_: TokenType | None, size: int) -> Shards:
    """Return the tokens of files, each below `size`, all in memory; raises InputError, FileError.

    `type_` is needed where the files have no header.
    """
    sha256 = hashlib.sha256()
    parts: list[Array] = []
    for path in paths:
        with file_errors("read"):
            refuse_special(path)
            content = np.fromfile(path, np.uint8)
        sha256.update(content.data)
        ids = _tokens(path, content, type_)
        check_vocabulary(path.name, ids, size)
        parts.append(ids)
    widths = {part.dtype.name: path for part, path in zip(parts, paths, strict=True)}
    if len(widths) > 1:
        others = ", ".join(f"{path.name} {width}" for width, path in widths.items())
        raise InputError(f"shards of one text must have one type of token; found {others}")
    return Shards(np.concatenate(parts), sha256.hexdigest())


def _tokens(path: Path, content: Array, type_: TokenType | None) -> Array:
    """Return the tokens of one file."""
    head = content[: 4 * _HEADER].view("<i4") if len(content) >= 4 * _HEADER else np.zeros(3)
    known = _KNOWN.get((int(head[0]), int(head[1])))
    if known is None and type_ is None:
        raise InputError(
            f"{path.name} does not say how wide its tokens are: write --token-type uint16, or "
            "uint32"
        )
    if known and type_ not in (None, known):
        raise InputError(
            f"the header of {path.name} says {known}, not {type_}: leave out --token-type"
        )
    body = content[4 * _HEADER :] if known else content
    kind = np.dtype(_LITTLE[known or type_ or "uint16"])
    if len(body) % kind.itemsize:
        raise InputError(
            f"{path.name} must hold whole tokens of {kind.itemsize} bytes; found "
            f"{len(body):,} bytes"
        )
    ids: Array = body.view(kind)
    if known and len(ids) != int(head[2]):
        said = f"the header of {path.name} says {int(head[2]):,} tokens"
        raise InputError(f"{said}, but it has {len(ids):,}: the file is cut off or damaged")
    return ids


def check_vocabulary(source: str, ids: Array, size: int) -> None:
    """Refuse tokens from `size` on: another vocabulary, or another width."""
    if not len(ids):
        raise InputError(f"{source} has no tokens")
    if ids.min() < 0:
        raise InputError(f"{source} has the token {ids.min()}: tokens must be 0 or more")
    place = int(ids.argmax())
    if ids[place] >= size:
        raise InputError(
            f"{source} has the token {ids[place]:,} at place {place:,}, but the vocabulary "
            f"ends with {size - 1:,}: set the number of tokens, or check --token-type"
        )
