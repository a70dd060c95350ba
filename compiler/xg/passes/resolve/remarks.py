"""The lines of a block that are for its figures alone: `highlight` and `note`."""

from __future__ import annotations

from collections.abc import Iterator

from xg.ir.graph import Remark
from xg.ir.op import Op
from xg.passes.resolve.errors import MarkedTwice, Refused, UnknownMark
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast
from xg.syntax.ast import walk


def remarks(scope: BlockScope) -> Iterator[Remark]:
    """Every place that a block marks.

    Raises Refused for a name that no choice of options has, and for what is said twice.
    """
    if not scope.block.remarks:
        return
    chains = [tree for chain in scope.block.chains for tree in walk(chain)]
    made = {port.name.name for tree in chains if isinstance(tree, ast.Label) for port in tree.ports}
    given = {port.name.name for port in (*scope.block.data, *scope.block.params)}
    given |= {state.name.name for state in scope.block.states}
    calls = {
        name
        for tree in chains
        if isinstance(tree, ast.NodeUse | ast.Call)
        for name in _call(scope, tree)
    }
    told: set[Remark] = set()
    for remark in scope.block.remarks:
        text = remark.text.value if remark.text else ""
        for target in remark.targets:
            name, known = target.name.name, made if target.is_node else made | given | calls
            if name not in known:
                raise Refused(_unknown(scope, target, tuple(sorted(known))))
            marked = Remark(name, target.is_node, text, remark.highlights)
            if marked in told:
                raise Refused(MarkedTwice(target.name.span, name))
            told.add(marked)
            yield marked


def _call(scope: BlockScope, use: ast.NodeUse | ast.Call) -> Iterator[str]:
    """The name of a call, if the node is one."""
    if isinstance(use, ast.NodeUse) and use.instance is not None:
        yield use.instance.name
    elif use.operator.name in scope.linked.options or not _is_op(scope, use.operator):
        yield use.operator.name


def _is_op(scope: BlockScope, name: ast.Name) -> bool:
    return isinstance(scope.operator(name), Op)


def _unknown(scope: BlockScope, target: ast.Marked, known: tuple[str, ...]) -> UnknownMark:
    """A name that marks nothing: that of an operator, or of what no node makes, or of nothing."""
    name = target.name.name
    if _is_op(scope, target.name):
        help = f"{name} is an operator: name the node by its result, -> NAME"
    elif target.is_node and name in scope.values:
        help = f"no node makes {name}: leave the arrow out to mark its edge"
    else:
        help = ""
    what = "is made by a node" if target.is_node else "is an edge or a call"
    return UnknownMark(target.name.span, name, what, known, help)
