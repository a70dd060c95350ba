"""docs/notation.md has every operator with its glyph; `./dev docs` writes it and its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import xg
from xg import ops
from xg.diagnostics.diagnostic import Source
from xg.figures.draw.glyph import Display, legend, meanings, moved
from xg.figures.formats.svg import svg
from xg.figures.model.figure import THEMES, EdgeStyle, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import plain
from xg.figures.views.notation import kind
from xg.frontend.project import common_ops
from xg.ir.op import Op, signature
from xg.syntax.parse import parse

PAGE: Final = Path(__file__).parents[2] / "docs" / "notation.md"
PICTURE: Final = PAGE.with_name("figures") / "notation.svg"
OTHERS: Final = (NodeKind.BLOCK, NodeKind.SAVED)
DRAWN: Final = {"sum": "Σ"}  # what a box says instead of its glyph
FAMILIES: Final = {
    "Products and sums": ("matmul", "add", "multiply", "reduce"),
    "Nonlinear operators": ("nonlinear",),
    "Losses": ("loss",),
    "Layout": ("layout",),
    "Sources": ("source",),
    "Ranks": ("collective",),
}
# `./dev docs` writes the page and its picture from the operators.
HEAD: Final = """\
# Notation

*Also: read a figure, how to read a diagram, symbols, arrows, legend, list of operators.*

This page lists every sign in figures and every operator. `xg ops NAME` prints one operator's
formula and gradient. [The language](../grammar/README.md) explains chains.

## In figures

![Every sign of figures, with its meaning](figures/notation.svg)

A line is a tensor, with its name in bold and its shape in brackets. A double line brings the second
operand of a product. A dashed line is a gradient. A dot is a matrix product; ⊕ and ⊙ are
elementwise. White boxes are other linear operators. Yellow boxes are nonlinear, so their backward
pass needs a saved value. Gray boxes only move numbers. Blue boxes communicate between ranks.

A gray frame with `× N_L` repeats N_L times. In a `batch axis` frame, each index is independent, for
example each attention head. A block's box names its mask, for example *causal*. If a line crosses a
bar without ending there, that collective doesn't change it.

If your file doesn't name a saved value, xg names it after its operator: *relu*, then *relu* with a
subscript 2 (`relu`, `relu_2` in code). Other saved values have their result or operator as a
subscript: the dropout mask for Y is *keep* with a subscript Y (`Y_keep` in code). *lse* is
log-sum-exp; *rstd* is 1 / standard deviation.

If a block has a loss and another output with axes, the backward figure marks that output's gradient
`0 if unused`: it is zero unless your code uses the output.
"""


COMMON: Final = """\
## Ops from common

Write `use Swish, Huber from common` to use these as nodes, and in the formulas of your own ops.
A test compares the value and the gradient of each with PyTorch.
"""


def _every() -> list[Op]:
    return sorted(ops.table().values(), key=lambda op: op.name)


def _all_signs() -> Figure:
    """A figure that has every node and every arrow, for its legend."""
    kinds = list(NodeKind)
    used = sorted(_every(), key=lambda op: (kinds.index(kind(op)), op.name))
    nodes = [
        FigureNode(op.name, kind(op), plain(DRAWN.get(op.glyph, op.glyph)), title=op.words)
        for op in used
    ]
    nodes += [FigureNode(each.name, each, plain("F")) for each in OTHERS]
    first, second = nodes[0].id, nodes[1].id
    edges = [FigureEdge(first, second, style=style) for style in EdgeStyle]
    return Figure("Notation", "", "Every sign.", tuple(nodes), tuple(edges), legend=True)


def _picture() -> str:
    margin, width = 12.0, 640.0
    elements, extent = legend(_all_signs(), width)
    placed = tuple(moved(each, margin, margin) for each in elements)
    size = (extent.width + 2 * margin, extent.height + 2 * margin)
    display = Display(*size, "Notation", "Every sign of figures.", placed)
    return svg(display, THEMES["light"], follow=True)


def _page() -> str:
    families = (line for title in FAMILIES for line in _family(title))
    return "\n".join([HEAD, *families, *_common()])


def _common() -> Iterator[str]:
    """Yield the table of the ops that `use` takes from `common`."""
    source = Source("common.xg", common_ops().read_text(encoding="utf-8"))
    yield COMMON
    yield "| op | formula |"
    yield "|---|---|"
    for each in parse(source).ops:
        last = max(part.span.end for part in (each.name, *each.data, *each.own)) + 1
        head, formula = source.text[each.name.span.start : last], source.text[last : each.span.end]
        yield f"| `{head}` | `{' '.join(formula.split()).removeprefix('= ')}` |"
    yield ""


def _family(title: str) -> Iterator[str]:
    yield from (f"## {title}\n", "| glyph | name | use | meaning |", "|---|---|---|---|")
    for op in _every():
        if op.family in FAMILIES[title]:
            use = signature(op).replace("|", "\\|")
            meaning = op.meaning.replace("|", "\\|").replace("*", "\\*")
            yield f"| `{op.glyph}` | {op.name} | `{use}` | {meaning} |"
    yield ""


def test_the_page_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, _page())
    golden(PICTURE, _picture())


def test_every_operator_and_every_sign_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [op.name for op in _every() if f"| {op.name} |" not in text] == []
    shown = {meaning.kind for meaning in meanings(_all_signs())}
    assert {*NodeKind} - shown == {NodeKind.TENSOR, NodeKind.NOTE}
    assert {*EdgeStyle} - shown == {EdgeStyle.SINGLE, EdgeStyle.NOTE}


def test_every_sign_of_the_picture_has_its_own_words() -> None:
    """Operators without a letter of their own, such as GELU, share a box without one."""
    words = [meaning.words for meaning in meanings(_all_signs())]
    assert sorted(set(words)) == sorted(words)
    assert "entries at given places" in words


def test_a_use_has_brackets_if_the_operator_needs_them() -> None:
    """As an error says over which axes to reduce, the table and `xg ops` show brackets."""
    for op in _every():
        text = f"dim B, D = 4\nblock F(x [B, D]) -> y [B, D] {{\n    x -> {op.glyph} : y\n}}\n"
        try:
            xg.compile(source=text)
            messages = ""
        except xg.DiagnosticError as error:
            messages = " ".join(each.message for each in error.diagnostics)
        assert ("does not know over which axes" in messages) == op.needs_axes, op.name
        assert ("[D, …]" in signature(op)) == op.needs_axes
