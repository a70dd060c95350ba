"""Frozen parameters: which of a module's gradients are left out on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xg.codegen.emit.line_breaks import bracketed, indented
from xg.ir.graph import Program
from xg.ir.parameters import CallSite, entry, join
from xg.ir.walk import callers_first


def frozen_patterns(program: Program) -> list[str]:
    """The frozen parameters of a program, with ``*`` for the numbers of a row of blocks."""

    def below(site: CallSite) -> Iterator[CallSite]:
        for call in site.graph.named_calls():
            inner = site.enter(call, program.graphs)
            yield inner if call.count is None else replace(inner, path=f"{inner.path}.*")

    return [
        join(site.path, str(param.value.name))
        for site in callers_first(entry(program), below)
        for param in site.graph.params
        if param.value.frozen
    ]


def learns_function(program: Program) -> list[str]:
    """The function that tells the parameters that have a gradient from the frozen ones."""
    patterns = [f'"{pattern}"' for pattern in frozen_patterns(program)]
    return [
        "def _learns(name: str) -> bool:",
        '    """Whether a gradient is taken of a parameter, whatever the number of its block."""',
        '    parts = ["*" if part.isdigit() else part for part in name.split(".")]',
        *indented(bracketed('return ".".join(parts) not in [', patterns, "]", 4)),
    ]
