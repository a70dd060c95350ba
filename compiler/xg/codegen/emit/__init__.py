"""From graphs to lines of code, for any backend: names, sizes, expressions, functions, modules.

A backend only spells primitives; everything that is the same in all of them is here.
"""
