"""Names in generated code: the author's where there is one, never a keyword, never twice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from keyword import iskeyword, issoftkeyword

# What generated code means by itself, wherever it stands: no variable and no size is called so.
RESERVED = frozenset(
    {"params", "inputs", "seed", "at", "saved", "grads", "d_outputs", "np", "math", "torch"}
    | {"cache", "kept", "step", "states", "empty_cache"}
    | {"dtype", "device", "i", "one", "block"}
    | {"packed", "recall", "remember", "unpacked", "Named", "Names", "Kept"}
    | {"AbstractContextManager", "Iterator", "arrived", "as_before", "nullcontext"}
    | {"forward", "backward", "init", "table", "check", "array", "take", "add", "anew"}
    | {"Model"}
    | {"Any", "Array", "Params", "DType", "Saved", "NamedTuple", "NDArray", "Mapping", "key"}
    | {"Device", "Seed", "mix", "shift_right", "signed"}
    | {"range", "len", "float", "int", "str", "list", "tuple", "dict", "next", "iter", "reversed"}
    | {
        "bool",
        "enumerate",
        "isinstance",
        "max",
        "min",
        "ord",
        "round",
        "slice",
        "zip",
        "RuntimeError",
        "ValueError",
    }
    | {"erf", "pad", "pick", "place", "scatter_add", "drop", "keep_mask", "normal"}
    | {"random_key", "random_words", "keep_part", "words_at"}
    | {"all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all", "own"}
    | {
        "spread",
        "held",
        "within",
        "places",
        "part_of",
        "start_all_reduce",
        "parts",
        "wholes",
        "whole_shape",
    }
)


class Names:
    """Gives out identifiers of one scope; what was given once is taken.

    `stems` are names that belong to functions of the module, numbered or not.
    """

    def __init__(self, taken: Iterable[str] = (), stems: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._stems = frozenset(stems)
        self._next: dict[str, int] = {}  # a number per name below which all are taken

    def fresh(self, wanted: str) -> str:
        """The wanted name if it is free, else the same with a number; ``U_#`` asks for one."""
        if wanted.endswith("_#"):
            return self._numbered(identifier(wanted[:-2]), 1)
        name = identifier(wanted)
        if self._belongs(name):
            name += "_"
        if name in self._taken:
            return self._numbered(name.removesuffix("_"), 2)
        self._taken.add(name)
        return name

    def _belongs(self, name: str) -> bool:
        """Whether a name means something else already, in Python or in the module."""
        return is_reserved(name) or re.sub(r"_\d+$", "", name) in self._stems

    def _numbered(self, name: str, number: int) -> str:
        stem = name + "_" * (name in self._stems)
        number = max(number, self._next.get(stem, 1))
        while f"{stem}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{stem}_{number}")
        self._next[stem] = number + 1
        return f"{stem}_{number}"

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being given out."""
        self._taken.update(names)


def is_reserved(name: str) -> bool:
    """Whether a name means something in Python or in generated code."""
    return name in RESERVED or iskeyword(name) or issoftkeyword(name)


def spell_symbol(name: str) -> str:
    """The variable that holds a size: its symbol, with ``_`` behind it where that is reserved."""
    return f"{name}_" if is_reserved(name.rstrip("_")) else name


def mentioned(lines: Iterable[str]) -> set[str]:
    """Every name that lines of code mention, comments and strings left out."""
    found: set[str] = set()
    for line in lines:
        code = re.sub(r'"[^"]*"', "", line.split("# ")[0])
        found.update(re.findall(r"[A-Za-z_]\w*", code))
    return found


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
