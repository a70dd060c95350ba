"""Routed experts, a sum over all of them with weights that are 0 but for k, at once.

A kernel computes each expert on the rows that chose it. Between the passes it keeps what the first
matrices give, for each choice of a row.

The diagram sums over all experts, because a plan can cut that sum; the cost of k of N_E experts
belongs to the kernels. The operator keeps values per choice, not per expert, because choices are
local to a row: under most plans the body of a rank is the same on smaller shapes.
`torch.nn.functional.grouped_mm` has no float64 and no gradient on a CPU.
"""

from __future__ import annotations

from typing import Final

from xg import ops
from xg.ir.body import Body
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Value
from xg.ir.op import Op
from xg.ir.prim import Expr, contract, gather, operand, reduce_sum, reshape, scatter_add
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Word
from xg.passes.ring.attention import Fusion, Inside, Match

LEADING: Final = "ABCDEFGH"  # letters of the axes of rows
ACTIVATIONS: Final = {"SiLU": "silu", "GELU": "gelu", "ReLU": "relu"}


def forward(
    x: Expr, p: Expr, e: Expr, w_in: Expr, w_up: Expr | None, w_out: Expr, *, form: str
) -> tuple[Expr, dict[str, Expr]]:
    """``Σ_j p_j W_out[e_j] (act(W_in[e_j] x) ⊙ W_up[e_j] x)``."""
    g = _chosen(contract(x, w_in, _spec("d,ndf->nf", x)), e).named("g")
    h, caches = _apply_activation(g, form), {"g": g}
    if w_up is not None:
        u = _chosen(contract(x, w_up, _spec("d,ndf->nf", x)), e).named("u")
        h, caches = h * u, {"g": g, "u": u}
    sums = _by_expert(_add_last_axis(p) * h, e, w_in).named("sums")
    return contract(sums, w_out, _spec("nf,nfd->d", x)), caches


def adjoint(
    dy: Expr,
    x: Expr,
    p: Expr,
    e: Expr,
    w_in: Expr,
    w_up: Expr | None,
    w_out: Expr,
    g: Expr,
    u: Expr | None,
    *,
    form: str,
) -> tuple[Expr | None, ...]:
    """The product rule, on what each choice of a row has kept."""
    slope = _chosen(contract(dy, w_out, _spec("d,nfd->nf", x)), e).named("slope")
    a = _apply_activation(g, form).named("a")
    h = (a if u is None else a * u).named("h")
    dh = (_add_last_axis(p) * slope).named("dh")
    adjoint_of = _activation(form).adjoint
    assert adjoint_of
    (dg,) = adjoint_of(dh if u is None else dh * u, g, **_words(form))
    assert dg
    dgates = _by_expert(dg, e, w_in).named("dgates")
    dx = contract(dgates, w_in, _spec("nf,ndf->d", x))
    dw_up = None
    if w_up is not None:
        dups = _by_expert(dh * a, e, w_in).named("dups")
        dx = dx + contract(dups, w_up, _spec("nf,ndf->d", x))
        dw_up = contract(x, dups, _sums("d,nf->ndf", x))
    sums = _by_expert(_add_last_axis(p) * h, e, w_in).named("sums")
    return (
        dx,
        reduce_sum(slope * h, keep=False),
        contract(x, dgates, _sums("d,nf->ndf", x)),
        dw_up,
        contract(sums, dy, _sums("nf,d->nfd", x)),
    )


def _chosen(each: Expr, e: Expr) -> Expr:
    """Select the results of the k experts that a row chose, among the results of all experts."""
    return gather(each, e, e.rank - 1)


def _by_expert(rows: Expr, e: Expr, w: Expr) -> Expr:
    """The k choices of a row, in a row for each expert."""
    return scatter_add(rows, e, w.shape[0], e.rank - 1)


def _add_last_axis(p: Expr) -> Expr:
    return reshape(p, (*p.shape, ONE))


def _activation(form: str) -> Op:
    glyph = next(glyph for glyph, word in ACTIVATIONS.items() if word == form)
    return ops.table()[glyph]


def _words(form: str) -> dict[str, str]:
    return {"form": "tanh"} if form == "gelu" else {}


def _apply_activation(g: Expr, form: str) -> Expr:
    return _activation(form).forward(g, **_words(form))


def _spec(spec: str, x: Expr) -> str:
    """A product of rows, whose axes stay."""
    leading = LEADING[: x.rank - 1]
    rows, rest = spec.split(",")
    matrices, out = rest.split("->")
    return f"{leading}{rows},{matrices}->{leading}{out}"


def _sums(spec: str, x: Expr) -> str:
    """A product of rows that is summed over them."""
    leading = LEADING[: x.rank - 1]
    left, rest = spec.split(",")
    right, out = rest.split("->")
    return f"{leading}{left},{leading}{right}->{out}"


# ---- the pattern --------------------------------------------------------------------------------


