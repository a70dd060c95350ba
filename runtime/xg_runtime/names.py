"""Say published tensors, and how they lie in memory, in terms of a diagram: `NAME.names.toml`.

    "model.layers.*.mlp.up_proj.weight" = "T : layers.*.W_up"

A line reads as one of the language: the tensor on the left goes through T, and the result is called
W_up. `*` is a number, the same on both sides; where layers come in turns, `layers.{2*+1}` are those
of odd numbers, which the diagram counts from 0, and `layers.{*+N_dense}` those behind the first
N_dense. docs/models.md describes the whole file.

Each line only moves elements, so it can be inverted, and gradients go the same way as weights.
Python functions couldn't be inverted and would be code from strangers; regular expressions hide
overlaps. Properties that the diagram fixes are compared with `config.json`, because the number of
heads shows in no shape.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from xg_runtime import files
from xg_runtime.errors import InputError
from xg_runtime.module import Array
from xg_runtime.tensorfile import Later, whole

# The memory layout of a published tensor and of the diagram's parameters, both ways.
#
#     Layout.of("T")                                          [out, in] -> [in, out]
#     Layout.of("R[d, c=C_in, p=P, q=P -> (p, q, c), d]")     a kernel of patches -> a matrix
#     Layout.of("T -> split")                                 three matrices side by side -> three
#
# The signs are the language's: T swaps the last two axes, R takes axes apart and together, and an
# axis that is not alone gets its size with `=`. `split` cuts the last axis, `rows` the first, and
# `stack` makes one parameter of many tensors, each a row of its first axis; one of these comes
# last.


Sizes = Mapping[str, int]
Group = tuple[str, ...]  # the axes that are one axis of a tensor
Map = tuple[tuple[Group, ...], tuple[Group, ...]]

_STEP: Final = re.compile(r"T|split|rows|stack|R\[([^\[\]]*)->([^\[\]]*)\]")
_CUTS: Final = {"split": -1, "rows": 0}  # the axis that is cut
_LAST: Final = (*_CUTS, "stack")
_GROUP: Final = re.compile(r"\(([^()]*)\)|([^(),]+)")
_AXIS: Final = re.compile(r"(?:([A-Za-z]\w*)(?:=(\w+))?|1)")


class Misfit(ValueError):
    """A text that is no layout, or a tensor that a layout does not fit."""


@dataclass(frozen=True)
class TensorLayout:
    """The way from a published tensor to the parameters that it holds; `None` is T."""

    maps: tuple[Map | None, ...] = ()
    given: tuple[tuple[str, str], ...] = ()  # axes and what their size is called
    cut: int | None = None  # the axis that is cut into several parameters
    stacked: bool = False  # the tensor is one row of a parameter

    @property
    def splits(self) -> bool:
        """Whether the tensor holds several parameters."""
        return self.cut is not None

    @classmethod
    def of(cls, text: str) -> TensorLayout:
        """Read a layout; raises Misfit."""
        steps = [_STEP.fullmatch(step.strip()) for step in _steps(text)]
        maps: list[Map | None] = []
        sizes: dict[str, str] = {}
        for place, step in enumerate(steps):
            if step is None or (step[0] in _LAST and place < len(steps) - 1):
                signs = "T, R[… -> …], split, rows, stack"
                raise Misfit(f"{text!r} is none of {signs}, or these with ->")
            if step[0] not in _LAST:
                maps.append(None if step[0] == "T" else _map(step[1], step[2], sizes))
        last = steps[-1] if steps else None
        sign = last[0] if last else ""
        return cls(tuple(maps), tuple(sizes.items()), _CUTS.get(sign), sign == "stack")

    def params(self, tensor: Array, shapes: Sequence[Sequence[int]], sizes: Sizes) -> list[Array]:
        """The parameters that a tensor holds, which have these shapes if it is cut."""
        for step in self.maps:
            tensor = _transpose(tensor) if step is None else self._rearrange(tensor, *step, sizes)
        if self.cut is None:
            return [tensor]
        widths = [shape[self.cut] for shape in shapes if shape]
        if tensor.ndim == 0 or sum(widths) != tensor.shape[self.cut]:
            parts = " + ".join(map(str, widths))
            raise Misfit(f"its {'first' if self.cut == 0 else 'last'} axis is not {parts} long")
        return np.split(tensor, np.cumsum(widths)[:-1], axis=self.cut)

    def tensor(self, params: Sequence[Array | Later], sizes: Sizes) -> Later:
        """The tensor that holds these parameters, put together when it is asked for."""
        shape, dtype = list(params[0].shape), np.result_type(*(part.dtype for part in params))
        if self.cut is not None:
            shape[self.cut] = sum(part.shape[self.cut] for part in params)
        no_memory = np.broadcast_to(np.zeros((), dtype), shape)
        return Later(self._back(no_memory, sizes).shape, dtype, lambda: self._of(params, sizes))

    def _of(self, params: Sequence[Array | Later], sizes: Sizes) -> Array:
        parts = [whole(param) for param in params]
        together = parts[0] if self.cut is None else np.concatenate(parts, axis=self.cut)
        return self._back(together, sizes)

    def _back(self, tensor: Array, sizes: Sizes) -> Array:
        """A tensor in its published layout, a view where that is possible."""
        for step in reversed(self.maps):
            if step is None:
                tensor = _transpose(tensor)
            else:
                source, target = step
                tensor = self._rearrange(tensor, target, source, sizes)
        return tensor

    def _rearrange(
        self, tensor: Array, source: Sequence[Group], target: Sequence[Group], sizes: Sizes
    ) -> Array:
        """The tensor with its axes taken apart, in another order, and together again."""
        if tensor.ndim != len(source):
            raise Misfit(f"it has {tensor.ndim} axes, not {len(source)}")
        lengths = {axis: self._size(name, sizes) for axis, name in self.given}
        for group, length in zip(source, tensor.shape, strict=True):
            _settle(group, length, lengths)
        order = [axis for group in source for axis in group]
        apart = tensor.reshape([lengths[axis] for axis in order])
        turned = apart.transpose([order.index(axis) for group in target for axis in group])
        return turned.reshape([math.prod(lengths[axis] for axis in group) for group in target])

    def _size(self, name: str, sizes: Sizes) -> int:
        if name.isdigit():
            return int(name)
        if name not in sizes:
            raise Misfit(f"the diagram has no number for {name}")
        return sizes[name]


def _steps(text: str) -> list[str]:
    """The steps between the arrows outside of brackets."""
    ends = [m.span() for m in re.finditer(r"->(?![^\[]*\])", text)]
    edges = [0, *(place for span in ends for place in span), len(text)]
    return [text[a:b] for a, b in list(pairwise(edges))[::2]] if text else []


def _map(source: str, target: str, given: dict[str, str]) -> Map:
    """Parse both sides of an axis map, and add the sizes in it to `given`."""
    sides = _groups(source, given), _groups(target, given)
    names = [sorted(axis for group in side for axis in group) for side in sides]
    if names[0] != names[1] or len(set(names[0])) < len(names[0]):
        raise Misfit(f"[{source}->{target}] does not have each axis once on both sides")
    return sides


def _groups(text: str, given: dict[str, str]) -> tuple[Group, ...]:
    groups: list[Group] = []
    for match in _GROUP.finditer(text):
        inner = match[1] if match[1] is not None else match[2]
        matches = [_AXIS.fullmatch(axis.strip()) for axis in inner.split(",") if axis.strip()]
        if matches and None not in matches:
            axes = [axis for axis in matches if axis is not None]
            given.update((axis[1], axis[2]) for axis in axes if axis[2])
            groups.append(tuple(axis[1] for axis in axes if axis[1]))
        elif inner.strip():
            raise Misfit(f"{inner.strip()!r} is no axis")
    return tuple(groups)


def _settle(group: Group, length: int, known: dict[str, int]) -> None:
    """Check the sizes of a group's axes against `length`, and fill in one that is unknown."""
    unknown = [axis for axis in group if axis not in known]
    if len(unknown) > 1:
        raise Misfit(f"{' and '.join(unknown)} have no size: give them one with =")
    rest = math.prod(known[axis] for axis in group if axis in known)
    if unknown and rest and length % rest == 0:
        known[unknown[0]] = length // rest
    elif unknown or rest != length:
        raise Misfit(f"an axis of {length} is not {' times '.join(group) or '1'}")


