"""Figures built by hand, as a mapping from a graph would build them."""

from dataclasses import replace
from itertools import pairwise
from random import Random

from xg.figures.model.figure import (
    EdgeRole,
    EdgeStyle,
    Figure,
    FigureEdge,
    FigureGroup,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText, dimension, plain, symbol, tensor

MATMUL, ADD, NONLINEAR = NodeKind.MATMUL, NodeKind.ADD, NodeKind.NONLINEAR
LAYOUT, REDUCE, TENSOR, SAVED = NodeKind.LAYOUT, NodeKind.REDUCE, NodeKind.TENSOR, NodeKind.SAVED
MAIN, BRANCH, SIDE, RESIDUAL = EdgeRole.MAIN, EdgeRole.BRANCH, EdgeRole.SIDE, EdgeRole.RESIDUAL
SINGLE, DOUBLE, DASHED = EdgeStyle.SINGLE, EdgeStyle.DOUBLE, EdgeStyle.DASHED

BSD = ["B", "S", "D"]
HEADS, SCORES = ["B", "N_H", "S", "D_h"], ["B", "N_H", "S", "S"]
HIDDEN = ["B", "S", "D_ff"]


def value(name: str, dims: list[str] | None, *, gradient: bool = False, sup: str = "") -> RichText:
    """Return an edge's label: symbol and shape; an empty name leaves the shape alone."""
    return tensor(symbol(name, gradient=gradient, sup=sup) if name else (), dims)


def op(node_id: str, kind: NodeKind, glyph: str = "") -> FigureNode:
    return FigureNode(node_id, kind, plain(glyph))


def parameter(name: str, dims: list[str]) -> FigureNode:
    return FigureNode(name, TENSOR, value(name, dims))


def chain(*steps: str | tuple[str, RichText]) -> list[FigureEdge]:
    """Return MAIN edges along node ids; a tuple gives the label of the edge that enters it."""
    pairs = [(step, ()) if isinstance(step, str) else step for step in steps]
    return [FigureEdge(tail, head, label=label) for (tail, _), (head, label) in pairwise(pairs)]


def weight(tail: str, head: str) -> FigureEdge:
    return FigureEdge(tail, head, DOUBLE, SIDE)


def operand(tail: str, head: str) -> FigureEdge:
    return FigureEdge(tail, head, SINGLE, SIDE)


def mha_forward() -> Figure:
    """Seed 001, section 5.3.1."""
    nodes = [
        FigureNode("X", TENSOR, value("X", BSD)),
        op("LN", NONLINEAR, "LN"),
        *(
            node
            for letter in "QKV"
            for node in (
                parameter(f"W_{letter}", ["D", "D"]),
                op(f"matmul_{letter}", MATMUL),
                op(f"R_{letter}", LAYOUT, "R"),
            )
        ),
        op("T", LAYOUT, "T"),
        op("scores", MATMUL),
        op("SM", NONLINEAR, "SM"),
        op("S", NONLINEAR, "S"),
        op("DO_P", NONLINEAR, "DO"),
        op("mix", MATMUL),
        op("R_O", LAYOUT, "R"),
        parameter("W_O", ["D", "D"]),
        op("matmul_O", MATMUL),
        op("DO", NONLINEAR, "DO"),
        op("add", ADD),
        FigureNode("Y", TENSOR, value("Y", BSD)),
    ]
    edges = [
        *chain("X", "LN", ("matmul_Q", value("H", BSD)), ("R_Q", value("", BSD))),
        *chain("R_Q", ("scores", value("Q", HEADS)), ("SM", value("A", SCORES))),
        *chain("SM", ("S", value("Z", SCORES)), ("DO_P", value("P", SCORES))),
        *chain("DO_P", ("mix", value("AS", SCORES)), ("R_O", value("O", HEADS))),
        *chain("R_O", ("matmul_O", value("", BSD)), ("DO", value("A_out", BSD))),
        *chain("DO", ("add", value("", BSD)), "Y"),
        FigureEdge("LN", "matmul_K", role=BRANCH),
        FigureEdge("LN", "matmul_V", role=BRANCH),
        *chain("matmul_K", ("R_K", value("", BSD)), ("T", value("K", HEADS))),
        *chain("matmul_V", ("R_V", value("", BSD))),
        FigureEdge("T", "scores", DOUBLE, SIDE, value("K", ["B", "N_H", "D_h", "S"], sup="⊤")),
        FigureEdge("R_V", "mix", DOUBLE, SIDE, value("V", HEADS)),
        *(weight(f"W_{letter}", f"matmul_{letter}") for letter in "QKVO"),
        FigureEdge("X", "add", role=RESIDUAL, label=value("", BSD)),
    ]
    heads = FigureGroup(
        "heads", (*plain("× "), *dimension("N_H")), ("scores", "SM", "S", "DO_P", "mix")
    )
    return Figure(
        "Multi-Head Attention",
        "forward pass",
        "Queries, keys and values are projected from the normalized input and attended per head.",
        tuple(nodes),
        tuple(edges),
        (heads,),
    )


def mlp_backward() -> Figure:
    """Seed 001, section 5.4.2."""
    names = {"up": (["D", "D_ff"], ["D_ff", "D"]), "down": (["D_ff", "D"], ["D", "D_ff"])}
    nodes = [FigureNode("dY", TENSOR, value("Y", BSD, gradient=True)), op("dDO", NONLINEAR, "dDO")]
    nodes.append(FigureNode("m", SAVED, value("m", BSD)))
    for name, saved, dims in (("down", "U", HIDDEN), ("up", "H", BSD)):
        shape, transposed = names[name]
        w, b = f"W_{name}", f"b_{name}"
        nodes += [
            op(f"sum_{name}", REDUCE),
            FigureNode(f"d{b}", TENSOR, value(b, [shape[1]], gradient=True)),
            FigureNode(f"{w}.T", TENSOR, value(w, transposed, sup="⊤")),
            op(f"dx_{name}", MATMUL),
            FigureNode(f"{saved}.T", SAVED, value(saved, dims, sup="⊤")),
            op(f"dw_{name}", MATMUL),
            FigureNode(f"d{w}", TENSOR, value(w, shape, gradient=True)),
        ]
    nodes += [
        FigureNode("G", SAVED, value("G", HIDDEN)),
        op("dGELU", NONLINEAR, "dGELU"),
        op("dLN", NONLINEAR, "dLN"),
        FigureNode("X", SAVED, value("X", BSD)),
        FigureNode("dgamma", TENSOR, value("gamma", ["D"], gradient=True)),
        FigureNode("dbeta", TENSOR, value("beta", ["D"], gradient=True)),
        op("add", ADD),
        FigureNode("dX", TENSOR, value("X", BSD, gradient=True)),
    ]
    d = {name: value(name, dims, gradient=True) for name, dims in
         (("Z", BSD), ("U", HIDDEN), ("G", HIDDEN), ("H", BSD))}  # fmt: skip
    edges = [
        *chain("dY", "dDO", ("dx_down", d["Z"]), ("dGELU", d["U"]), ("dx_up", d["G"])),
        *chain("dx_up", ("dLN", d["H"]), ("add", value("", BSD)), "dX"),
        FigureEdge("dY", "add", role=RESIDUAL, label=value("", BSD)),
        operand("m", "dDO"),
        operand("G", "dGELU"),
        operand("X", "dLN"),
        FigureEdge("dLN", "dgamma", role=BRANCH),
        FigureEdge("dLN", "dbeta", role=BRANCH),
    ]
    for name, source, saved in (("down", "dDO", "U"), ("up", "dGELU", "H")):
        edges += [
            weight(f"W_{name}.T", f"dx_{name}"),
            operand(f"{saved}.T", f"dw_{name}"),
            FigureEdge(source, f"dw_{name}", DOUBLE, BRANCH),
            *chain(f"dw_{name}", f"dW_{name}"),
            FigureEdge(source, f"sum_{name}", role=BRANCH),
            *chain(f"sum_{name}", f"db_{name}"),
        ]
    return Figure(
        "Feed-Forward Network",
        "backward pass",
        "The gradient of the output goes back through both matrix products to the input.",
        tuple(nodes),
        tuple(edges),
    )


def projection_backward(
    letter: str, source: str, saved: str
) -> tuple[list[FigureNode], list[FigureEdge]]:
    """Return the backward of one projection: what reaches its input, its weight, its bias."""
    w, b = f"W_{letter}", f"b_{letter}"
    nodes = [
        FigureNode(f"{w}.T", TENSOR, value(w, ["D", "D"], sup="⊤")),
        op(f"dx_{letter}", MATMUL),
        FigureNode(f"{saved}.T_{letter}", SAVED, value(saved, BSD, sup="⊤")),
        op(f"dw_{letter}", MATMUL),
        FigureNode(f"d{w}", TENSOR, value(w, ["D", "D"], gradient=True)),
        op(f"sum_{letter}", REDUCE),
        FigureNode(f"d{b}", TENSOR, value(b, ["D"], gradient=True)),
    ]
    edges = [
        weight(f"{w}.T", f"dx_{letter}"),
        operand(f"{saved}.T_{letter}", f"dw_{letter}"),
        FigureEdge(source, f"dw_{letter}", DOUBLE, BRANCH),
        *chain(f"dw_{letter}", f"d{w}"),
        FigureEdge(source, f"sum_{letter}", role=BRANCH),
        *chain(f"sum_{letter}", f"d{b}"),
    ]
    return nodes, edges


def mha_backward() -> Figure:
    """Seed 001, section 5.3.2: four projections, the scores, the residual."""
    nodes = [
        FigureNode("dY", TENSOR, value("Y", BSD, gradient=True)),
        op("dDO", NONLINEAR, "dDO"),
        *(op(f"R_{name}", LAYOUT, "R") for name in "OQKV"),
        FigureNode("V.T", SAVED, value("V", ["B", "N_H", "D_h", "S"], sup="⊤")),
        op("mix", MATMUL),
        FigureNode("AS.T", SAVED, value("AS", SCORES, sup="⊤")),
        op("dv", MATMUL),
        op("dDO_P", NONLINEAR, "dDO"),
        FigureNode("P", SAVED, value("P", SCORES)),
        op("dS", NONLINEAR, "dS"),
        op("dSM", NONLINEAR, "dSM"),
        FigureNode("K", SAVED, value("K", HEADS)),
        op("dq", MATMUL),
        FigureNode("Q.T", SAVED, value("Q", ["B", "N_H", "D_h", "S"], sup="⊤")),
        op("dk", MATMUL),
        op("T", LAYOUT, "T"),
        op("add_K", ADD),
        op("add_V", ADD),
        FigureNode("X", SAVED, value("X", BSD)),
        op("dLN", NONLINEAR, "dLN"),
        FigureNode("dgamma", TENSOR, value("gamma", ["D"], gradient=True)),
        FigureNode("dbeta", TENSOR, value("beta", ["D"], gradient=True)),
        op("add", ADD),
        FigureNode("dX", TENSOR, value("X", BSD, gradient=True)),
    ]

    def d(name: str, dims: list[str], sup: str = "") -> RichText:
        return value(name, dims, gradient=True, sup=sup)

    edges = [
        *chain("dY", "dDO", ("dx_O", d("A_out", BSD)), ("R_O", value("", BSD))),
        *chain("R_O", ("mix", d("O", HEADS)), ("dDO_P", d("AS", SCORES)), ("dS", d("P", SCORES))),
        *chain("dS", ("dSM", d("Z", SCORES)), ("dq", d("A", SCORES)), ("R_Q", d("Q", HEADS))),
        *chain("R_Q", ("dx_Q", value("", BSD)), ("add_K", value("", BSD))),
        *chain("add_K", ("add_V", value("", BSD)), ("dLN", d("H", BSD)), ("add", value("", BSD))),
        *chain("add", "dX"),
        *(FigureEdge(tail, head, DOUBLE, BRANCH) for tail, head in (("R_O", "dv"), ("dSM", "dk"))),
        *chain("dv", ("R_V", d("V", HEADS)), ("dx_V", value("", BSD))),
        *chain("dk", ("T", d("K", ["B", "N_H", "D_h", "S"], sup="⊤")), ("R_K", d("K", HEADS))),
        *chain("R_K", ("dx_K", value("", BSD))),
        FigureEdge("dx_K", "add_K", role=SIDE, label=value("", BSD)),
        FigureEdge("dx_V", "add_V", role=SIDE, label=value("", BSD)),
        FigureEdge("dY", "add", role=RESIDUAL, label=value("", BSD)),
        weight("V.T", "mix"),
        operand("AS.T", "dv"),
        operand("P", "dS"),
        weight("K", "dq"),
        operand("Q.T", "dk"),
        operand("X", "dLN"),
        FigureEdge("dLN", "dgamma", role=BRANCH),
        FigureEdge("dLN", "dbeta", role=BRANCH),
    ]
    for letter, source, saved in (
        ("O", "dDO", "C"),
        ("Q", "R_Q", "H"),
        ("K", "R_K", "H"),
        ("V", "R_V", "H"),
    ):
        more_nodes, more_edges = projection_backward(letter, source, saved)
        nodes += more_nodes
        edges += more_edges
    return Figure(
        "Multi-Head Attention",
        "backward pass",
        "The gradient goes back through the four projections and the attention scores.",
        tuple(nodes),
        tuple(edges),
        legend=True,
    )


def gated_mlp() -> Figure:
    """Llama's feed-forward block: two columns that join, biases beside their sums."""
    nodes = (
        FigureNode("X", TENSOR, value("X", BSD)),
        op("RMS", NONLINEAR, "RMS"),
        parameter("W_gate", ["D", "D_ff"]),
        op("gate", MATMUL),
        parameter("W_up", ["D", "D_ff"]),
        op("up", MATMUL),
        op("SwiGLU", NONLINEAR, "SwiGLU"),
        parameter("W_down", ["D_ff", "D"]),
        op("down", MATMUL),
        FigureNode("b_down", TENSOR, (*plain("BC"), *value("b_down", ["D"]))),
        op("bias", ADD),
        op("add", ADD),
        FigureNode("Y", TENSOR, value("Y", BSD)),
    )
    edges = (
        *chain("X", "RMS", ("gate", value("H", BSD)), ("SwiGLU", value("", HIDDEN))),
        *chain("SwiGLU", ("down", value("U", HIDDEN)), ("bias", value("", BSD))),
        *chain("bias", ("add", value("Z", BSD)), "Y"),
        FigureEdge("RMS", "up", role=BRANCH),
        FigureEdge("up", "SwiGLU", role=SIDE, label=value("", HIDDEN)),
        *(weight(f"W_{name}", name) for name in ("gate", "up", "down")),
        operand("b_down", "bias"),
        FigureEdge("X", "add", role=RESIDUAL, label=value("", BSD)),
    )
    return Figure("Gated MLP", "forward pass", "A gate multiplies what goes up.", nodes, edges)


def overview() -> Figure:
    """Seed 001, section 5.1: the overall flow, backward arrows dashed."""
    block = NodeKind.BLOCK
    nodes = (
        FigureNode("ids", TENSOR, tensor(symbol("ids"), ["B", "S"])),
        FigureNode("embedding", block, plain("Input Embedding")),
        FigureNode("attention", block, plain("Multi-Head Attention")),
        FigureNode("mlp", block, plain("Feed-Forward Network")),
        FigureNode("output", block, plain("Token Generation & Loss")),
        FigureNode("loss", TENSOR, tensor(symbol("loss"), [])),
    )
    path = ["embedding", "attention", "mlp", "output"]
    labels = {"attention": ("X", BSD), "mlp": ("M", BSD), "output": ("Y", BSD)}
    forward = chain("ids", *(((n, value(*labels[n])) if n in labels else n) for n in path), "loss")
    backward = [
        FigureEdge(head, tail, DASHED, label=value(labels[head][0], BSD, gradient=True))
        for tail, head in pairwise(path)
    ]
    backward.append(FigureEdge("loss", "output", DASHED))
    group = FigureGroup("layer", (*plain("Layer × "), *dimension("N_L")), ("attention", "mlp"))
    return Figure(
        "Language Model",
        "overall flow",
        "Solid arrows run forward, dashed arrows carry gradients back along the same path.",
        nodes,
        (*forward, *backward),
        (group,),
        legend=True,
    )


def long_chain(blocks: int) -> Figure:
    """Return `blocks` feed-forward blocks under each other: six nodes and two residuals each."""
    nodes = [FigureNode("X", TENSOR, value("X", BSD))]
    edges: list[FigureEdge] = []
    last = "X"
    for index in range(blocks):
        ln, up, act, down, add = (f"{name}_{index}" for name in ("LN", "up", "act", "down", "add"))
        nodes += [op(ln, NONLINEAR, "LN"), op(up, MATMUL), op(act, NONLINEAR, "GELU")]
        nodes += [op(down, MATMUL), op(add, ADD)]
        edges += chain(last, ln, (up, value("H", BSD)), (act, value("", HIDDEN)))
        edges += chain(act, (down, value("U", HIDDEN)), (add, value("", BSD)))
        edges.append(FigureEdge(last, add, role=RESIDUAL))
        last = add
    nodes.append(FigureNode("Y", TENSOR, value("Y", BSD)))
    edges += chain(last, "Y")
    description = "Many blocks in a row."
    return Figure("Chain", f"{blocks} blocks", description, tuple(nodes), tuple(edges))


def linked(count: int) -> Figure:
    """Return a chain of operators each of which takes what two before it gave, too."""
    nodes = [FigureNode("X", TENSOR, value("X", BSD))]
    edges: list[FigureEdge] = []
    before, last = "", "X"
    for index in range(count):
        act, add = f"act_{index}", f"add_{index}"
        nodes += [op(act, NONLINEAR, "GELU"), op(add, ADD)]
        edges += chain(last, act, (add, value("U", BSD)))
        edges += [FigureEdge(before, add, role=RESIDUAL)] if before else []
        before, last = last, add
    nodes.append(FigureNode("Y", TENSOR, value("Y", BSD)))
    edges += chain(last, "Y")
    return Figure("Links", f"{count} sums", "Sums in a row.", tuple(nodes), tuple(edges))


def messy(count: int, seed: int) -> Figure:
    """Return a figure that no one would write: `count` nodes, joined at random."""
    choose = Random(seed)
    kinds = (
        (NONLINEAR, "LN"),
        (MATMUL, ""),
        (ADD, ""),
        (LAYOUT, "R"),
        (NONLINEAR, "GELU"),
        (REDUCE, ""),
    )
    nodes = [op("n0", NONLINEAR, "LN")]
    edges: list[FigureEdge] = []
    continued: set[str] = set()
    for number in range(1, count):
        node, (kind, glyph) = f"n{number}", choose.choice(kinds)
        tail = f"n{choose.randrange(max(0, number - 6), number)}"
        role = BRANCH if tail in continued else MAIN
        label = value(choose.choice("ABC"), choose.choice([BSD, SCORES]))
        edges.append(
            FigureEdge(tail, node, role=role, label=label if choose.random() < 0.6 else ())
        )
        continued.add(tail)
        nodes.append(op(node, kind, glyph))
        if kind is MATMUL:
            nodes.append(parameter(f"W_{number}", ["D", "D"]))
            edges.append(weight(f"W_{number}", node))
        elif kind is ADD:
            other = f"n{choose.randrange(number)}"
            edges.append(FigureEdge(other, node, role=choose.choice([SIDE, RESIDUAL])))
            continued.add(other)
    return Figure(f"Messy {count}", f"seed {seed}", "", tuple(nodes), tuple(edges))


def with_legend(figure: Figure) -> Figure:
    return replace(figure, legend=True)
