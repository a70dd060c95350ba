"""Lines that refuse sizes which an operator cannot take, once arrays have given them numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xg.codegen.emit.spelling import Scope
from xg.ir.dim import ONE, Dim
from xg.ir.graph import Program
from xg.ir.op import AtMost
from xg.ir.size_constraints import axes_with_positions, size_constraints
from xg.ir.size_sources import carried_symbols


def open_limits(program: Program) -> Iterator[AtMost]:
    """The limits that the numbers of a file do not settle; of ranks none, whose sizes are parts."""
    if program.mesh:
        return
    sizes = program.main.sizes
    settled = sizes.defaults.keys() - carried_symbols(program.main)
    for limit in (*size_constraints(program), *axes_with_positions(program)):
        room = sizes.expand(limit.larger - limit.smaller)
        if room.constant is None and not {*room.symbols()} <= settled:
            yield limit


def limit_lines(
    program: Program, scope: Scope, concerns: Callable[[AtMost], bool] = lambda limit: True
) -> Iterator[str]:
    """A test and an error in the file's own sizes for each limit that is open."""
    seen: set[tuple[Dim, Dim]] = set()
    for limit in open_limits(program):
        pair = (limit.smaller, limit.larger)
        if pair in seen or not concerns(limit):
            continue
        seen.add(pair)
        smaller, larger = (scope.size(dim).text for dim in pair)
        if limit.smaller == ONE:
            yield f"if {larger} < 1:"
            yield from _refusal(f"{_said(larger)}: {limit.why}")
            continue
        yield f"if {smaller} > {larger}:"
        yield f'    excess = f"{_said(smaller)} is more than {_said(larger)}"'
        yield f'    raise ValueError(f"{{excess}}: {limit.why}")'


def _refusal(text: str) -> Iterator[str]:
    """The error, in three lines if one is too short; `forward` indents it once."""
    line = f'    raise ValueError(f"{text}")'
    if len(line) + 4 <= 88:
        yield line
    else:
        yield from ("    raise ValueError(", f'        f"{text}"', "    )")


def _said(size: str) -> str:
    return size if size.isdigit() else f"{size} = {{{size}}}"