def _transpose(tensor: Array) -> Array:
    if tensor.ndim < 2:
        raise Misfit("T needs two axes")
    return tensor.swapaxes(-1, -2)


_Step = tuple[int, int | str]  # of `{2*+1}` 2 and 1, of `{*+N_dense}` 1 and that size

_STAR: Final = re.compile(r"\{(?P<step>[1-9]\d*)?\*(?:\+(?P<start>\d+|[A-Za-z]\w*))?\}|\*")
# Beside a key.
_WAYS: Final = ("first", "else", "words", "length", "when", "above", "most", "training", "yarn")
_MOST: Final = re.compile(r"\w+( *[*/] *\w+)*")
_PARTS: Final = ("prefix", "ignored", "tensors", "tied", "older", "config", "inputs", "keywords")


@dataclass(frozen=True)
class NamesLine:
    """A published tensor and the parameters that it holds, with `*` for numbers.

    A tensor that is one `row` of a stacked parameter has one number more, its last.
    """

    tensor: str
    layout: TensorLayout
    params: tuple[str, ...]
    row: int | None = None

    @classmethod
    def of(cls, tensor: str, text: str) -> NamesLine:
        """Read ``T -> split : layers.*.W_Q, layers.*.W_K``; raises Misfit."""
        way, _, names = text.rpartition(":")
        params = tuple(name.strip() for name in names.split(","))
        layout = TensorLayout.of(way.strip())
        if not all(params) or (len(params) > 1) != layout.splits:
            raise Misfit(f"{text!r} should name one parameter, or several behind split or rows")
        if {name.count("*") + layout.stacked for name in params} != {tensor.count("*")}:
            raise Misfit(f"{text!r} has another number of * than {tensor}")
        return cls(tensor, layout, params)


