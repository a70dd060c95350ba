"""Reductions along an axis: softmax, norms, means, losses."""

from __future__ import annotations

from collections.abc import Callable

from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref, reads
from xg_torch.importing.fixed import Formula, FormulaPart, Known, Lost, Operand
from xg_torch.importing.lowering import Lowering, combine
from xg_torch.importing.rules_elementwise import plain, show
from xg_torch.importing.rules_layout import place_of
from xg_torch.importing.views import Axis, Factor, ModelValue, View, align


def softmax(lowering: Lowering) -> View:
    """Softmax over the last axis."""
    view = _scores(lowering)
    if place_of(lowering, "dim", len(view.axes)) != len(view.axes) - 1:
        raise Unspeakable("its softmax goes over an axis that is not the last")
    scores = show(lowering, lowering.last_whole(view), None, causal=False)
    return lowering.keep("S", scores)


def _scores(lowering: Lowering) -> View:
    """Scores, also where their largest is taken off, which changes no softmax."""
    known = lowering.known_of("self")
    match known:
        case Formula((scores,), (("max", (Operand(),)), ("sub", (Operand(), FormulaPart())))):
            return scores
        case _:
            return lowering.view(known)


def maximum(lowering: Lowering) -> tuple[Known, Known]:
    """The largest number along the last axis; nothing may read where it is."""
    formula = lowering.known_of("self")
    rank = len(lowering.exported.metas[_name(lowering)].shape or ())
    last = lowering.argument("dim") is not None and _axes(lowering, rank) == [rank - 1]
    if not last or not lowering.argument("keepdim", False):
        raise Unspeakable("the language has no operator for it")
    places = lowering.call.outputs[1:]
    exported = lowering.exported
    read = [name for call in exported.calls for name in reads(call.args)]
    read += [each.name for each in exported.outputs if isinstance(each, Ref)]
    if set(places) & set(read):
        raise Unspeakable("it looks where the largest number is")
    return combine("max", plain(formula)), Lost()


def layer_norm(lowering: Lowering) -> View:
    """Layer normalization of the last axis."""
    view = lowering.last_whole(lowering.view_of("input"))
    shape = lowering.argument("normalized_shape")
    if not isinstance(shape, tuple) or len(shape) != 1:
        raise Unspeakable("it normalizes several axes at once")
    last = view.value.axes[-1]
    eps = lowering.number_of("eps", 1e-5)
    if any(isinstance(lowering.maybe_known(name), Formula) for name in ("weight", "bias")):
        return _written_out(lowering, view, eps)
    own = [
        lowering.view_of(name).value
        for name in ("weight", "bias")
        if lowering.argument(name) is not None
    ]
    for each in own:
        lowering.sizes.equal(last, each.axes[0])
    if last is not None:
        lowering.sizes.hint(last, "D", 4)
    return view.on(lowering.emit("LN", (view.value,), view.value.axes, own=own, eps=eps))


def _written_out(lowering: Lowering, view: View, eps: float) -> View:
    """Layer normalization with weights such as ``1 + g``, as arithmetic."""
    centred = combine("sub", view, combine("mean", view))
    variance = combine("mean", combine("pow", centred, 2.0))
    norm = combine("mul", centred, combine("rsqrt", combine("add", variance, eps)))
    for name, function in (("weight", "mul"), ("bias", "add")):
        own = lowering.maybe_known(name)
        if own is not None:
            norm = combine(function, norm, plain(own))
    return lowering.view(norm)


def rms_norm(lowering: Lowering) -> View:
    """Root-mean-square normalization of the last axis."""
    view = lowering.view_of("input")
    shape = lowering.argument("normalized_shape")
    if not isinstance(shape, tuple) or len(shape) != 1 or lowering.argument("eps") is None:
        raise Unspeakable("it normalizes several axes, or by the precision of its numbers")
    square = combine("mean", combine("pow", view, 2.0))
    norm = combine("mul", view, combine("rsqrt", combine("add", square, lowering.number_of("eps"))))
    if lowering.argument("weight") is not None:
        norm = combine("mul", norm, lowering.view_of("weight"))
    return lowering.view(norm)


