"""Programs from their printed text: `xg.passes.ir_text` the other way round.

Tests read what was printed to show that the text leaves nothing out, and write programs by hand.
"""

from __future__ import annotations

from ir_reader import build_program, tree
from xg.diagnostics.diagnostic import Source
from xg.ir.graph import IRProgram


def read_program(text: str, name: str = "program.ir") -> IRProgram:
    """The program that a text spells, its spans in that text; raises UnreadableIR."""
    return build_program.build(tree.parse(text), Source(name, text))
