"""Calls in front of what they take as the nodes that they are."""

from __future__ import annotations

from collections.abc import Sequence

from xg.syntax import ast


def as_node(
    written: ast.Call | ast.NodeUse, count: int, label: ast.Label | None
) -> tuple[Sequence[ast.Operand], ast.NodeUse]:
    """The operands of a call, the first `count` of its arguments, and its node."""
    operands = [each.value for each in written.arguments[:count]]
    assert all(isinstance(each, ast.Path) for each in operands), written.span.text
    instance = written.instance if isinstance(written, ast.NodeUse) else None
    own, operator = written.arguments[count:], written.operator
    node = ast.NodeUse(
        written.span, operator, written.axes, own, (), None, None, instance, None, label
    )
    return [each for each in operands if isinstance(each, ast.Path)], node
