"""Equations of sizes with one unknown each: sizes that a call's operands determine indirectly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xg.ir.dim import UNIT, ZERO, Dim, DimError

Equation = tuple[Dim, Dim]  # in the callee's symbols, and what it is in the caller's sizes


def solved(symbols: Mapping[str, Dim], equations: Iterable[Equation]) -> dict[str, Dim]:
    """The symbols with those that the equations settle, one after the other.

    An equation with several unknowns waits until others have settled all but one.
    """
    settled = dict(symbols)
    waiting = list(equations)
    progress = True
    while progress:
        progress = False
        for formal, actual in waiting:
            name = unknown(formal, settled)
            size = _size(formal, actual, name, settled) if name is not None else None
            if name is not None and size is not None:
                settled[name] = size
                progress = True
    return settled


def settled_names(names: Iterable[str], formals: Collection[Dim]) -> set[str]:
    """The names with those that equations of these left sides determine, for all right sides."""
    settled = set(names)
    while True:
        determined = {name for formal in formals if (name := unknown(formal, settled)) is not None}
        if not determined:
            return settled
        settled |= determined


def unknown(formal: Dim, settled: Collection[str]) -> str | None:
    """The one undetermined symbol of a size, if it occurs in one term and is no square."""
    names = [name for name in formal.symbols() if name not in settled]
    if len(names) != 1:
        return None
    powers = [power for monomial, _ in formal.terms for n, power in monomial if n == names[0]]
    return names[0] if powers in ([1], [-1]) else None


def _size(formal: Dim, actual: Dim, name: str, settled: Mapping[str, Dim]) -> Dim | None:
    """The size that makes ``formal == actual``; None where there is none, or only a fraction."""
    ((monomial, coefficient),) = (term for term in formal.terms if name in dict(term[0]))
    rest = tuple(term for term in formal.terms if name not in dict(term[0]))
    beside = tuple(factor for factor in monomial if factor[0] != name)
    factor = Dim(((beside or UNIT, coefficient),)).substitute(settled)
    left = actual - Dim(rest).substitute(settled)
    if left == ZERO or factor == ZERO:
        return None
    try:
        size = left / factor if dict(monomial)[name] == 1 else factor / left
    except DimError:
        return None
    if size.symbols():
        return size
    return size if size.constant is not None and size.constant > 0 else None
