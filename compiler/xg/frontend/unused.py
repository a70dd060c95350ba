"""Unused names of a file, declared or taken: one may be a slip, so `xg check` warns of it.

Whatever some choice of options uses counts as used, and so does what a plan or an example names.
Parameters are not here: one that nothing uses is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from xg.diagnostics.source import Span
from xg.frontend.errors import Unused
from xg.passes.resolve.mentions import KnownMentions
from xg.syntax import ast
from xg.syntax.tree import only


def unused(
    main: ast.Module, modules: Sequence[ast.Module], known: KnownMentions
) -> Iterator[Unused]:
    """Unused declarations of the main file; `modules` are all files of the program."""
    here = [
        *only(ast.Plan, main.plan_decls),
        *main.examples,
        *main.options,
        *main.dims,
        *main.meshes,
    ]
    ours = known.of(*main.blocks, *here)
    others = (module for module in modules if module is not main)
    everywhere = known.of(*main.blocks, *here, *others)
    yield from _outside("dim", main.dims, everywhere.sizes)
    yield from _outside("option", main.options, everywhere.nodes)
    if main.blocks:  # a file without blocks is there for others
        names = [name for use in main.uses for name in use.names]
        yield from _outside("op", main.ops, ours.nodes)
        yield from (_of("name", name, name.span) for name in names if name.name not in ours.nodes)
    for block in main.blocks:
        yield from _in_block(block, main, known)


def _in_block(block: ast.Block, main: ast.Module, known: KnownMentions) -> Iterator[Unused]:
    """Inputs, states, arguments, dims and edges of a block."""
    plans = (plan for plan in only(ast.Plan, main.plan_decls) if plan.block.name == block.name.name)
    examples = (each for each in main.examples if each.block.name == block.name.name)
    mentions = known.of(block)
    values = mentions.values | {port.name.name for port in block.outputs}
    values |= known.of(*plans, *(claim for each in examples for claim in each.expects)).values
    arguments = values | mentions.nodes | mentions.sizes
    yield from (_of("input", port.name) for port in block.data if port.name.name not in values)
    yield from _outside("state", block.states, values)
    yield from (_of("argument", own.name) for own in block.own if own.name.name not in arguments)
    yield from _outside("dim", block.dims, mentions.sizes)
    for chain in block.chains:
        last = chain.steps[-1].label if chain.steps else chain.label
        ports = last.ports if last else ()
        if ports and not any(port.name.name in values for port in ports):
            yield _of("edge", ports[0].name, _last_part(chain))


def _last_part(chain: ast.Chain) -> Span | None:
    """The nodes of a chain behind its last name but one; None where all of it has one name."""
    labels = [chain.label, *(step.label for step in chain.steps[:-1])]
    named = [label.span.end for label in labels if label is not None and label.ports]
    return Span(chain.span.source, named[-1], chain.span.end) if named else None


def _outside(
    kind: str,
    declared: Iterable[ast.DimDecl | ast.OptionDecl | ast.OpDef | ast.State],
    used: Set[str],
) -> Iterator[Unused]:
    """Those that are not among used names, each with all of its declaration."""
    return (_of(kind, each.name, each.span) for each in declared if each.name.name not in used)


def _of(kind: str, name: ast.Name, whole: Span | None = None) -> Unused:
    return Unused(name.span, kind, name.name, f"use it, or leave {name.name} out", whole)
