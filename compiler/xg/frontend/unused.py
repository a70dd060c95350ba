"""Unused names of a file, declared or taken: one may be a slip, so `xg check` warns of it.

Whatever some choice of options uses counts as used, and so does what a plan or an example names.
Parameters are not here: one that nothing uses is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xg.frontend.errors import Unused
from xg.syntax import ast
from xg.syntax.tree import Syntax, walk

Mentions = tuple[set[str], set[str]]


def unused(main: ast.Module, modules: Sequence[ast.Module]) -> Iterator[Unused]:
    """Unused declarations of the main file; `modules` are all files of the program."""
    blocks = [(block, _mentions(block)) for block in main.blocks]
    inside = set[str]().union(*(chains | shapes for _, (chains, shapes) in blocks))
    ours = inside | _names([*main.plans, *main.examples, *main.options])
    others = _names([*main.dims, *main.meshes, *main.ops])
    everywhere = ours | others | _names(module for module in modules if module is not main)
    yield from (_of("dim", dim.name) for dim in main.dims if dim.name.name not in everywhere)
    yield from (_of("option", o.name) for o in main.options if o.name.name not in everywhere)
    if blocks:  # a file without blocks is there for others
        names = [name for use in main.uses for name in use.names]
        yield from (_of("op", op.name) for op in main.ops if op.name.name not in ours)
        yield from (_of("name", name) for name in names if name.name not in ours)
    for block, mentions in blocks:
        yield from _in_block(block, mentions, main)


def _mentions(block: ast.Block) -> Mentions:
    """The names in the chains of a block, and those in what it declares."""
    declared = [*block.data, *block.own, *block.outputs, *block.params, *block.states, *block.dims]
    return _names([*block.chains, *block.nexts]), _names(declared)


def _in_block(block: ast.Block, mentions: Mentions, main: ast.Module) -> Iterator[Unused]:
    """Inputs, arguments, dims and edges of a block."""
    plans = (plan for plan in main.plans if plan.block.name == block.name.name)
    examples = (each for each in main.examples if each.block.name == block.name.name)
    named = [part for plan in plans for part in plan.placements]
    claimed = [part for example in examples for part in example.expects]
    chains, shapes = mentions
    used = chains | {port.name.name for port in block.outputs}
    used |= _names([*named, *claimed])
    anywhere = used | shapes
    yield from (_of("input", port.name) for port in block.data if port.name.name not in used)
    yield from (_of("argument", own.name) for own in block.own if own.name.name not in anywhere)
    yield from (_of("dim", dim.name) for dim in block.dims if dim.name.name not in anywhere)
    for chain in block.chains:
        last = chain.steps[-1].label if chain.steps else chain.label
        ports = last.ports if last else ()
        if ports and not any(port.name.name in used for port in ports):
            yield _of("edge", ports[0].name)


def _of(kind: str, name: ast.Name) -> Unused:
    return Unused(name.span, kind, name.name, f"use it, or leave {name.name} out")


def _names(trees: Iterable[Syntax]) -> set[str]:
    """Every name that trees mention where something is used."""
    names: set[str] = set()
    for tree in (part for each in trees for part in walk(each)):
        match tree:
            case ast.Path():
                names.update(segment.name for segment in tree.segments)
            case ast.Axis():
                names.add(tree.name.name)
            case ast.NodeUse() | ast.Call():
                names.add(tree.operator.name)
            case ast.Argument(name=ast.Name(name=name)) | ast.Plan(block=ast.Name(name=name)):
                names.add(name)
            case ast.Example(block=ast.Name(name=name)):
                names.add(name)
            case ast.Guard():
                names |= {tree.option.name, *(word.name for word in tree.words)}
            case ast.OptionDecl() | ast.Own():
                names.update(word.name for word in tree.words)
            case _:
                pass
    return names
