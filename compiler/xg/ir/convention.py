"""A numeric convention: what an operator gives at an edge, where mathematics leaves a choice.

Operators and functions carry their conventions as data. Tests run each one in every backend and
compare it with torch, `docs/conventions.md` prints them all, and `xg ops NAME` those of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from xg.diagnostics.lazy_dataclass import dataclass, field

Edge = Literal[
    "tie",
    "kink",
    "zero",
    "infinity",
    "empty axis",
    "axis of length 1",
    "index outside",
    "half type",
    "integer",
]
Floats = Literal["float64", "float16", "bfloat16"]
Numbers = Any  # a number, or a tuple of Numbers

EDGES: Final[tuple[Edge, ...]] = get_args(Edge)
_LABEL: Final = re.compile(r"(?P<name>\w+) \[(?P<shape>[^]]*)\](?: in (?P<range>.+))?")


@dataclass(frozen=True, slots=True)
class Convention:
    """The value and the gradient of a small program at an edge.

    `rule` says in a sentence what holds. `use` is a formula (``abs(x)``) or a chain of a block
    (``x -> ReLU``), `inputs` and `params` are its arrays by their labels (``x [D]``,
    ``i [K] in 3``), `result` is the label of its value. `gradient` has a row for each float array
    that has one, for the `cotangent`, which is 1 everywhere unless it says otherwise.

    `torch` is the same in torch, as an expression of the inputs; an empty one says that torch has
    no such operator. `differs` says why xg does not do as torch does, and is empty where it does.
    `refused` is a part of the error for inputs that xg refuses, which then have no value. `others`
    are values of forms that differ: under ``jax jit`` no number can be refused.
    """

    edge: Edge
    rule: str
    use: str
    inputs: Mapping[str, Numbers]
    value: Numbers = None
    gradient: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    torch: str = ""
    result: str = ""
    params: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    cotangent: Numbers = None
    differs: str = ""
    refused: str = ""
    others: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    dtype: Floats = "float64"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(name_of(label) for label in self.inputs)

    @property
    def is_formula(self) -> bool:
        """Whether `use` is the formula of an operator of a file, not a chain."""
        return "->" not in self.use

    @property
    def text(self) -> str:
        """The whole program: one block N with the result y."""
        labels = ", ".join(self.inputs)
        result = self.result or "y" + next(iter(self.inputs)).removeprefix(self.names[0])
        sizes = sorted(set(self._symbols([*self.inputs, *self.params, result])))
        lines = [f"dim {', '.join(sizes)}"] if sizes else []
        made = name_of(result)
        chain = self.use if f": {made}," in self.use else f"{self.use} : {made}"
        if self.is_formula:
            lines.append(f"op F({labels}) = {self.use}")
            first, *others = self.names
            chain = " -> ".join([first, "<-".join(["F", *others])]) + f" : {made}"
        lines.append(f"block N({labels}) -> {result} {{")
        lines += [f"    param {label}" for label in self.params]
        lines += [*(f"    {line}" for line in chain.splitlines()), "}"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _symbols(labels: list[str]) -> Iterator[str]:
        for label in labels:
            parts = _parts(label)
            yield from re.findall(r"[A-Za-z]\w*", f"{parts['shape']} {parts['range'] or ''}")


def name_of(label: str) -> str:
    """The name in a label: ``x`` of ``x [B, D]``."""
    return str(_parts(label)["name"])


def _parts(label: str) -> dict[str, Any]:
    found = _LABEL.fullmatch(label)
    assert found, label
    return found.groupdict()