def reduction(operator: str) -> Callable[[Lowering], Known]:
    """`mean` and `sum`: over the last axis inside arithmetic, else a node."""

    def rule(lowering: Lowering) -> Known:
        formula = lowering.known_of("self")
        rank = len(lowering.exported.metas[_name(lowering)].shape or ())
        axes = _axes(lowering, rank)
        keep = bool(lowering.argument("keepdim", False))
        if keep and axes == [rank - 1]:
            return combine(operator, plain(formula))
        if axes == [rank - 1] and lowering.made_by(formula, "topk"):
            view = lowering.view(combine(operator, plain(formula)))
            return view.with_axes(view.axes[:-1])
        return reduced(lowering, operator, lowering.view(formula), axes, keep=keep)

    return rule


def _name(lowering: Lowering) -> str:
    argument = lowering.argument("self")
    return argument.name if isinstance(argument, Ref) else ""


def _axes(lowering: Lowering, rank: int) -> list[int]:
    argument = lowering.argument("dim")
    if argument is None or argument == ():
        return list(range(rank))
    listed = argument if isinstance(argument, tuple) else (argument,)
    return sorted(int(str(axis)) % rank for axis in listed)


def reduced(lowering: Lowering, operator: str, view: View, axes: list[int], *, keep: bool) -> View:
    """A reduction of these axes."""
    if view.repeats or any(view.axes[place] not in view.base for place in axes):
        view = lowering.materialize(view)
    gone = [view.base.index(view.axes[place]) for place in axes if view.axes[place]]
    rest = [place for place in range(len(view.base)) if place not in gone]
    value = lowering.emit(
        operator,
        (view.value,),
        [view.value.axes[place] for place in rest],
        over=tuple(place - len(view.base) for place in sorted(gone)),
    )
    empty: Axis = ()
    seen = [
        empty if place in axes else axis
        for place, axis in enumerate(view.axes)
        if keep or place not in axes
    ]
    return View(value, tuple(view.base[place] for place in rest), tuple(seen))


def cross_entropy(lowering: Lowering) -> View:
    """Cross-entropy of logits with targets, over all of them."""
    logits, targets = lowering.view_of("self"), lowering.view_of("target")
    if targets.value.kind != "int" or lowering.argument("weight") is not None:
        raise Unspeakable("its targets are no integers, or it weighs classes")
    if lowering.number_of("label_smoothing", 0.0):
        raise Unspeakable("it smooths labels")
    if len(logits.axes) > 2:
        logits = logits.with_axes((logits.axes[0], *logits.axes[2:], logits.axes[1]))
    logits = lowering.last_whole(logits)
    classes = logits.axes[-1]
    front, spread = _rows(lowering, logits, targets)
    size = lowering.join(classes)
    assert size is not None
    lowering.sizes.hint(size, "V" if len(front.value.axes) > 2 else "N_C", 3)
    lowering.set_range(spread, size)
    value = lowering.emit(
        "CE",
        (front.value, spread),
        (),
        word=_reduction(lowering),
        ignore=lowering.integer_of("ignore_index", -100),
    )
    return View(value, (), ())


def _rows(lowering: Lowering, logits: View, targets: View) -> tuple[View, ModelValue]:
    """The logits, and the targets laid out as their rows."""
    last = logits.axes[-1]
    rows, targets = align(logits.with_axes(logits.axes[:-1]), targets, lowering.sizes)
    pairs: dict[Factor, Factor] = {}
    for mine, its in zip(rows.axes, targets.axes, strict=True):
        pairs.update(zip(mine, its, strict=True))
    axes = tuple(tuple(pairs[factor] for factor in axis) for axis in rows.base[:-1])
    return rows.with_axes((*rows.axes, last)), lowering.lay_out(targets, axes)


def squared_error(lowering: Lowering) -> View:
    """The mean, or the sum, of squared differences."""
    main, other = lowering.broadcast_together(lowering.view_of("self"), lowering.view_of("target"))
    value = lowering.emit("MSE", (main.value, other), (), word=_reduction(lowering))
    return View(value, (), ())


def binary_cross_entropy(lowering: Lowering) -> View:
    """Binary cross-entropy with targets between 0 and 1, from logits."""
    if any(lowering.argument(name) is not None for name in ("weight", "pos_weight")):
        raise Unspeakable("it weighs its targets")
    main, other = lowering.broadcast_together(lowering.view_of("self"), lowering.view_of("target"))
    word = ", ".join(part for part in (_reduction(lowering), "form=logits") if part)
    return View(lowering.emit("BCE", (main.value, other), (), word=word), (), ())


def _reduction(lowering: Lowering) -> str:
    mode = lowering.integer_of("reduction", 1)
    if mode == 0:
        raise Unspeakable("its loss is not reduced to one number")
    return "" if mode == 1 else "sum"
