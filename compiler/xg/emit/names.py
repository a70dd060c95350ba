"""Names in generated code: the author's where there is one, never a keyword, never twice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword, issoftkeyword

RESERVED = frozenset(
    {"params", "inputs", "seed", "at", "saved", "grads", "d_outputs", "np", "torch", "dtype", "i"}
    | {"forward", "backward", "init", "table", "take", "range", "len", "float", "int", "math"}
    | {"Any", "Array", "Params", "Saved", "NamedTuple", "Model", "key"}
)


class Names:
    """Gives out identifiers of one scope; what was given once is taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(RESERVED) | set(taken)

    def fresh(self, wanted: str) -> str:
        """The wanted name if it is free, else the same with a number; ``U_#`` asks for one."""
        if wanted.endswith("_#"):
            return self._numbered(identifier(wanted[:-2]), 1)
        name = identifier(wanted)
        if name not in self._taken and not iskeyword(name) and not issoftkeyword(name):
            self._taken.add(name)
            return name
        return self._numbered(name, 2)

    def _numbered(self, name: str, number: int) -> str:
        while f"{name}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}_{number}")
        return f"{name}_{number}"

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being given out."""
        self._taken.update(names)


def identifier(text: str) -> str:
    """A Python identifier made of a diagram's name: ``bert.E`` is ``bert_E``."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def snake(name: str) -> str:
    """A function's name from a block's: ``GatedMLP`` is ``gated_mlp``, ``layer norm`` too."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z].)|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(re.sub(r"[\s\-]+", "_", spaced)).lower()


def camel(name: str) -> str:
    """A class's name from a block's: ``self attention`` is ``SelfAttention``, ``MHA`` stays."""
    parts = re.split(r"[\s_\-]+", name)
    return identifier("".join(part[:1].upper() + part[1:] for part in parts))
