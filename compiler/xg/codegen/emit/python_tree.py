"""Walking the syntax tree of a generated module."""

from __future__ import annotations

import ast
from typing import Final, cast

_LEAVES: Final = frozenset({ast.Name, ast.Constant})


def descendants(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, each before its children: `ast.walk` at a fraction of its time.

    Contexts (load, store, delete) are left out: each is an attribute of the node above it.
    """
    nodes = [root]
    for node in nodes:  # grows while it is walked
        if type(node) in _LEAVES:
            continue
        for name in node._fields:
            child = getattr(node, name, None)
            if type(child) is list:
                parts = cast(list[object], child)
                nodes += [part for part in parts if isinstance(part, ast.AST)]
            elif isinstance(child, ast.AST) and name != "ctx":
                nodes.append(child)
    return nodes
