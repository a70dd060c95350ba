"""The file of names beside an imported diagram, so that weights travel both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from xg.diagnostics.lazy_dataclass import dataclass
from xg.importing.diagram import Weight
from xg.importing.errors import Unspeakable
from xg.importing.exported import Exported
from xg_runtime import names

NUMBERS = (re.compile(r"(?<=\.)\d+(?=\.)"), re.compile(r"(?<=[._])\d+(?=\.)"))
Json = Mapping[str, Any]


@dataclass(frozen=True)
class WeightLine:
    """A tensor of the model, the way to its parameters, and their names."""

    tensor: str
    way: str
    params: tuple[str, ...]

    @property
    def text(self) -> str:
        """The line as written in the file."""
        names = ", ".join(self.params)
        return f"{_quoted(self.tensor)} = {_quoted(f'{self.way} : {names}' if self.way else names)}"

    @property
    def general(self) -> WeightLine | None:
        """The line with `*` for its numbers; None if they are not the same on both sides."""
        for number in NUMBERS:
            stars = [number.findall(name) for name in (self.tensor, *self.params)]
            if stars[0] and all(each == stars[0] for each in stars):
                tensor, *params = (number.sub("*", name) for name in (self.tensor, *self.params))
                return WeightLine(tensor, self.way, tuple(params))
        return None


def names_file(
    sources: Mapping[str, Weight], exported: Exported, config: Json | None = None
) -> str:
    """The text of the file; `config` is the model's own config.json; raises Unspeakable."""
    lines = list(_lines(sources, exported))
    used = {line.tensor for line in lines}
    tied = {name: of for name, of in exported.tied.items() if of in used}
    ignored = [name for name in exported.arrays if name not in used and name not in tied]
    parts = ["# The tensors of the model that was imported, and the parameters that they are."]
    if ignored:
        parts.append("ignored = [" + ", ".join(map(_quoted, _patterns(ignored))) + "]")
    parts += ["", "[tensors]", *_general(lines)]
    if tied:
        parts += ["", "[tied]", *(f"{_quoted(k)} = {_quoted(v)}" for k, v in tied.items())]
    if config:
        kind = config.get("model_type")
        if isinstance(kind, str):
            parts += ["", "[config.drawn]", f"model_type = {_quoted(kind)}"]
        flat = {key: text for key, text in _flat(config) if key != "model_type"}
        parts += ["", "[config.written]", *(f"{_quoted(k)} = {v}" for k, v in flat.items())]
    return "\n".join(parts) + "\n"


def _lines(sources: Mapping[str, Weight], exported: Exported) -> Iterator[WeightLine]:
    """One line for each tensor that is read."""
    parts: dict[str, list[tuple[str, Weight]]] = {}
    for path, weight in sources.items():
        parts.setdefault(weight.source, []).append((path, weight))
    for source, held in parts.items():
        held.sort(key=lambda item: item[1].start or 0)
        yield WeightLine(
            source,
            _layout([weight for _, weight in held], exported.arrays[source].shape, source),
            tuple(path for path, _ in held),
        )


def _layout(weights: list[Weight], shape: Sequence[int], source: str) -> str:
    """The signs that a tensor goes through: ``T -> split``."""
    first, rank = weights[0], len(shape)
    if first.kernel and len(weights) == 1:
        places = ", ".join("pqr"[: rank - 2])
        return f"R[d, c, {places} -> {places}, c, d]"
    if first.flat and len(weights) == 1:
        inner = [f"{letter}={size}" for letter, size in zip("cpqr", shape[1:], strict=False)]
        outer = ", ".join(each.partition("=")[0] for each in inner)
        return f"R[d, {outer} -> ({', '.join(inner)}), d]"
    turn = "T" if first.transposed else ""
    if len(weights) == 1 and first.start is None:
        return turn
    axes = {(each.transposed, each.axis) for each in weights}
    last = first.axis == rank - (2 if first.transposed else 1)
    odd = rank > 2 and not last
    if len(axes) > 1 or odd or any(each.start is None for each in weights):
        raise Unspeakable(f"the parts of {source} have no place in a file of names")
    return " -> ".join(part for part in (turn, "split" if last else "rows") if part)


def _general(lines: list[WeightLine]) -> Iterator[str]:
    """Lines with `*` for all numbers that match it; each in the place of its first."""
    params = [line.params[0] for line in lines]
    groups: dict[WeightLine, list[str]] = {}
    for line in lines:
        if line.general is not None:
            groups.setdefault(line.general, []).append(line.params[0])
    whole = {
        general
        for general, members in groups.items()
        if [each for each in params if names.numbers(general.params[0], each) is not None]
        == members
    }
    for line in lines:
        general = line.general
        if general is None or general not in whole:
            yield line.text
        elif groups[general][0] == line.params[0]:
            yield general.text


def _patterns(tensors: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(NUMBERS[0].sub("*", name) for name in tensors))


def _flat(config: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """A config.json as dotted keys and TOML values; null is left out, as it counts as absent."""
    waiting: list[tuple[str, Any]] = [(prefix, config)]
    while waiting:
        key, value = waiting.pop(0)
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            waiting[:0] = [(f"{key}.{name}" if key else str(name), table[name]) for name in table]
        elif _is_plain(value):
            yield key, json.dumps(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in cast("list[object]", value))
    return isinstance(value, str | int | float)


def _quoted(text: str) -> str:
    return json.dumps(text)