@dataclass(frozen=True)
class ConfigPath:
    """Where config.json holds a setting: `keys` that must agree, or one with others for reading.

    `words` are the option's words by what the config says.
    """

    keys: tuple[str, ...]
    first: tuple[str, ...] = ()  # count before the keys
    otherwise: tuple[str, ...] = ()  # count where there is no key
    words: Mapping[str, str] | None = None
    length: str | None = None  # a table or list that is as long, where there is no key
    when: str | None = None  # counts where an option has one of these words: `turns=slowed | yarn`
    above: float | None = None  # where it has, every key must hold a number above this
    most: str | None = None  # a product of other settings that it may not exceed: `N_E*k_gr/N_gr`
    yarn: tuple[str, ...] = ()  # tables that say YaRN's attention factor, where there is no key
    training: bool = False  # changes no number in evaluation, so the first of several keys counts

    @classmethod
    def of(cls, found: object) -> ConfigPath:
        """Read ``"n_embd"``, a list of keys, or a table; raises Misfit."""
        if isinstance(found, str):
            return cls((found,))
        if isinstance(found, list):
            return cls(tuple(map(str, cast("list[object]", found))))
        table = dict(cast("dict[str, Any]", found))
        parts = {name: table.pop(name, None) for name in _WAYS}
        held: object = table.pop("key", None)
        if held is None or table:
            has = f"has {next(iter(table))}, which nothing reads: it" if table else "has no key: it"
            raise Misfit(f"{found} {has} should have a key, and perhaps {', '.join(_WAYS)}")
        training, above, words = parts["training"], parts["above"], parts["words"]
        if not isinstance(training, bool | None):
            raise Misfit(f"training = {training} should be true or false")
        if not isinstance(above, int | float | None):
            raise Misfit(f"above = {above} should be a number")
        for name in ("length", "when"):
            if not isinstance(parts[name], str | None):
                raise Misfit(f"{name} = {parts[name]} should be a text")
        length, when, most = parts["length"], parts["when"], parts["most"]
        if most is not None and not (isinstance(most, str) and _MOST.fullmatch(most)):
            raise Misfit(f"most = {most} should be settings with * and / between them")
        return cls(
            keys=_parse_keys("key", held),
            first=_parse_keys("first", parts["first"]),
            otherwise=_parse_keys("else", parts["else"]),
            words=None if words is None else _texts(words),
            length=length,
            when=when,
            above=above,
            most=most,
            training=bool(training),
            yarn=_parse_keys("yarn", parts["yarn"]),
        )


def _parse_keys(name: str, found: object) -> tuple[str, ...]:
    """One key or a list of keys, or none; raises Misfit."""
    keys = cast(
        "list[object]", found if isinstance(found, list) else [] if found is None else [found]
    )
    for key in keys:
        if not isinstance(key, str):
            raise Misfit(f"{name} = {key} should be a text")
    return cast("tuple[str, ...]", tuple(keys))


@dataclass(frozen=True)
class ConfigKeys:
    """Where config.json says what `--set` says, and what it must say for the diagram to be true."""

    settings: Mapping[str, ConfigPath]
    drawn: Mapping[str, object]
    older: Mapping[str, object]
    written: Mapping[str, object]
    training: Mapping[str, object]  # facts of the diagram that only training shows


@dataclass(frozen=True)
class Names:
    """A file of names. `prefix` may be absent in a checkpoint; `older` are endings as they were.

    `inputs` are the diagram's inputs by the names that the model's code gives them, `keywords` the
    argument by which it gives a module its input, where that is no positional one.
    """

    source: str
    prefix: str
    lines: tuple[NamesLine, ...]
    tied: Mapping[str, str]
    ignored: tuple[str, ...]
    older: Mapping[str, str]
    config: ConfigKeys
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])

    def at(self, sizes: Mapping[str, int]) -> Names:
        """The same file with numbers for the sizes that it counts from, where they have one."""
        lines = [replace(line, tensor=_resolve_starts(line.tensor, sizes)) for line in self.lines]
        ignored = tuple(_resolve_starts(pattern, sizes) for pattern in self.ignored)
        return replace(self, lines=tuple(lines), ignored=ignored)


