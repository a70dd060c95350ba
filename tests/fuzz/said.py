"""Calls that give the sizes of their callees where no operand determines them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fuzz.sketch import Block, Operand, Sketch, Statement, Step

from xg.diagnostics.diagnostic import Source
from xg.passes.resolve.units import Linked, link
from xg.syntax import ast
from xg.syntax.parse import parse

CALL = re.compile(r"(?P<row>.* × )?(?P<name>\w+)(?:\((?P<given>.*)\))?")
INNER = re.compile(r"(?<![\w.])(?P<name>\w+)\((?P<given>[^()]*)\)")


def said(sketch: Sketch) -> Sketch:
    """A program in which every call gives the sizes that its operands leave open.

    They are the caller's of the same names where the call does not say another one. Sizes of which
    a callee no longer speaks are given no more.
    """
    while (
        len(sketch.blocks) > 1
    ):  # what a call gives is a size of which its block now speaks to its own callers
        linked = link(parse(Source("case.xg", str(sketch))), _no_file, {})
        blocks = tuple(_block(block, linked) for block in sketch.blocks)
        if blocks == sketch.blocks:
            return sketch
        sketch = replace(sketch, blocks=blocks)
    return sketch


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError(f"generated programs are one file: {use}")


def _block(block: Block, linked: Linked) -> Block:
    statements = tuple(_statement(statement, linked) for statement in block.statements)
    return replace(block, statements=statements)


def _statement(statement: Statement, linked: Linked) -> Statement:
    sources = tuple(_operand(each, linked) for each in statement.sources)
    steps = tuple(_step(step, linked) for step in statement.steps)
    return replace(statement, sources=sources, steps=steps)


def _operand(operand: Operand, linked: Linked) -> Operand:
    """An operand in which every call of a block that takes nothing gives its sizes."""

    def written(match: re.Match[str]) -> str:
        is_block = match["name"] in linked.unit.blocks
        text = _node(match[0], linked) if is_block else match[0]
        return f"{text}()" if is_block and "(" not in text else text

    return replace(operand, text=INNER.sub(written, operand.text))


def _step(step: Step, linked: Linked) -> Step:
    attached = tuple(_operand(each, linked) for each in step.attached)
    return replace(step, node=_node(step.node, linked), attached=attached)


def _node(node: str, linked: Linked) -> str:
    match = CALL.fullmatch(node)
    if match is None or match["name"] not in linked.unit.blocks:
        return node
    located = linked.unit.blocks[match["name"]]
    own = {decl.name.name for decl in located.block.dims}
    mentioned = [name for name in linked.mentioned_dims(located) if name not in own]
    carried = set(_carried(located.block))
    given = dict(part.split("=", 1) for part in (match["given"] or "").split(", ") if part)
    rest = [f"{n}={v}" for n, v in given.items() if n not in linked.dims or n in mentioned]
    rest += [
        f"{name}={name}"
        for name in mentioned
        if name not in linked.sizes.definitions and name not in carried and name not in given
    ]
    arguments = f"({', '.join(rest)})" if rest else ""
    return f"{match['row'] or ''}{match['name']}{arguments}"


def _carried(block: ast.Block) -> Iterator[str]:
    """The sizes that an axis or the range of an input is."""
    for port in block.data:
        for dim in (*(port.shape.dims if port.shape else ()), port.range):
            if isinstance(dim, ast.Path):
                yield dim.name
