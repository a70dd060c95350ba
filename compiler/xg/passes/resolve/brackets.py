"""Brackets behind a node: refused where the node would not read them."""

from __future__ import annotations

from collections.abc import Iterator

from xg.ir.op import Brackets
from xg.passes.resolve.errors import BadBrackets, Refused, Wrong
from xg.syntax import ast


def refuse_brackets(
    use: ast.NodeUse, node: str, takes: Brackets, *, names_axes: bool = False
) -> None:
    """Refuse brackets, or entries in them, that a node does not take.

    With `names_axes` it is an operator of the file that says its axes itself.
    """
    axes = use.axes
    if axes is None:
        return
    kind: Wrong = "axes" if axes.target is None else "map"
    if kind not in takes:
        raise Refused(BadBrackets(axes.span, node, kind, "own" if names_axes else takes))
    if axes.target is None:
        single = ast.Axis | ast.UnitAxis | ast.PlaceAxis
        _refuse(node, (i for i in axes.source if not isinstance(i, single)), "list")
        if takes != "axes":
            _refuse(node, _counted(axes.source), "counted")
        if takes == "axes":
            _refuse(node, _sized(axes.source), "size")
        for axis in _sized(axes.source):
            _refuse_twice(node, axis, axes.source, "same name")
    else:
        _refuse(node, _counted((*axes.source, *axes.target)), "counted")
        old = {axis.name.name for axis in _axes(axes.source)}
        for axis in _sized(axes.target):
            if axis.name.name in old:
                group = _group_with(axes.source, axis)
                raise Refused(BadBrackets(axis.span, node, "again", group))
            _refuse_twice(node, axis, axes.target, "twice")


def _refuse_twice(node: str, axis: ast.Axis, items: tuple[ast.AxisItem, ...], why: Wrong) -> None:
    """Refuse a new axis whose name another one of these has, too."""
    if [other.name.name for other in _axes(items)].count(axis.name.name) > 1:
        raise Refused(BadBrackets(axis.span, node, why, axis.name.name))


def _refuse(node: str, items: Iterator[ast.AxisItem], why: Wrong) -> None:
    for item in items:
        raise Refused(BadBrackets(item.span, node, why, ""))


def _counted(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.AxisItem]:
    for item in items:
        parts = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        yield from (part for part in parts if isinstance(part, ast.PlaceAxis))


def _axes(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.Axis]:
    for item in items:
        parts = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        yield from (part for part in parts if isinstance(part, ast.Axis))


def _group_with(items: tuple[ast.AxisItem, ...], axis: ast.Axis) -> str:
    """How to say the size of an axis in the group that it is in; "" if it is in none."""
    name = axis.name.name
    for item in items:
        if isinstance(item, ast.AxisGroup) and name in [part.name.name for part in _axes((item,))]:
            parts = (part.span.text for part in item.axes)
            sized = ", ".join(axis.span.text if part == name else part for part in parts)
            return f"the size of a part stands left of the arrow: ({sized})"
    return ""


def _sized(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.Axis]:
    return (axis for axis in _axes(items) if axis.size is not None)
