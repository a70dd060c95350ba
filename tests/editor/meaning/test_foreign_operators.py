"""The names that other libraries give operators: one table for completion, fixes and help."""

from xg import ops
from xg.ir.op import FOREIGN_NAMES, SAME
from xg.passes.resolve.errors_of_names import meant


def test_the_table_names_operators_and_the_help_knows_each_name() -> None:
    glyphs = {op.glyph for op in ops.table().values()}
    assert FOREIGN_NAMES.keys() <= glyphs
    assert [name for names in FOREIGN_NAMES.values() for name in names if not meant(name)] == []


def test_what_can_stand_in_place_of_a_name_is_in_the_table() -> None:
    assert [name for name, glyph in SAME.items() if name not in FOREIGN_NAMES[glyph]] == []
