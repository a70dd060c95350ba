"""Tensors of a checkpoint as parameters of a diagram, and back.

    params = to_diagram(names, weights, shapes, sizes)    by the diagram's names; raises InputError
    params = read_later(names, weights, shapes, sizes)    those of many tensors put together later
    tensors = to_checkpoint(names, params, sizes)         by the checkpoint's names
    tensors = later(names, params, sizes)                 each put together when it is written

Nothing is passed over: each parameter comes from one tensor, and each tensor is used, is a copy of
one that is, or is one of those that the file of names says to ignore. The second way also takes
gradients, which have the layout of their parameters.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Misfit, Names, NamesLine, Sizes, filled, numbers
from xg_runtime.tensorfile import Later, Stack, Writable, whole
from xg_runtime.weights import Weights

Shape = tuple[int, ...]
SHOWN_AT_MOST: Final = 20  # of what does not fit


def is_foreign(tensors: Arrays, params: Sequence[str]) -> bool:
    """Whether these are tensors of a checkpoint that has names of its own."""
    return bool(tensors) and not any(name in tensors for name in params)


def to_diagram(
    names: Names, weights: Weights, shapes: Mapping[str, Shape], sizes: Sizes, block: str
) -> Arrays:
    """The parameters of a block, whose `shapes` these are; raises InputError with all misfits."""
    params = read_later(names, weights, shapes, sizes, block)
    return {name: whole(array) for name, array in params.items()}


def read_later(
    names: Names, weights: Weights, shapes: Mapping[str, Shape], sizes: Sizes, block: str
) -> dict[str, Array | Later]:
    """The parameters of `to_diagram`; stacked ones need no memory before they are read."""
    names = names.at(sizes)
    lines = lines_for(names, list(shapes), block, sizes, shapes)
    parameters = _Parameters.of(names, weights.tensors, lines)
    params: Arrays = {}
    rows: dict[str, list[Array]] = {}
    wrong: list[str] = []
    for line in lines:
        if line.tensor in parameters.tensors:
            wrong += _fill(params, rows, line, parameters, shapes, sizes)
    missing = [line for line in lines if line.tensor not in parameters.tensors]
    told = [
        *(_missing(line, shapes) for line in missing),
        *parameters.left_over,
        *wrong,
        *parameters.untied,
    ]
    if told:
        counts = {
            "missing": len(missing),
            "left over": len(parameters.left_over),
            "of another shape": len(wrong),
            "not tied": len(parameters.untied),
        }
        words = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        raise InputError(f"{weights.source} does not fit {block}: {words}", _at_most(told))
    stacks = {name: Stack.of(held) for name, held in rows.items()}
    return {name: stacks[name] if name in stacks else params[name] for name in shapes}


def to_checkpoint(names: Names, params: Arrays, sizes: Sizes) -> Arrays:
    """Parameters, or their gradients, under the names and in the layouts of the checkpoint."""
    tensors = later(names, params, sizes)
    return {name: np.asarray(tensor.array(), order="C") for name, tensor in tensors.items()}


def later(names: Names, params: Writable, sizes: Sizes) -> dict[str, Later]:
    """Return the tensors of `to_checkpoint`, each computed only when it is written."""
    tensors: dict[str, Later] = {}
    shapes = {name: array.shape for name, array in params.items()}
    for line in lines_for(names, list(params), "the diagram", sizes, shapes):
        arrays = [params[param] for param in line.params]
        parts = arrays if line.row is None else [_row(array, line.row) for array in arrays]
        try:
            tensors[line.tensor] = line.layout.tensor(parts, sizes)
        except Misfit as error:
            raise InputError(f"{names.source}: {line.tensor}: {error}") from error
    return tensors


def _row(array: Array | Later, place: int) -> Array:
    return array.rows[place] if isinstance(array, Stack) else whole(array)[place]


def lines_for(
    names: Names,
    params: Sequence[str],
    block: str,
    sizes: Sizes,
    shapes: Mapping[str, Shape] | None = None,
) -> list[NamesLine]:
    """The lines of a block's parameters, numbers filled in; raises InputError.

    A line is left out where the block lacks all of its parameters, as an own head that is tied. A
    stacked parameter has one for each row, if its shape is known.
    """
    known = names.at(sizes)
    try:
        lines = [
            filled_in
            for line in known.lines
            for filled_in in _expand_line(line, params, shapes or {})
        ]
    except Misfit as error:
        raise InputError(f"{names.source}: {error}") from error
    named = Counter(name for line in lines if not line.row for name in line.params)
    for name in params:
        if named[name] != 1:
            how = f"{named[name]} times" if named[name] else "nowhere"
            raise InputError(f"{names.source} must name {name} of {block} once; it names it {how}")
    for name in named.keys() - set(params):
        raise InputError(
            f"{names.source} names {name}, which {block} does not have: remove the line"
        )
    return lines


def _expand_line(
    line: NamesLine, params: Sequence[str], shapes: Mapping[str, Shape]
) -> Iterator[NamesLine]:
    """A line for each parameter that it is about; raises Misfit."""
    first = [numbers(line.params[0], name) for name in params]
    for stars in dict.fromkeys(stars for stars in first if stars is not None):
        filled_params = tuple(filled(name, stars) for name in line.params)
        rows: list[int | None] = [None]
        if line.layout.stacked:
            rows = list(range(shapes.get(filled_params[0], (1,))[0]))
        for row in rows:
            tensor = filled(line.tensor, stars if row is None else (*stars, str(row)))
            yield NamesLine(tensor, line.layout, filled_params, row)


def owners(
    names: Names, tensors: Sequence[str], params: Sequence[str], block: str, sizes: Sizes
) -> dict[str, list[list[str]]]:
    """Map each tensor to its parameters, one list for each part of its last axis.

    A copy that is tied holds what its original does. Where the parts are not columns side by side
    all parameters are in one list.
    """
    names = names.at(sizes)
    lines = {line.tensor: line for line in lines_for(names, params, block, sizes)}
    known = lines.keys() | names.tied.keys()
    found: dict[str, list[list[str]]] = {}
    for tensor in tensors:
        name = _known(tensor, names, set(known))
        line = lines.get(name) or lines.get(names.tied.get(name, ""))
        if line is not None:
            apart = line.layout.cut == -1 and not any(line.layout.maps)
            found[tensor] = [[p] for p in line.params] if apart else [list(line.params)]
    return found


def fits(pattern: str, name: str) -> bool:
    """Whether a name is one of a pattern's, with numbers for its `*`.

    Where it counts from a size that has no number yet: whether it may be one.
    """
    return numbers(pattern, name) is not None


def inside(names: Names, path: str) -> Names:
    """The names of the block that a model calls as `path`; all other tensors are ignored."""
    start = f"{path}."
    own = [line for line in names.lines if all(p.startswith(start) for p in line.params)]
    others = [line.tensor for line in names.lines if line not in own]
    others += [name for name, of in names.tied.items() if of in others]
    lines = [
        replace(line, params=tuple(param.removeprefix(start) for param in line.params))
        for line in own
    ]
    tied = {name: of for name, of in names.tied.items() if name not in others}
    ignored = (*names.ignored, *others)
    return replace(names, lines=tuple(lines), tied=tied, ignored=ignored)


def shown(
    names: Names, weights: Weights, params: Sequence[str], sizes: Sizes, block: str
) -> Arrays:
    """Return the parameters that show their shapes before sizes are known, from whole tensors."""
    names = names.at(sizes)
    lines = lines_for(names, params, block, sizes)
    parameters = _Parameters.of(names, weights.tensors, lines)
    visible: Arrays = {}
    for line in lines:
        whole = not line.layout.splits and line.row is None
        if line.tensor in parameters.tensors and whole:
            try:
                (visible[line.params[0]],) = line.layout.params(
                    parameters.tensors[line.tensor], (), sizes
                )
            except Misfit:  # reported when all sizes are known
                continue
    return visible


@dataclass(frozen=True)
class _Parameters:
    """A checkpoint's tensors under the names of the file, and what is odd about them."""

    tensors: Arrays
    spelled: Mapping[str, str]  # as the checkpoint spells them
    left_over: list[str]
    untied: list[str]

    @classmethod
    def of(cls, names: Names, tensors: Arrays, lines: Sequence[NamesLine]) -> "_Parameters":
        used = {line.tensor for line in lines}
        copies = {name: of for name, of in names.tied.items() if name not in used}
        spelled = {_known(name, names, used | copies.keys()): name for name in tensors}
        arrays = {name: tensors[held] for name, held in spelled.items()}
        untied: list[str] = []
        for name in copies.keys() & arrays.keys():
            tensor = arrays.pop(name)
            if not np.array_equal(arrays.setdefault(copies[name], tensor), tensor):
                untied.append(f"not tied: {spelled[name]} differs from {copies[name]}")
            spelled.setdefault(copies[name], spelled[name])
        odd = [
            f"left over: {spelled[name]} {_shape(array)}"
            for name, array in sorted(arrays.items())
            if name not in used and not any(numbers(one, name) is not None for one in names.ignored)
        ]
        double = [f"left over: {name}, given twice" for name in tensors.keys() - spelled.values()]
        return cls(arrays, spelled, [*odd, *sorted(double)], sorted(untied))


