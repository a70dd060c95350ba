"""Gathered arithmetic as a step: a node of the legend where one computes it, else a defined op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.formula import is_narrow
from xg_torch.importing.known import Formula, FormulaPart, Operand
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.views import ModelValue, View

NODES: Final = ("tanh", "sigmoid")  # functions that are nodes of their own


def define_op(lowering: Lowering, formula: Formula) -> View:
    """The step that a formula becomes: a node of the legend if there is one, else a defined op."""
    plain = _plain(lowering, formula)
    if plain is not None:
        return plain
    activation = _activation(formula)
    if activation is not None:
        node, word = activation
        attrs = {"word": word} if node == "GELU" else {}
        return lowering.keep(node, formula.operands[0], **attrs)
    narrow = tuple(is_narrow(view) for view in formula.operands)
    if all(narrow):
        narrow = (False,) * len(narrow)  # vectors among themselves are repeated along nothing
    wide = [view for view, small in zip(formula.operands, narrow, strict=True) if not small]
    reducing = any(formula.reduced) or len(wide) < len(formula.operands)
    main = lowering.last_whole(wide[0]) if reducing else wide[0]
    if main.repeats:
        main = lowering.materialize(main)
    values = [
        _laid_out(lowering, main, wide[0], view, small=small)
        for view, small in zip(formula.operands, narrow, strict=True)
    ]
    _hint_latent(lowering, main, reducing=any(formula.reduced) and any(narrow))
    last_is_reduced = formula.reduced[-1]
    axes = main.value.axes[:-1] if last_is_reduced else main.value.axes
    value = lowering.emit("op", values, axes, formula=(formula.parts, formula.reduced, narrow))
    if last_is_reduced:
        return View(value, main.base[:-1], (*main.axes[:-1], ()))
    return main.on(value)


def _hint_latent(lowering: Lowering, view: View, *, reducing: bool) -> None:
    """A name for the width of what a norm follows at once: a latent, and nothing hidden."""
    projected = lowering.made_by(view, "•")
    last = view.value.axes[-1] if view.value.axes else None
    if reducing and last is not None and projected and projected.data[1] in lowering.weights:
        lowering.sizes.hint(last, "D_c", 2)


def _laid_out(
    lowering: Lowering, main: View, first: View, view: View, *, small: bool
) -> ModelValue:
    if view is first:
        return main.value
    if small:
        size, own = main.value.axes[-1], view.value.axes[-1]
        if size is None or own is None:
            raise Unspeakable("it multiplies along an axis of length 1")
        lowering.sizes.equal(size, own)
        return view.value
    return lowering.broadcast_together(main, view)[1]


def _plain(lowering: Lowering, formula: Formula) -> View | None:
    """The node of a formula of one part: a product with a number, or a function of its own."""
    if len(formula.parts) != 1:
        return None
    match formula.parts[0]:
        case "mul", (Operand(), float() as c) | (float() as c, Operand()):
            return _scaled(lowering, formula.operands[0], c)
        case "div", (Operand(), float() as c):
            return _scaled(lowering, formula.operands[0], 1 / c)
        case function, (Operand(),) if function in NODES:
            return lowering.keep(function, formula.operands[0])
        case _:
            return None


def _scaled(lowering: Lowering, view: View, c: float) -> View:
    product = lowering.made_by(view, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    return lowering.keep("scale", view, c=c, contracted=contracted)


def _activation(formula: Formula) -> tuple[str, str] | None:
    """The node that a function of one number is, if it has the same values as one everywhere."""
    if len(formula.operands) != 1 or any(formula.reduced):
        return None
    x = np.linspace(-9.0, 9.0, 1009)
    with np.errstate(all="ignore"):
        array = _values(formula, x)
        for (node, word), function in ACTIVATIONS.items():
            node_values = function(x)
            if np.abs(array - node_values).max() <= 1e-13:
                return node, word
    return None


def _values(formula: Formula, x: Array) -> Array:
    """The results of arithmetic of one operand for some numbers."""
    results: list[Array] = []
    for function, terms in formula.parts:
        values: list[Any] = [
            x if isinstance(t, Operand) else results[t.place] if isinstance(t, FormulaPart) else t
            for t in terms
        ]
        results.append(FUNCTIONS[function](*values))
    return results[-1]


def _erf(x: Array) -> Array:
    return np.array([math.erf(each) for each in x])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "neg": np.negative,
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "abs")},
    "rsqrt": _rsqrt,
    "erf": _erf,
    "sigmoid": _sigmoid,
}

ACTIVATIONS: Final[Mapping[tuple[str, str], Callable[[Array], Array]]] = {
    ("GELU", ""): lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ("GELU", "exact"): lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    ("SiLU", ""): lambda x: x * _sigmoid(x),
    ("sigmoid", ""): _sigmoid,
    ("tanh", ""): np.tanh,
    ("ReLU", ""): lambda x: np.maximum(x, 0),
}
