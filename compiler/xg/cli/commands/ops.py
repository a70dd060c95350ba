"""`xg ops`: the table of operators."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import Rule
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, USAGE
from xg.cost.table import Column, Table, align_columns
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.terminal import columns_of, printable, similar, width

if TYPE_CHECKING:
    from xg.figures.model.figure import Figure
    from xg.ir.op import Convention, Op

EXAMPLE = "xg ops softmax"


def add_arguments(parser: ArgumentParser) -> None:
    """All operators, or one."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="an operator: S, softmax, • or @")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--figure",
        metavar="FILE",
        type=Path,
        help="draw all operators instead: .svg, .pdf, .png, .tex or .dot",
    )


RULES: Final = (
    Rule(
        "--figure",
        lambda options: options.name is None and not options.json,
        "draws all operators: leave NAME and --json out",
    ),
)


# The notation itself as a figure: each operator of seed 001, section 4.3, in both passes.


_SOURCE: Final = """
dim B, S, D = 8, N_H = 2, D_h = D/N_H
mesh N_T = 2

block Product "Matrix product" (X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    X -> •<=W : Y
}

block Sum "Sum" (A [B, S, D], C [B, S, D]) -> Y [B, S, D] {
    A -> ⊕<-C : Y
}

block Activation "Nonlinear operator" (X [B, S, D]) -> Y [B, S, D] {
    X -> GELU : Y
}

block Dropout "Dropout" (X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    X -> DO(p) : Y
}

block Scores "Scale and mask" (A [B, N_H, S, S]) -> Z [B, N_H, S, S] {
    A -> SM(1/sqrt(D_h), causal) : Z
}

block Softmax "Softmax" (Z [B, N_H, S, S]) -> P [B, N_H, S, S] {
    Z -> S : P
}

block Norm "Layer norm" (X [B, S, D]) -> H [B, S, D] {
    param γ [D] = ones, β [D] = zeros
    X -> LN(γ, β) : H
}

block Reshape "Reshape" (X [B, S, D]) -> Q [B, N_H, S, D_h] {
    X -> R : Q
}

block Transpose "Transpose" (K [B, N_H, S, D_h]) -> KT [B, N_H, D_h, S] {
    K -> T : KT
}

block Broadcast "Broadcast" (b_0 [D]) -> Y [B, S, D] {
    b_0 -> BC : Y
}

block Reduce "All reduce" (U [B, S, D/N_T]) -> Z [B, S, D] {
    param W [D/N_T, D]
    U -> •<=W : Z_i [B, S, D]
      -> AR(N_T) : Z
}

block Gather "All gather" (H [B, S, D/N_T]) -> Y [B, S, D] {
    H -> AG(N_T) : Y
}
"""
_BLOCKS: Final = (
    "Product", "Sum", "Activation", "Dropout", "Scores", "Softmax",
    "Norm", "Reshape", "Transpose", "Broadcast", "Reduce", "Gather",
)  # fmt: skip


def dictionary() -> tuple[Figure, list[tuple[Figure, ...]]]:
    """Return a figure of all operators, with a legend, and the figures of each in both passes."""
    from xg.figures.model.figure import Figure

    pairs = [tuple(_passes(block)) for block in _BLOCKS]
    every = [figure for pair in pairs for figure in pair]
    whole = Figure(
        title="Operator Dictionary",
        subtitle="forward and backward",
        description="Each operator of the notation, and beside it its backward pass.",
        nodes=tuple(node for figure in every for node in figure.nodes),
        edges=tuple(edge for figure in every for edge in figure.edges),
        legend=True,
    )
    return whole, pairs


def _passes(block: str) -> Iterator[Figure]:
    """Yield the figures of a block, under ids that no other block has."""
    from xg.driver import compile
    from xg.figures.views import View

    program = compile(source=_SOURCE, block=block)
    views: tuple[View, ...] = ("forward", "backward")
    figures = [program.figure(view) for view in views]
    if block == "Reduce":
        figures = _without_product(*figures)
    for view, figure in zip(views, figures, strict=True):
        own = {node.id: f"{block} {view} {node.id}" for node in figure.nodes}
        yield replace(
            figure,
            nodes=tuple(replace(node, id=own[node.id]) for node in figure.nodes),
            edges=tuple(replace(e, tail=own[e.tail], head=own[e.head]) for e in figure.edges),
        )