def match(last: Apply, inside: Inside) -> Match | None:
    """From the weighted sum back to the rows and to the choice of their experts."""
    shapes = [inside.types[value].shape for value in last.inputs]
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]) + 1:
        return None
    out = inside.maker(last.inputs[0], "•")
    turn = inside.maker(last.inputs[1], "T")
    spread = inside.maker(turn.inputs[0], "scatter") if turn else None
    if out is None or turn is None or spread is None:
        return None
    if spread.attrs["axis"] != -1 or spread.attrs["places"] != -1:
        return None
    # Products have the axis of their matrices beside the rows; scatter makes that of experts last.
    axis = len(shapes[1]) - 2
    if turn.attrs["order"] != (*range(axis), axis + 1, axis):
        return None
    if not _sums_over(last, inside, axis) or not _per_expert(out, axis):
        return None
    unit = _unit(out.inputs[0], inside, axis)
    if unit is None:
        return None
    steps, x, matrices, form = unit
    p, e = spread.inputs
    attrs: Attrs = {"form": form} if len(matrices) == 2 else {"form": form, "absent": ("w_up",)}
    return Match(
        steps=(*steps, out, spread, turn, last),
        inputs=(x, p, e, *matrices, out.inputs[1]),
        attrs=attrs,
        place=last.place,
    )


def _sums_over(last: Apply, inside: Inside, axis: int) -> bool:
    """Whether a step sums rows over an axis, times their weights."""
    y, weights = (inside.types[value].shape for value in last.inputs)
    body = last.body(inside.types)
    return any(
        Body(body.operands, body.outputs).matches(_weighted_sum(body, y, weights, axis, turn))
        for turn in (False, True)
    )


def _weighted_sum(body: Body, y: Shape, weights: Shape, axis: int, turned: bool) -> Body:
    names = [str(expr.name) for expr in body.operands]
    rows, shares = operand(names[0], y), operand(names[1], weights)
    beside = reshape(shares, (*weights, ONE))
    product = beside * rows if turned else rows * beside
    total = reduce_sum(product, axis - len(y))
    return Body((rows, shares), (reshape(total, (*y[:axis], *y[axis + 1 :])),))


def _per_expert(product: Apply, axis: int) -> bool:
    """Whether a product multiplies by a matrix for each expert, ``abik,bkj->abij``."""
    inputs, out = str(product.attrs["spec"]).split("->")
    left, right = inputs.split(",")
    front = left[:-1]
    return right == left[axis] + left[-1] + out[-1] and out[:-1] == front and axis < len(front)


Unit = tuple[tuple[Apply, ...], Value, tuple[Value, ...], str]


def _unit(h: Value, inside: Inside, axis: int) -> Unit | None:
    """The steps from the rows to the hidden units, the rows, their matrices, the activation."""
    last = inside.maker(h, "SwiGLU", "⊙", *ACTIVATIONS)
    if last is None:
        return None
    gate, up = (*last.inputs, None)[:2]
    form, steps = "silu", (last,)
    if last.op.glyph != "SwiGLU":
        act, up = _find_activation(last, inside)
        if act is None or (act.op.glyph == "GELU" and act.attrs["form"] != "tanh"):
            return None
        (gate,) = act.inputs
        form, steps = ACTIVATIONS[act.op.glyph], tuple(dict.fromkeys((act, last)))
    products = [inside.maker(value, "•") for value in (gate, up) if value is not None]
    first = [product for product in products if product and _per_expert(product, axis)]
    if not first or len(first) != len(products):
        return None
    repeat = inside.maker(first[0].inputs[0], "BC", readers=len(first))
    if repeat is None or any(product.inputs[0] is not repeat.outputs[0] for product in first):
        return None
    if repeat.attrs["new"] != (axis,) or repeat.attrs["shape"] != repeat.attrs["atoms"]:
        return None
    matrices = tuple(product.inputs[1] for product in first)
    return (repeat, *first, *steps), repeat.inputs[0], matrices, form


def _find_activation(last: Apply, inside: Inside) -> tuple[Apply | None, Value | None]:
    """The activation of a step that is one, or multiplies one by another value, and that value."""
    if last.op.glyph != "⊙":
        return last, None
    for act, up in (last.inputs, last.inputs[::-1]):
        made = inside.maker(act, *ACTIVATIONS)
        if made is not None:
            return made, up
    return None, None


OP: Final = Op(
    glyph="Experts",
    name="experts",
    family="matmul",
    data=(
        *(Data("x"), Data("p"), Data("e", "int")),
        *(Data("w_in"), Data("w_up", optional=True), Data("w_out")),
    ),
    own=(Word("form", tuple(ACTIVATIONS.values())),),
    forward=forward,
    adjoint=adjoint,
    meaning="what the experts that each row chose give for it, weighed and summed",
    formula="Y = Σ_j p_j W_out[e_j] h_j, h_j = act(W_in[e_j] x) ⊙ W_up[e_j] x, or act(W_in[e_j] x)",
    gradient="the product rule; an expert has the gradients of the rows that chose it",
    source="Shazeer et al. 2017; Gale et al. 2022",
)
FUSION: Final = Fusion(OP, "", match)
