"""The dims that the text of a block mentions, in any choice of options."""

from __future__ import annotations

from collections.abc import Iterator

from xg.syntax import ast
from xg.syntax.tree import Syntax, parts


def dims_mentioned(block: ast.Block) -> tuple[str, ...]:
    """Every name used as a size, in the order of the text.

    In parentheses a name may be a value's: only the signature of an operator decides.
    """
    mentioned: dict[str, None] = {}
    waiting: list[Syntax] = [block]
    while waiting:
        match waiting.pop():
            case ast.Path() as path:
                mentioned[path.name] = None
            case ast.DimDecl() as decl:
                waiting += [decl.size] if decl.size else []
            case ast.AxisMap(target=None) as listed:
                mentioned.update(dict.fromkeys(_listed(listed)))
                waiting += parts(listed)
            case tree:
                waiting += reversed([part for part in parts(tree) if not _is_value(tree, part)])
    return tuple(mentioned)


def _is_value(tree: Syntax, part: Syntax) -> bool:
    """Whether a part of a tree is a value by its place, or the word of an option."""
    if isinstance(part, ast.Guard):
        return True
    return isinstance(part, ast.Path) and isinstance(tree, ast.Chain | ast.Attachment)


def _listed(axes: ast.AxisMap) -> Iterator[str]:
    """The axes that a plain list names."""
    for item in axes.source:
        for axis in item.axes if isinstance(item, ast.AxisGroup) else (item,):
            if isinstance(axis, ast.Axis):
                yield axis.name.name
