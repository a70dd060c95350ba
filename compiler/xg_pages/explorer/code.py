"""The functions of every block, line by line, each with the steps that it computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.codegen.emit.names import plain
from xg.codegen.emit.statements import Mark
from xg.codegen.variables import names_of, written
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program, Step, Value
from xg_pages.explorer.uses import BlockUse
from xg_pages.html.page import CodeLine, Pass


@dataclass(frozen=True, slots=True)
class BlockCode:
    """The functions of a block, and what they call the values of its forward pass."""

    lines: Mapping[Pass, tuple[CodeLine, ...]]
    variables: Mapping[Value, str]


@dataclass(frozen=True, slots=True)
class Code:
    """The functions of all blocks, and by name those of operators that they call."""

    blocks: Mapping[str, BlockCode]
    operators: Mapping[str, str]


def code(program: Program, uses: Sequence[BlockUse]) -> Code:
    """The code of a program, the same text as in its module."""
    writer = written(program)
    plan = writer.plan
    blocks: dict[str, BlockCode] = {}
    for use in uses:
        key = use.graph.key
        _, forward, backward, *_ = writer.blocks[key]
        ids = {step: name for name, step in use.steps()}
        lines: dict[Pass, tuple[CodeLine, ...]] = {
            "forward": tuple(_lines(forward, plan.marks[key, False], ids)),
            "backward": tuple(_lines(backward, plan.marks[key, True], ids)),
        }
        blocks[key] = BlockCode(lines, names_of(writer, key))
    functions = plan.operators.written.items()
    texts = {
        plain(name): plain("\n".join(operator_function.source(name)))
        for name, operator_function in functions
    }
    return Code(blocks, texts)


def _lines(
    lines: Sequence[str], marks: Sequence[Mark], ids: Mapping[Step, str]
) -> Iterator[CodeLine]:
    computed = {
        number: tuple(ids[step] for step in mark.steps)
        for mark in marks
        for number in range(mark.first, mark.end)
    }
    for number, text in enumerate(lines):
        yield CodeLine(plain(text), computed.get(number, ()))
