"""Remove from a generated program everything that nothing in it mentions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fuzz.sketch import Block, Sketch, words


def tidied(sketch: Sketch) -> Sketch:
    """The same program, what is unused left out; helpers keep their inputs, which callers give."""
    main = without_unused_inputs(sketch.main)
    blocks = [without_unused_params(block) for block in (*sketch.blocks[:-1], main)]
    kept: list[Block] = []
    for place in range(len(blocks) - 1, -1, -1):
        if place == len(blocks) - 1 or blocks[place].name in _all(block for block in kept):
            kept.insert(0, blocks[place])
    ops = tuple(op for op in sketch.ops if op.split()[1].split("(")[0] in _all(kept))
    options = {name: o for name, o in sketch.options.items() if name in _all(kept)}
    dims = dict(sketch.dims)
    for _ in sketch.dims:
        text = _all(kept) | {word for size in dims.values() for word in words(size)}
        dims = {name: size for name, size in dims.items() if name in text}
    return replace(
        sketch,
        dims=dims,
        blocks=tuple(kept),
        ops=ops,
        options=options,
        settings={name: word for name, word in sketch.settings.items() if name in options},
        numbers={name: n for name, n in sketch.numbers.items() if name in dims},
        resized={name: n for name, n in sketch.resized.items() if carries(kept[-1], name)},
    )


def without_unused_params(block: Block) -> Block:
    """A block without the parameters that its statements do not mention."""
    used = _all(block.statements)
    return replace(block, params=tuple(param for param in block.params if param.name in used))


def without_unused_inputs(block: Block) -> Block:
    """A block without the inputs that its statements do not mention; one stays."""
    used = _all(block.statements) | {port.name for port in block.outputs}
    return replace(block, inputs=tuple(port for port in block.inputs if port.name in used))


def carries(block: Block, name: str) -> bool:
    """Whether an input of a block has an axis of just this size."""
    shapes = [port.type[1 : port.type.index("]")].split(", ") for port in block.inputs]
    return any(name in shape for shape in shapes)


def _all(parts: Iterable[object]) -> set[str]:
    return {word for part in parts for word in words(part)}
