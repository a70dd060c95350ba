"""Arithmetic for which the legend has no node: gathered, and then defined as an operator.

``x * rsqrt(mean(x^2) + eps) * g`` is six aten calls and one node of a figure: an ``op`` of the
file, whose expression is the arithmetic itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg_torch.importing.known import Formula, FormulaPart, Known, Operand, Term
from xg_torch.importing.views import View

REDUCTIONS: Final = ("mean", "sum", "max")


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
    wide = [not reduced[term.place] for term in terms if isinstance(term, FormulaPart)]
    wide += [True for term in terms if isinstance(term, Operand)]
    reduced.append(function in REDUCTIONS or not any(wide))
    return Formula(tuple(views), tuple(parts), tuple(reduced))


def _append(
    formula: Formula,
    views: list[View],
    parts: list[tuple[str, tuple[Term, ...]]],
    reduced: list[bool],
) -> FormulaPart:
    """Take over the parts of a formula that are not there yet."""
    places = [_place(view, views) for view in formula.operands]
    moved: list[int] = []
    for (function, terms), is_reduced in zip(formula.parts, formula.reduced, strict=True):
        own = tuple(
            Operand(places[term.place])
            if isinstance(term, Operand)
            else FormulaPart(moved[term.place])
            if isinstance(term, FormulaPart)
            else term
            for term in terms
        )
        if (function, own) in parts:
            moved.append(parts.index((function, own)))
        else:
            moved.append(len(parts))
            parts.append((function, own))
            reduced.append(is_reduced)
    return FormulaPart(moved[-1])


def _place(view: View, views: list[View]) -> int:
    if view not in views:
        views.append(view)
    return views.index(view)


def is_narrow(view: View) -> bool:
    """Whether a view is one vector, to be repeated along every other axis."""
    return len(view.base) == 1 and view.base == view.axes[-1:] and not any(view.axes[:-1])


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
        text, binds = texts[item.place] if isinstance(item, FormulaPart) else _number(item)
        return text if binds >= least else f"({text})"

    for function, terms in parts:
        last = terms[-1]
        if function == "mul" and isinstance(last, FormulaPart) and parts[last.place][0] == "rsqrt":
            inner = parts[last.place][1][0]
            texts.append((f"{term(terms[0], 2)} / sqrt({term(inner, 0)})", 2))
        else:
            texts.append(_spelled(function, terms, axis, term))
    return texts[-1][0]


def _number(value: float) -> tuple[str, int]:
    return number_text(value), 1 if value < 0 else 4


# The text of a function, how tightly each operand has to bind, and how tightly the whole does.
SIGNS: Final[Mapping[str, tuple[str, tuple[int, ...], int]]] = {
    "add": ("{} + {}", (1, 2), 1),
    "sub": ("{} - {}", (1, 2), 1),
    "mul": ("{}*{}", (2, 3), 2),
    "div": ("{}/{}", (2, 3), 2),
    "pow": ("{}^{}", (4, 4), 3),
    "neg": ("-{}", (3,), 1),
    "rsqrt": ("1/sqrt({})", (0,), 2),
    "maximum": ("max({}, {})", (0, 0), 4),
    "minimum": ("min({}, {})", (0, 0), 4),
}


def _spelled(
    function: str, terms: tuple[Term, ...], axis: str, say: Callable[[Term, int], str]
) -> tuple[str, int]:
    along = f"[{axis}]" if function in REDUCTIONS else ""
    text, least, binds = SIGNS.get(function, (f"{function}{along}({{}})", (0,), 4))
    return text.format(*map(say, terms, least)), binds