def _without_product(forward: Figure, backward: Figure) -> list[Figure]:
    """Return the figures of an all-reduce alone: what it sums up comes from outside.

    Only a product makes a term of a sum over ranks, and its gradients are not of the collective:
    that of the sum is the gradient of every term.
    """
    from xg.figures.model.figure import FigureEdge, FigureNode, NodeKind
    from xg.figures.model.richtext import StyledRun
    from xg.figures.views.notation import without_partial

    (bar,) = (node for node in forward.nodes if node.kind is NodeKind.COMMUNICATION)
    (into,) = (edge for edge in forward.edges if edge.head == bar.id)
    (out,) = (edge for edge in forward.edges if edge.tail == bar.id)
    term = FigureNode("term", NodeKind.TENSOR, into.label)
    result = next(node for node in forward.nodes if node.id == out.head)
    taken = backward.nodes[0]
    label = (StyledRun("d", italic=True), *without_partial(into.label))
    given = FigureNode("gradient", NodeKind.TENSOR, label)
    return [
        replace(forward, nodes=(term, bar, result), edges=(FigureEdge(term.id, bar.id), out)),
        replace(backward, nodes=(taken, given), edges=(FigureEdge(taken.id, given.id),)),
    ]


SIGNS = {"@": "•", "+": "⊕", "*": "⊙"}  # as a keyboard has them

_COLUMNS: tuple[Column[Op], ...] = (
    Column("glyph", "glyph", lambda op: op.glyph),
    Column("name", "name", lambda op: op.name),
    Column("signature", "signature", lambda op: _signature(op)),
    Column(None, "family", lambda op: op.family),
    Column("meaning", "meaning", lambda op: op.meaning),
    Column(None, "formula", lambda op: op.formula),
    Column(None, "gradient", lambda op: op.gradient),
    Column(None, "source", lambda op: op.source),
)


def _signature(op: Op) -> str:
    from xg.ir.op import signature

    return signature(op)


def run(options: Namespace, console: Console) -> int:
    """Print the table, or one operator in full."""
    from xg import ops

    if options.figure is not None:
        return _draw(options.figure, console)
    every = list(ops.table().values())
    name: str | None = options.name
    chosen = every if name is None else _find_operators(name, every)
    if name is not None and not chosen:
        console.note(f"xg ops: no operator is called {printable(name)}{_instead(name, every)}")
        return USAGE
    table = Table(_COLUMNS, chosen)
    if options.json:
        edges = ({"conventions": [_data(each) for each in op.conventions]} for op in chosen)
        operators = [{**row, **more} for row, more in zip(table.data(), edges, strict=True)]
        console.write(json_text({"operators": operators}))
    else:
        console.say_lines(_fit_table(table) if name is None else _in_full(chosen[0]))
    return FINE


def _fit_table(table: Table[Op]) -> Iterator[str]:
    """The table; on a terminal that is too narrow for it, meanings on lines of their own."""
    lines, columns = list(table.lines()), columns_of(sys.stdout)
    if columns is None or max(map(width, lines)) <= columns:
        yield from lines
        return
    narrow = Table(_COLUMNS[:3], table.rows).lines()
    for use, meaning in zip(narrow, ("meaning", *(op.meaning for op in table.rows)), strict=True):
        yield use
        yield f"    {meaning}"


def _draw(path: Path, console: Console) -> int:
    """The operator dictionary as a figure, in the format of the file's ending."""
    from xg.figures import dot, on_a_sheet
    from xg_runtime import files

    match path.suffix:
        case ".dot":
            data = dot(dictionary()[0]).encode()
        case ".svg" | ".pdf" | ".png" | ".tex" as ending:
            data = on_a_sheet(*dictionary(), ending[1:])  # pyright: ignore[reportArgumentType] # matched
        case _:
            console.note(
                f"xg ops: {printable(str(path))} must end in .svg, .pdf, .png, .tex or .dot"
            )
            return USAGE
    files.write(path, data)
    return FINE


def _find_operators(name: str, every: list[Op]) -> list[Op]:
    """The operator of that glyph or name, in any spelling; of two, the one in the same letters."""
    sign = SIGNS.get(name, name)
    exact = [op for op in every if sign in (op.glyph, op.name)]
    folded = sign.casefold()
    return exact or [op for op in every if folded in (op.glyph.casefold(), op.name)]


def _instead(name: str, every: list[Op]) -> str:
    from xg.passes.resolve.errors_of_names import meant

    names = [each for op in every for each in (op.glyph, op.name)]
    other = similar(name, names)
    known = meant(name) or ((f"did you mean {other}?",) if other else ())
    return "".join(f": {help}" for help in known)


def _in_full(op: Op) -> Iterator[str]:
    facts = [(str(column.key), str(column.value(op))) for column in _COLUMNS[2:]]
    yield f"{op.glyph}  {op.name}"
    yield from align_columns([fact for fact in facts if fact[1]], indent="  ")
    if op.conventions:
        yield "  At the edges (docs/conventions.md has values and gradients):"
        edges = [(each.edge, _rule(each)) for each in op.conventions]
        yield from align_columns(edges, indent="    ")


def _rule(convention: Convention) -> str:
    """The rule, and whether torch has another one."""
    return f"{convention.rule}{' (not as PyTorch)' if convention.differs else ''}"


def _data(convention: Convention) -> dict[str, str]:
    """A convention in JSON: its words, without arrays."""
    words = ("edge", "rule", "use", "torch", "differs")
    return {word: str(getattr(convention, word)) for word in words}
