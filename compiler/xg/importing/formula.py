"""Arithmetic for which the legend has no node: gathered, and then defined as an operator.

``x * rsqrt(mean(x^2) + eps) * g`` is six aten calls and one node of a figure: an ``op`` of the
file, whose expression is the arithmetic itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xg.importing.archive import Array
from xg.importing.errors import Unspeakable
from xg.importing.known import Formula, Known, Operand, Part, Term
from xg.importing.layout import Value, View

if TYPE_CHECKING:
    from xg.importing.lowering import Lowering

REDUCTIONS: Final = ("mean", "sum", "max")
GLYPHS: Final = {"tanh": "tanh", "sigmoid": "sigmoid"}  # functions that are nodes on their own


def combine(function: str, *operands: Known | float) -> Formula:
    """A function of formulas, views and numbers; a reduction goes over the last axis."""
    views: list[View] = []
    parts: list[tuple[str, tuple[Term, ...]]] = []
    reduced: list[bool] = []
    terms: list[Term] = []
    for operand in operands:
        if isinstance(operand, Formula):
            terms.append(_append(operand, views, parts, reduced))
        elif isinstance(operand, View):
            terms.append(Operand(_place(operand, views)))
        else:
            assert isinstance(operand, int | float)
            terms.append(float(operand))
    parts.append((function, tuple(terms)))
    wide = [not reduced[term.place] for term in terms if isinstance(term, Part)]
    wide += [True for term in terms if isinstance(term, Operand)]
    reduced.append(function in REDUCTIONS or not any(wide))
    return Formula(tuple(views), tuple(parts), tuple(reduced))


def _append(
    formula: Formula,
    views: list[View],
    parts: list[tuple[str, tuple[Term, ...]]],
    reduced: list[bool],
) -> Part:
    """Take over the parts of a formula that are not there yet."""
    places = [_place(view, views) for view in formula.operands]
    moved: list[int] = []
    for (function, terms), is_reduced in zip(formula.parts, formula.reduced, strict=True):
        own = tuple(
            Operand(places[term.place])
            if isinstance(term, Operand)
            else Part(moved[term.place])
            if isinstance(term, Part)
            else term
            for term in terms
        )
        if (function, own) in parts:
            moved.append(parts.index((function, own)))
        else:
            moved.append(len(parts))
            parts.append((function, own))
            reduced.append(is_reduced)
    return Part(moved[-1])


def _place(view: View, views: list[View]) -> int:
    if view not in views:
        views.append(view)
    return views.index(view)


def is_narrow(view: View) -> bool:
    """Whether a view is one vector, to be repeated along every other axis."""
    return len(view.base) == 1 and view.base == view.axes[-1:] and not any(view.axes[:-1])


def seal(lowering: Lowering, formula: Formula) -> View:
    """The step that a formula becomes: a node of the legend if there is one, else a defined op."""
    plain = _plain(lowering, formula)
    if plain is not None:
        return plain
    activation = _activation(formula)
    if activation is not None:
        node, word = activation
        attrs = {"word": word} if node == "GELU" else {}
        return lowering.keep(node, formula.operands[0], **attrs)
    wide = [view for view in formula.operands if not is_narrow(view)]
    if not wide:
        raise Unspeakable("it is arithmetic of parameters alone")
    reducing = any(formula.reduced) or len(wide) < len(formula.operands)
    main = lowering.last_whole(wide[0]) if reducing else wide[0]
    if main.repeats:
        main = lowering.seen(main)
    values: list[Value] = []
    for view in formula.operands:
        values.append(_laid_out(lowering, main, wide[0], view))
    narrow = tuple(is_narrow(view) for view in formula.operands)
    last_is_reduced = formula.reduced[-1]
    axes = main.value.axes[:-1] if last_is_reduced else main.value.axes
    made = lowering.emit("op", values, axes, formula=(formula.parts, formula.reduced, narrow))
    if last_is_reduced:
        return View(made, main.base[:-1], (*main.axes[:-1], ()))
    return main.on(made)


def _laid_out(lowering: Lowering, main: View, first: View, view: View) -> Value:
    if view is first:
        return main.value
    if is_narrow(view):
        size, own = main.value.axes[-1], view.value.axes[-1]
        if size is None or own is None:
            raise Unspeakable("it multiplies along an axis of length 1")
        lowering.sizes.equal(size, own)
        return view.value
    aligned, value = lowering.beside(main, view)
    if aligned.base != main.base and [len(a) for a in aligned.base] != [len(a) for a in main.base]:
        return value
    return value


def _plain(lowering: Lowering, formula: Formula) -> View | None:
    """The node of a formula of one part: a product with a number, or a function of its own."""
    if len(formula.parts) != 1:
        return None
    match formula.parts[0]:
        case "mul", (Operand(), float() as c) | (float() as c, Operand()):
            return _scaled(lowering, formula.operands[0], c)
        case "div", (Operand(), float() as c):
            return _scaled(lowering, formula.operands[0], 1 / c)
        case function, (Operand(),) if function in GLYPHS:
            return lowering.keep(GLYPHS[function], formula.operands[0])
        case _:
            return None


def _scaled(lowering: Lowering, view: View, c: float) -> View:
    product = lowering.made_by(view, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    return lowering.keep("scale", view, c=c, contracted=contracted)


def _activation(formula: Formula) -> tuple[str, str] | None:
    """The node that a function of one number is, if it has the same values as one everywhere."""
    if len(formula.operands) != 1 or any(formula.reduced) or is_narrow(formula.operands[0]):
        return None
    x = np.linspace(-9.0, 9.0, 1009)
    with np.errstate(all="ignore"):
        found = _values(formula, x)
        for (node, word), function in ACTIVATIONS.items():
            wanted = function(x)
            if np.abs(found - wanted).max() <= 1e-13:
                return node, word
    return None


def _values(formula: Formula, x: Array) -> Array:
    """What arithmetic of one operand gives for some numbers."""
    results: list[Array] = []
    for function, terms in formula.parts:
        values: list[Any] = [
            x if isinstance(t, Operand) else results[t.place] if isinstance(t, Part) else t
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
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "tanh": np.tanh,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
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


def number_text(value: float) -> str:
    """A number as people write it.

    >>> number_text(1e-05), number_text(0.1), number_text(10000.0)
    ('1e-5', '0.1', '10000')
    """
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa}{e}{int(exponent)}" if e else mantissa


def spell(parts: Sequence[tuple[str, tuple[Term, ...]]], names: Sequence[str], axis: str) -> str:
    """A formula in the words of the language; parts are bound by their signs."""
    texts: list[tuple[str, int]] = []  # text, and how tightly it binds: 1 sum, 2 product, 4 atom

    def term(item: Term, least: int) -> str:
        if isinstance(item, Operand):
            return names[item.place]
        text, binds = texts[item.place] if isinstance(item, Part) else _number(item)
        return text if binds >= least else f"({text})"

    for function, terms in parts:
        last = terms[-1]
        if function == "mul" and isinstance(last, Part) and parts[last.place][0] == "rsqrt":
            inner = parts[last.place][1][0]
            texts.append((f"{term(terms[0], 2)} / sqrt({term(inner, 0)})", 2))
        else:
            texts.append(_spelled(function, terms, axis, term))
    return texts[-1][0]


def _number(value: float) -> tuple[str, int]:
    return number_text(value), 1 if value < 0 else 4


def _spelled(
    function: str, terms: tuple[Term, ...], axis: str, say: Callable[[Term, int], str]
) -> tuple[str, int]:
    match function:
        case "add":
            return f"{say(terms[0], 1)} + {say(terms[1], 2)}", 1
        case "sub":
            return f"{say(terms[0], 1)} - {say(terms[1], 2)}", 1
        case "mul":
            return f"{say(terms[0], 2)}*{say(terms[1], 3)}", 2
        case "div":
            return f"{say(terms[0], 2)}/{say(terms[1], 3)}", 2
        case "pow":
            return f"{say(terms[0], 4)}^{say(terms[1], 4)}", 3
        case "neg":
            return f"-{say(terms[0], 3)}", 1
        case "rsqrt":
            return f"1/sqrt({say(terms[0], 0)})", 2
        case "mean" | "sum":
            return f"{function}[{axis}]({say(terms[0], 0)})", 4
        case "max":
            return f"max[{axis}]({say(terms[0], 0)})", 4
        case "maximum" | "minimum":
            return f"{function[:3]}({', '.join(say(item, 0) for item in terms)})", 4
        case _:
            return f"{function}({say(terms[0], 0)})", 4
