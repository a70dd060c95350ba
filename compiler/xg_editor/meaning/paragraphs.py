"""Paragraphs of Markdown about a declaration, shown wherever its name is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.op import Op, signature
from xg.syntax import ast
from xg.syntax.ast import Syntax
from xg.syntax.spelling import greek_name
from xg_editor.meaning.declared import Declaration


def paragraphs(what: Declaration) -> Iterator[str]:
    """The paragraphs of a declaration; for a value or a size its place adds more."""
    match what.tree:
        case ast.Block() as block:
            yield from head(block)
        case ast.OptionDecl() | ast.Own() as option if option.words:
            words = " | ".join(word.span.text for word in option.words)
            yield fence(f"{option.name.span.text} = {words}")
            yield f"option; `{option.words[0].span.text}` where nothing is chosen"
        case ast.OpDef() as op if what.kind == "operator":
            yield fence(op.span.text)
            yield "operator of the file; its gradient is derived from the expression"
        case ast.Plan() | ast.PlanProduct() as plan:
            yield from _plan(plan)
        case ast.Module():
            yield f"the file `{what.name}`"
        case Syntax() as tree:
            yield fence(tree.span.text)
            yield f"{what.kind}{of(what.owner)}"
        case None if what.op is not None:
            yield from _operator(what.op)
        case None:
            pass


def title_of(what: Declaration) -> str:
    """A declaration in one line, without its name: the shape of a value, the size of a dim."""
    match what.tree:
        case ast.Block() as block:
            ports = (*block.data, *block.own, *block.outputs)
            text = block.span.source.text
            words = text[block.name.span.end : max((p.span.end for p in ports), default=0)]
        case ast.Plan() | ast.PlanProduct() as plan:
            words = plan.title.value if plan.title else ""
        case ast.NodeUse() | ast.Call() as node:
            words = f"call of {node.operator.span.text}"
        case Syntax() as tree if what.span and tree.span.start <= what.span.end <= tree.span.end:
            words = tree.span.source.text[what.span.end : tree.span.end]
        case _:
            words = ""
    return " ".join(words.split())


def head(block: ast.Block) -> Iterator[str]:
    """The inputs, outputs and parameters of a block."""
    text = block.span.source.text
    ports = (*block.data, *block.own, *block.outputs, block.name)
    yield fence(text[block.span.start : max(tree.span.end for tree in ports)])
    params = (f"`{param.name.span.text} {param.shape.span.text}`" for param in block.params)
    if block.params:
        yield f"parameters: {', '.join(params)}"


def _operator(op: Op) -> Iterator[str]:
    yield f"**{op.glyph}** {op.name}"
    yield fence(signature(op))
    yield op.meaning
    lines = (("formula", op.formula), ("gradient", op.gradient))
    yield "\n".join(f"- {word} `{text}`" for word, text in lines if text)


def _plan(plan: ast.Plan | ast.PlanProduct) -> Iterator[str]:
    if isinstance(plan, ast.Plan):
        yield fence(f"plan {plan.name.span.text} of {plan.block.span.text}")
    else:
        yield fence(plan.span.text)
    if plan.title:
        yield plan.title.value


def numbers(known: Mapping[str, int]) -> Iterator[str]:
    """The lengths that have a number, if there are any."""
    if known:
        lengths = (f"{greek_name(name)} = {value:,}" for name, value in known.items())
        yield f"with {', '.join(lengths)}"


def of(owner: Syntax | None) -> str:
    """Whose a name is."""
    named = isinstance(owner, ast.Block | ast.OpDef)
    return f" of `{owner.name.span.text}`" if named else ""


def fence(text: str) -> str:
    """Code of the language, for an editor to colour."""
    return f"```xg\n{text}\n```"
