"""Programs as text and back: `spell_program` in `printer`, `read_program` in `reader`.

This is no pass: both know the operators, and those that passes make. Lark is loaded by reading.
"""