def _known(name: str, names: Names, known: set[str]) -> str:
    """A name as the file of names spells it: the prefix added, an old ending renewed."""
    for old, new in names.older.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    with_prefix = names.prefix + name
    ignored = any(numbers(one, with_prefix) is not None for one in names.ignored)
    return with_prefix if name not in known and (with_prefix in known or ignored) else name


def _fill(
    params: Arrays,
    rows: dict[str, list[Array]],
    line: NamesLine,
    found: _Parameters,
    shapes: Mapping[str, Shape],
    sizes: Sizes,
) -> Iterator[str]:
    """Add a tensor's parameters, or rows of them; gives a line for each of another shape."""
    tensor, name = found.tensors[line.tensor], found.spelled[line.tensor]
    where = f"shape: {name} {_shape(tensor)}"
    stacked = line.row is not None
    param_shapes = [shapes[param][1:] if stacked else shapes[param] for param in line.params]
    try:
        parts = line.layout.params(tensor, param_shapes, sizes)
    except Misfit as error:
        holds = ", ".join(f"{p} {_text(s)}" for p, s in zip(line.params, param_shapes, strict=True))
        yield f"{where} should hold {holds}: {error}"
        return
    for param, part, shape in zip(line.params, parts, param_shapes, strict=True):
        row = param if line.row is None else f"row {line.row} of {param}"
        if part.shape != shape:
            yield f"{where} gives {row} {_shape(part)}, the diagram has {_text(shape)}"
        elif line.row is None:
            params[param] = part
        else:
            rows.setdefault(param, []).append(part)


def _missing(line: NamesLine, shapes: Mapping[str, Shape]) -> str:
    targets = ", ".join(f"{param} {_text(shapes[param])}" for param in line.params)
    return f"missing: {line.tensor}, for {targets}"


def _at_most(told: Sequence[str]) -> tuple[str, ...]:
    more = len(told) - SHOWN_AT_MOST
    return (*told[:SHOWN_AT_MOST], *([f"and {more} more"] if more > 0 else []))


def _shape(array: Array) -> str:
    return _text(array.shape)


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"
