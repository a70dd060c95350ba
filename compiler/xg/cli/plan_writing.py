"""The winner of a search as a plan of the file, in canonical layout."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from xg.cli.plan_search import Candidate
from xg.diagnostics.source import Source
from xg.syntax.format import format
from xg.syntax.tokens import tokenize
from xg_runtime import files
from xg_runtime.errors import InputError


def refuse_name(file: str, name: str, plans: Collection[str]) -> None:
    """Raise InputError where a plan of that name cannot be written."""
    if file == "-" or not Path(file).is_file():
        raise InputError("--write needs a file, not standard input or a shipped diagram")
    found = tokenize(Source("name", name))
    if found.problems or [token.type for token in found.tokens] != ["NAME", "$END"]:
        raise InputError(f"{name!r} is no name for a plan: letters, digits and _, a letter first")
    if name in plans:
        raise InputError(f"{file} has a plan {name}: give the new one another name")


def written(file: str, name: str, winner: Candidate) -> str:
    """Add the winner to the file, and tell how it is used; raises InputError and FileError."""
    factors = winner.product.factors
    if not factors:
        raise InputError("one device is best: there is no plan to write")
    title = f"{winner.ranks} ranks: {winner.mesh.replace(' × ', ', ')}"
    path = Path(file)
    text = files.read(path).decode()
    line = f'plan {name} "{title}" = {" × ".join(factors)}\n'
    laid_out = format(Source.from_bytes(path.as_posix(), f"{text.rstrip()}\n\n{line}".encode()))
    files.write(path, laid_out.encode())
    sizes = " ".join(f"--set {axis}={size}" for axis, size in winner.price.mesh.items())
    parts = winner.price.parts
    train = f", and in xg train --accumulate {parts}" if parts > 1 else ""
    return f"{file}: plan {name} is written; use it with --plan {name} {sizes}{train}"