def read(path: Path) -> Names:
    """Return what a file of names says; raises FileError, InputError where it makes no sense."""
    try:
        return _names(path, tomllib.loads(files.read(path).decode()))
    except RecursionError:
        raise InputError(
            f"{path} is not a file of names: its brackets are nested too deeply"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a file of names: {error}") from error


def _names(path: Path, found: dict[str, Any]) -> Names:
    strange = [name for name in found if name not in _PARTS]
    if strange or not found.get("tensors"):
        raise Misfit(f"it has {strange[0]}" if strange else "it has no [tensors]")
    config = dict(found.get("config", {}))
    parts = {name: config.pop(name, {}) for name in ("drawn", "older", "written", "training")}
    ignored, prefix = found.get("ignored", []), found.get("prefix", "")
    if not isinstance(ignored, list) or not isinstance(prefix, str):
        raise Misfit("ignored should be a list of names, and prefix a text")
    for name, part in {**parts, "tensors": found["tensors"]}.items():
        if not isinstance(part, dict):
            raise Misfit(f"{name} should be a table")
    ways = {name: ConfigPath.of(way) for name, way in config.items()}
    for way in ways.values():
        lacking = [each for each in re.findall(r"\w+", way.most or "") if each not in ways]
        if lacking:
            raise Misfit(f"most = {way.most} has {lacking[0]}, which no key gives")
    return Names(
        source=str(path),
        prefix=prefix,
        lines=tuple(NamesLine.of(*pair) for pair in _texts(found["tensors"]).items()),
        tied=_texts(found.get("tied", {})),
        ignored=tuple(map(str, cast("list[object]", ignored))),
        older=_texts(found.get("older", {})),
        config=ConfigKeys(ways, **parts),
        inputs=_texts(found.get("inputs", {})),
        keywords=_texts(found.get("keywords", {})),
    )


def _texts(table: Any) -> dict[str, str]:  # noqa: ANN401 - what TOML gives
    for name, text in table.items():
        if not isinstance(text, str):
            raise Misfit(f"{name} should be a text")
    return cast("dict[str, str]", table)


def numbers(pattern: str, name: str) -> tuple[str, ...] | None:
    """The numbers in the place of the `*` of a pattern; None where the name does not match.

    A size that it counts from is 0 until its number is known: the name may be of the pattern.
    """
    found, steps = _compile_pattern(pattern)
    match = found.fullmatch(name)
    if match is None:
        return None
    starts = [0 if isinstance(start, str) else start for _, start in steps]
    counted = [
        divmod(int(text) - start, step)
        for (text, (step, _)), start in zip(_pair_groups(match, steps), starts, strict=True)
    ]
    if any(number < 0 or rest for number, rest in counted):
        return None
    return tuple(
        text if step == (1, 0) else str(number)
        for (text, step), (number, _) in zip(_pair_groups(match, steps), counted, strict=True)
    )


def filled(pattern: str, stars: tuple[str, ...]) -> str:
    """The pattern with numbers for its `*`; raises Misfit where it counts from a size."""
    texts: list[str] = []
    for n, (step, start) in zip(stars, _compile_pattern(pattern)[1], strict=True):
        if isinstance(start, str):
            raise Misfit(f"{pattern} counts from {start}, which has no number in the diagram")
        texts.append(n if (step, start) == (1, 0) else str(step * int(n) + start))
    first, *parts = _parts(pattern)
    return first + "".join(n + part for n, part in zip(texts, parts, strict=True))


def _pair_groups(match: re.Match[str], steps: tuple[_Step, ...]) -> list[tuple[str, _Step]]:
    return list(zip(match.groups(), steps, strict=True))


def _parts(pattern: str) -> list[str]:
    """The texts around the numbers."""
    return _STAR.sub("*", pattern).split("*")


def _resolve_starts(pattern: str, sizes: Mapping[str, int]) -> str:
    """The pattern with numbers for the sizes that it counts from."""

    def number(star: re.Match[str]) -> str:
        start = sizes.get(star["start"] or "")
        return star[0] if start is None else f"{{{star['step'] or ''}*+{start}}}"

    return _STAR.sub(number, pattern)


@cache
def _compile_pattern(pattern: str) -> tuple[re.Pattern[str], tuple[_Step, ...]]:
    found = [(star["step"] or "1", star["start"] or "0") for star in _STAR.finditer(pattern)]
    steps = tuple((int(step), int(start) if start.isdigit() else start) for step, start in found)
    return re.compile(r"(\d+)".join(map(re.escape, _parts(pattern)))), steps
