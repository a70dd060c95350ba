"""Programs from their text: the printer the other way round."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Source
from xg.ir.graph import IRProgram


def read_program(text: str, name: str = "program.ir") -> IRProgram:
    """The program that a text spells, its spans in that text; raises UnreadableIR."""
    from xg.passes.ir_text import build_program, tree  # Lark is slow to load, and few read

    return build_program.build(tree.parse(text), Source(name, text))
