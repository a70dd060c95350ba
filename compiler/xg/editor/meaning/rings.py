"""The blocks that a block runs, itself, through others and in any choice of options."""

from __future__ import annotations

from collections.abc import Iterator

from xg.editor.meaning.declared import ProjectNames
from xg.syntax import ast


def reached(names: ProjectNames, module: ast.Module, start: ast.Block) -> Iterator[ast.Block]:
    """A block and all that it calls, each once."""
    waiting, seen = [(module, start)], set[int]()
    while waiting:
        place, block = waiting.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        yield block
        home = names.module_of(block) or place
        for node in names.inside(block).nodes:
            for name in _words(names, block, node.operator.name):
                called = names.block(home, name)
                if called is not None:
                    waiting.append((home, called))


def _words(names: ProjectNames, block: ast.Block, name: str) -> Iterator[str]:
    """The names that a node may stand for: its own, or the words of an option."""
    own = next((own for own in block.own if own.name.name == name and own.words), None)
    option = names.option(name)
    tree = own or (option.tree if option else None)
    if isinstance(tree, ast.Own | ast.OptionDecl):
        yield from (word.name for word in tree.words)
    else:
        yield name
