"""Say in NumPy what kernels of both backends say in torch.

Such a kernel is written once, as plain torch, and its text is copied into modules of torch as it
is. For modules of NumPy the few words that differ are replaced, in place: comments and lines stay.
A word that NumPy lacks is an error here, so it can't reach a module.

`x.to(…)` is left out: it is for autocast and for devices, and the arrays of a pass in NumPy have
one type and one place. A cast that both need is written in each backend's own file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from xg.codegen.emit.allowlist import words

# What `torch` and `np` both have, and what has another name.
SAME: Final = words(
    """
    arange broadcast_to empty exp float32 full_like inf log maximum promote_types where zeros
    zeros_like
    """
)
FUNCTIONS: Final = {**{name: name for name in SAME}, "cat": "concatenate"}
METHODS: Final = {"amax": "max", "mT": "swapaxes(-1, -2)"}
KEYWORDS: Final = {"dim": "axis", "keepdim": "keepdims"}

Edit = tuple[int, int, bytes]


def in_numpy(source: str) -> str:
    """The text of a file of kernels, in NumPy."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def start(node: ast.expr | ast.keyword) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr | ast.keyword) -> int:
        return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def edits(node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Attribute(value=ast.Name(id="torch"), attr=name) if name != "Tensor":
                yield start(node), end(node), f"np.{FUNCTIONS[name]}".encode()
            case ast.Call(func=ast.Attribute(value=x, attr="to")):
                # The brackets around `x`, if any, are between it and the dot.
                yield text.index(b".to(", end(x)), end(node), b""
            case ast.Call(func=ast.Attribute(value=x, attr="numel")):
                yield end(x), end(node), b".size"
            case ast.Attribute(attr=name) if name in METHODS:
                yield end(node) - len(name), end(node), METHODS[name].encode()
            case ast.keyword(arg="device"):
                yield text.rindex(b",", 0, start(node)), end(node), b""
            case ast.keyword(arg=str(name)) if name in KEYWORDS:
                yield start(node), start(node) + len(name), KEYWORDS[name].encode()
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=x, attr="to"))):
                if text[start(x) - 1 : start(x)] == b"(":
                    yield start(x) - 1, start(x), b""
                    yield end(x), end(x) + 1, b""
            case ast.Name(id="Seed", ctx=ast.Load()):
                yield start(node), end(node), b"int | None"
            case _:
                pass

    found = sorted(edit for node in ast.walk(ast.parse(source)) for edit in edits(node))
    parts, done = list[bytes](), 0
    for first, last, word in found:
        if first >= done:  # else it is in what was left out
            parts += [text[done:first], word]
            done = last
    return b"".join([*parts, text[done:]]).decode()
