"""The file of names beside an imported diagram, so that weights travel both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime import names
from xg_torch.importing.archive import Array
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Exported
from xg_torch.importing.proof import part
from xg_torch.importing.saved import SavedTensor, SavedTensors

NUMBERS = (re.compile(r"(?<=\.)\d+(?=\.)"), re.compile(r"(?<=[._])\d+(?=\.)"))
LIFTED = re.compile(
    r"(?:^|\.)lifted_tensor_\d+$"
)  # constants of code, which no file of weights has
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
        """The line with `*` for its numbers; None if they are not the same on both sides.

        A single number of the tensor may be larger than those of the parameters: `{*+3}`.
        """
        for number in NUMBERS:
            own, *stars = (number.findall(name) for name in (self.tensor, *self.params))
            if not own or any(each != stars[0] for each in stars):
                continue
            params = tuple(number.sub("*", name) for name in self.params)
            if own == stars[0]:
                return WeightLine(number.sub("*", self.tensor), self.way, params)
            if len(own) == len(stars[0]) == 1 and int(own[0]) > int(stars[0][0]):
                later = f"{{*+{int(own[0]) - int(stars[0][0])}}}"
                return WeightLine(number.sub(later, self.tensor), self.way, params)
        return None


def names_file(
    sources: Mapping[str, Weight],
    exported: Exported,
    config: Json | None = None,
    saved: SavedTensors | None = None,
) -> str:
    """The text of the file; raises Unspeakable.

    `config` is the model's own config.json, `saved` the tensors of its folder that are others than
    those of its modules.
    """
    saved = saved or {}
    lines = list(_lines(sources, exported, saved))
    used = {weight.source for weight in sources.values()}
    tied = {
        _renamed(name, saved): _renamed(of, saved)
        for name, of in exported.tied.items()
        if of in used
    }
    kept = (name for name in exported.arrays if not LIFTED.search(name))
    unread = [name for name in kept if name not in {*used, *exported.tied}]
    ignored = [each for name in unread for each in _names_of(name, saved)]
    parts = ["# The tensors of the model that was imported, and the parameters that they are."]
    own = sorted({line.tensor for line in lines} & saved.keys())
    if own:
        parts.append("# Its folder has these in a form that no line can say: " + ", ".join(own))
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


def _lines(
    sources: Mapping[str, Weight], exported: Exported, saved: SavedTensors
) -> Iterator[WeightLine]:
    """One line for each tensor that is read."""
    parts: dict[str, list[tuple[str, Weight]]] = {}
    for path, weight in sources.items():
        parts.setdefault(weight.source, []).append((path, weight))
    for source, held in parts.items():
        held.sort(key=lambda item: item[1].start or 0)
        shape = exported.arrays[source].shape
        if source in saved and _renamed(source, saved) == source:
            places = np.arange(exported.arrays[source].size).reshape(shape)
            rows = [_row(item, places, saved[source]) for item in held]
            if all(rows):
                yield from filter(None, rows)
                continue
        yield WeightLine(
            _renamed(source, saved),
            _layout([weight for _, weight in held], shape, source),
            tuple(path for path, _ in held),
        )


def _renamed(source: str, saved: SavedTensors) -> str:
    """The name of a tensor in the folder; its own where it is saved in another form."""
    whole = [each.name for each in saved.get(source, ()) if each.whole]
    return whole[0] if whole else source


def _names_of(source: str, saved: SavedTensors) -> list[str]:
    return [each.name for each in saved.get(source, ())] or [source]


def _row(
    held: tuple[str, Weight], places: Array, saved: Sequence[SavedTensor]
) -> WeightLine | None:
    """The line of a parameter of which each row is a tensor of its own, such as one expert."""
    path, weight = held
    starts = {int(each.places.min()): each for each in saved}
    lines: set[WeightLine] = set()
    for number, row in enumerate(part(places, weight)):
        tensor = starts.get(int(row.min()))
        for way, seen in (("stack", row), ("T -> stack", row.T)):
            if tensor is not None and np.array_equal(seen, tensor.places):
                before, found, behind = tensor.name.rpartition(f".{number}.")
                lines.add(WeightLine(f"{before}.*.{behind}" if found else "", way, (path,)))
                break
        else:
            return None
    (line, *others) = lines
    return None if others or not line.tensor else line


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
    firsts = {general.tensor: general for general in reversed(groups) if general in whole}
    for line in lines:
        general = line.general
        if general is None or firsts.get(general.tensor) != general:
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
