"""Sizes as torch writes them, ``Mul(Integer(3), Symbol('s27', positive=True))``, as exact dims."""

from __future__ import annotations

import ast

from xg.ir.dim import ZERO, Dim, DimError, number, product, symbol


def read_size(text: str) -> Dim:
    """The dim of a printed expression; raises DimError. Nothing is evaluated.

    >>> str(read_size("Add(Mul(Integer(3), Symbol('s27', integer=True)), Integer(1))"))
    '3*s27 + 1'
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise DimError(f"{text[:60]} is not a size") from None
    values: dict[int, Dim] = {}
    for node in reversed([item for item in ast.walk(tree) if isinstance(item, ast.Call)]):
        values[id(node)] = _value(node, values)
    if id(tree) not in values:
        raise DimError(f"{text[:60]} is not a size")
    return values[id(tree)]


def _value(call: ast.Call, values: dict[int, Dim]) -> Dim:
    """The dim of one call whose parts have theirs."""
    name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
    match name, call.args:
        case "Integer", [ast.Constant(value=int() as value)]:
            return number(value)
        case "Integer", [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value))]:
            return number(-value)
        case "Symbol", [ast.Constant(value=str() as name)]:
            return symbol(name)
        case "Add", parts:
            return sum((_part(part, values) for part in parts), ZERO)
        case "Mul", parts:
            return product(_part(part, values) for part in parts)
        case "Pow", [base, exponent]:
            power = _part(exponent, values).constant
            if power is not None:
                return _part(base, values) ** power
        case _:
            pass
    raise DimError(f"{name} stands in a size")


def _part(node: ast.expr, values: dict[int, Dim]) -> Dim:
    if id(node) not in values:
        raise DimError("a size has a part that is none")
    return values[id(node)]
