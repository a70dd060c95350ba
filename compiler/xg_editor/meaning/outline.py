"""The declarations of a file as a nested list: an editor's outline."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.syntax import ast
from xg_editor.meaning.declared import Kind, labels


@dataclass(frozen=True, slots=True)
class OutlineSymbol:
    """A declaration: its name and its place, the whole of it, and its children."""

    kind: Kind
    name: str
    detail: str
    span: Span
    whole: Span
    inside: tuple[OutlineSymbol, ...] = ()


def outline(module: ast.Module) -> tuple[OutlineSymbol, ...]:
    """Everything that a file declares, in file order."""
    declarations = chain(
        (_symbol("dim", dim) for dim in module.dims),
        (_symbol("mesh axis", mesh) for mesh in module.meshes),
        (_symbol("option", option) for option in module.options),
        (_symbol("operator", op) for op in module.ops),
        (_block(block) for block in module.blocks),
        (_titled(plan) for plan in module.plan_decls),
    )
    return tuple(sorted(declarations, key=lambda symbol: symbol.span.start))


def _block(block: ast.Block) -> OutlineSymbol:
    inside = sorted(_inside(block), key=lambda symbol: symbol.span.start)
    title = block.title.value if block.title else ""
    return OutlineSymbol(
        "block", block.name.span.text, title, block.name.span, block.span, tuple(inside)
    )


def _inside(block: ast.Block) -> Iterator[OutlineSymbol]:
    yield from (_symbol("input", port) for port in block.data)
    yield from (_symbol("argument", own) for own in block.own)
    yield from (_symbol("dim", dim) for dim in block.dims)
    yield from (_symbol("parameter", param) for param in block.params)
    yield from (_symbol("state", state) for state in block.states)
    yield from (_symbol("edge", port) for port in labels(block))


def _titled(plan: ast.Plan | ast.PlanProduct) -> OutlineSymbol:
    title = plan.title.value if plan.title else ""
    return OutlineSymbol("plan", plan.name.span.text, title, plan.name.span, plan.span)


def _symbol(
    kind: Kind,
    tree: ast.DimDecl
    | ast.MeshDecl
    | ast.OptionDecl
    | ast.OpDef
    | ast.Port
    | ast.Own
    | ast.Param
    | ast.State,
) -> OutlineSymbol:
    """A declaration; its detail is the text behind the name."""
    name = tree.name.span
    detail = "" if isinstance(tree, ast.OpDef) else _behind(tree.span, name)
    return OutlineSymbol(kind, name.text, detail, name, tree.span)


def _behind(whole: Span, name: Span) -> str:
    return " ".join(whole.source.text[name.end : whole.end].split())
