"""The work of turning aten calls into steps of the legend: what all rules share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from xg.ir.dim import Dim, number
from xg_torch.importing.errors import OTHER_TABLE, Unspeakable
from xg_torch.importing.exported import Argument, AtenCall, Exported, Ref
from xg_torch.importing.fixed import (
    Blank,
    BlankPart,
    Chosen,
    Fixed,
    FixedPart,
    Formula,
    FormulaPart,
    Known,
    Lost,
    Mask,
    Operand,
    Routed,
    Term,
    TurnedCoordinate,
    Turning,
)
from xg_torch.importing.views import (
    Arrangement,
    Axis,
    Factor,
    ModelStep,
    ModelValue,
    Size,
    SizeClasses,
    View,
    Weight,
    align,
    factor_pairs,
)

# Arithmetic for which the legend has no node: gathered, and then defined as an operator.
#
# ``x * rsqrt(mean(x^2) + eps) * g`` is six aten calls and one node of a figure: an ``op`` of the
# file, whose expression is the arithmetic itself.


INTEGERS: Final = "it computes with integers of an input, which only index or hide"
REDUCTIONS: Final = ("mean", "sum", "max", "min", "largest", "least")


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
            if operand.value.kind == "int":
                raise Unspeakable(INTEGERS)
            terms.append(Operand(_place(operand, views)))
        else:
            assert isinstance(operand, int | float)
            terms.append(float(operand))
    parts.append((function, tuple(terms)))
    wide = [not reduced[term.place] for term in terms if isinstance(term, FormulaPart)]
    wide += [True for term in terms if isinstance(term, Operand)]
    reduced.append(function in REDUCTIONS or not any(wide))
    return Formula(tuple(views), tuple(parts), tuple(reduced))


def choose(truth: Formula, yes: Known | float, no: Known | float) -> Formula:
    """``select(a > b, yes, no)``, where a truth value is ``select(a > b, 1, 0)``."""
    function, terms = truth.parts[-1]
    if function not in COMPARED or terms[2:] not in ((1.0, 0.0), (0.0, 1.0)):
        return combine("select", truth, 0.5, yes, no)
    a, b = (_part(truth, term) for term in terms[:2])
    return combine(function, a, b, *((yes, no) if terms[2] else (no, yes)))


def _part(formula: Formula, term: Term) -> Known | float:
    """A term of a formula by itself."""
    match term:
        case Operand(place):
            return formula.operands[place]
        case FormulaPart(place):
            end = place + 1
            return Formula(formula.operands, formula.parts[:end], formula.reduced[:end])
        case _:
            return term


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
    if abs(value) < 1e15 and value == int(value):
        return str(int(value))
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa}{e}{int(exponent)}" if e else mantissa


def spell(parts: Sequence[tuple[str, tuple[Term, ...]]], names: Sequence[str], axis: str) -> str:
    """A formula in the words of the language; parts are bound by their signs.

    A part that a choice reads again has a letter: ``select(s > 0, sqrt(s), s) where s = ...``.
    """
    letters = (letter for letter in "stpqrabcde" if letter not in names)
    repeated, bound = _repeated(parts), list[str]()
    texts: list[tuple[str, int]] = []  # text, and how tightly it binds: 1 sum, 2 product, 4 atom

    def term(item: Term, least: int) -> str:
        if isinstance(item, Operand):
            return names[item.place]
        text, binds = (
            texts[item.place]
            if isinstance(item, FormulaPart)
            else (number_text(item), 1 if item < 0 else 4)
        )
        return text if binds >= least else f"({text})"

    for place, (function, terms) in enumerate(parts):
        last = terms[-1]
        if function == "mul" and isinstance(last, FormulaPart) and parts[last.place][0] == "rsqrt":
            inner = parts[last.place][1][0]
            texts.append((f"{term(terms[0], 2)} / sqrt({term(inner, 0)})", 2))
        else:
            texts.append(_function_text(function, terms, axis, term))
        letter = next(letters, None) if place in repeated else None
        if letter is not None:
            bound.append(f"{letter} = {texts[-1][0]}")
            texts[-1] = (letter, 4)
    return texts[-1][0] + (f"\n    where {', '.join(bound)}" if bound else "")


def _repeated(parts: Sequence[tuple[str, tuple[Term, ...]]]) -> set[int]:
    """The places of parts that a choice reads, and that are written more than once."""
    counts, chosen = Counter[int](), set[int]()
    for function, terms in parts:
        places = [term.place for term in terms if isinstance(term, FormulaPart)]
        counts.update(places * SIGNS.get(function, ("", (), 0))[0].count("{0}") or places)
        if function in CHOICES:
            chosen.update(places)
    return {place for place in chosen if counts[place] > 1}


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
    "select": ("select({} > {}, {}, {})", (1, 1, 0, 0), 4),
    "select_at_least": ("select({} >= {}, {}, {})", (1, 1, 0, 0), 4),
    "select_equal": ("select(equal({}, {}), {}, {})", (0, 0, 0, 0), 4),
    # With the gradients of torch: 0 for the root of 0, all of it for the first of equal numbers.
    "root": ("select({0} > 0, sqrt({0}), {0})", (1,), 4),
    "largest": ("sum[{axis}](select(equal(range[{axis}], argmax[{axis}]({0})), {0}, 0))", (0,), 4),
    "least": ("sum[{axis}](select(equal(range[{axis}], argmax[{axis}](-{0})), {0}, 0))", (3,), 4),
}

COMPARED: Final = ("select", "select_at_least", "select_equal")  # one number with another
CHOICES: Final = (*COMPARED, "root", "largest", "least")


def _function_text(
    function: str, terms: tuple[Term, ...], axis: str, say: Callable[[Term, int], str]
) -> tuple[str, int]:
    along = f"[{axis}]" if function in REDUCTIONS else ""
    text, least, binds = SIGNS.get(function, (f"{function}{along}({{}})", (0,), 4))
    return text.format(*map(say, terms, least), axis=axis), binds


LAYOUT: Final = frozenset({"R", "T", "BC", "slice", "pick"})


class Dependent(Exception):
    """A call that reads what was lost: its own message would only repeat the first."""


class Lowering:
    """Steps so far, and what is known of every tensor by its name in the model."""

    def __init__(
        self,
        exported: Exported,
        whole: frozenset[str],
        define_op: Callable[[Lowering, Formula], View],
    ) -> None:
        self.exported = exported
        self.define_op = define_op  # makes a step of gathered arithmetic
        self.whole = whole  # fused weights that are used as one
        self.sizes = SizeClasses()
        self.fixed = FixedPart(exported.limits)
        self.known: dict[str, Known] = {}
        self.steps: list[ModelStep] = []
        self.producer: dict[ModelValue, ModelStep] = {}
        self.weights: dict[ModelValue, Weight] = {}
        self.tables: dict[str, str] = {}  # float constants, and their names
        self.buffers: dict[str, str] = {}  # saved ones by their constants: names in the model
        self.joined: dict[ModelValue, tuple[View, ...]] = {}  # what was put together, as seen
        self.laid_out: dict[ModelValue, View] = {}  # numbers of pairs, before they were
        self.ranges: dict[ModelValue, Size] = {}
        self.turned: frozenset[str] = frozenset()  # weights that only linear layers read
        self.call: AtenCall = AtenCall("", {}, (), ())
        self.notes: dict[str, None] = {}  # differences of the diagram from the model
        self.rounded = False  # a table in float32 was recognized
        self.time = 0  # of the call that is read now
        self.origins: dict[Formula, tuple[AtenCall, int]] = {}  # where arithmetic was written
        self._times: dict[ModelStep, int] = {}
        self._defined: dict[Formula, View] = {}
        self._params: dict[Weight, ModelValue] = {}
        self._arrangements: dict[tuple[str, ModelValue, Arrangement, str], ModelValue] = {}

    # ---- arguments of the call ------------------------------------------------------------------

    def argument(self, name: str, default: Argument = None) -> Argument:
        """An argument of the call that is read now."""
        return self.call.args.get(name, default)

    def known_of(self, name: str) -> Known:
        """The facts about a tensor argument."""
        return self.look(self.argument(name))

    def maybe_known(self, name: str) -> Known | None:
        """The facts about a tensor argument that may be left out."""
        return self.known_of(name) if self.argument(name) is not None else None

    def look(self, argument: Argument) -> Known:
        """The facts about a tensor."""
        if not isinstance(argument, Ref):
            raise Unspeakable("one of its operands is no tensor")
        formula = self.known.get(argument.name, Lost())
        if isinstance(formula, Lost):
            raise Dependent
        if isinstance(formula, Formula) and _goes_in(self, formula):
            formula = self.known[argument.name] = self._define_formula(formula)
        return formula

    def view_of(self, name: str) -> View:
        """A tensor argument as a view."""
        return self.view(self.known_of(name))

    def view(self, known: Known) -> View:
        """A view, also of a value that was not written yet."""
        if isinstance(known, View):
            return known
        if isinstance(known, Formula):
            return self._define_formula(known)
        table = (
            self.tables.get(self.fixed.cast_from(known.name)) if isinstance(known, Fixed) else None
        )
        if table is not None:  # a frozen parameter, whatever its numbers are
            return View.of(self.weight(Weight(table, frozen=True)))
        raise _no_number(known)

    def _define_formula(self, formula: Formula) -> View:
        """Arithmetic as a step, in the place where it was written, and only once."""
        if formula not in self._defined:
            here = self.call, self.time
            self.call, self.time = self.origins.get(formula, here)
            try:
                self._defined[formula] = self.define_op(self, formula)
            finally:
                self.call, self.time = here
        return self._defined[formula]

    def in_order(self) -> list[ModelStep]:
        """The steps in the order of the calls that they are from."""
        return sorted(self.steps, key=lambda step: self._times[step])

    def number_of(self, name: str, default: float | None = None) -> float:
        """A plain number among the arguments."""
        argument = self.argument(name, default)
        if isinstance(argument, bool) or not isinstance(argument, int | float):
            raise Unspeakable(f"its {name} is not a plain number")
        return argument

    def integer_of(self, name: str, default: int | None = None) -> int:
        """An integer among the arguments, such as the place of an axis."""
        argument = self.argument(name, default)
        if isinstance(argument, bool) or not isinstance(argument, int):
            raise Unspeakable(f"its {name} is not a plain integer")
        return argument

    def shape_of_output(self, place: int = 0) -> tuple[Dim, ...]:
        """The shape that torch found for a result."""
        return self.shape(self.call.outputs[place])

    def shape(self, name: str) -> tuple[Dim, ...]:
        """The shape of a tensor by its name."""
        dims = self.exported.metas[name].shape
        if dims is None:
            raise Unspeakable("its size depends on more than products and sums of sizes")
        return dims

    # ---- steps ----------------------------------------------------------------------------------

    def emit(
        self,
        operator: str,
        data: Sequence[ModelValue],
        axes: Sequence[Size | None],
        *,
        own: Sequence[ModelValue] = (),
        also: Sequence[ModelValue] = (),
        kind: Literal["float", "int"] = "float",
        **attrs: Any,  # noqa: ANN401 - the writer knows what each operator has
    ) -> ModelValue:
        """Add a step; its first result, beside others that are made already."""
        value = ModelValue(tuple(axes), kind)
        step = ModelStep(operator, tuple(data), (value, *also), self.call.stack, tuple(own), attrs)
        self.steps.append(step)
        self._times[step] = self.time
        self.producer |= dict.fromkeys(step.outputs, step)
        return value

    def keep(self, operator: str, view: View, **attrs: Any) -> View:  # noqa: ANN401 - as in emit
        """A step that keeps the shape of its one operand, in any layout."""
        return view.on(self.emit(operator, (view.value,), view.value.axes, **attrs))

    def made_by(self, known: Known, operator: str) -> ModelStep | None:
        """The step that made a view, if it is one of this operator."""
        step = self.producer.get(known.value) if isinstance(known, View) else None
        return step if step is not None and step.operator == operator else None

    # ---- parameters -----------------------------------------------------------------------------

    def weight(self, weight: Weight) -> ModelValue:
        """The parameter that a tensor of the model, or a part of it, becomes."""
        if weight not in self._params:
            shape = list(self.exported.arrays[weight.source].shape)
            if weight.start is not None and weight.stop is not None:
                shape[weight.axis] = weight.stop - weight.start
            axes = [self.sizes.make(number(n)) if n != 1 else None for n in weight.laid_out(shape)]
            value = ModelValue(
                tuple(weight.swap_last_axes(axes) if weight.transposed else axes),
                param=weight.source,
            )
            self._params[weight] = value
            self.weights[value] = weight
        return self._params[weight]

    # ---- layouts --------------------------------------------------------------------------------

    def join(self, axis: Axis) -> Size | None:
        """The size of an axis; None is 1."""
        return self.sizes.join([factor.size for factor in axis]) if axis else None

    def lay_out(self, view: View, axes: Sequence[Axis]) -> ModelValue:
        """A value whose axes are these groups of the view's factors: by T, R or BC if needed."""
        axes = tuple(axes)
        if view.base == axes:
            return view.value
        new = {factor for axis in axes for factor in axis} - {f for axis in view.base for f in axis}
        if not new:
            permuted = sorted(map(_keys, view.base)) == sorted(map(_keys, axes))
            return self._emit_arrangement("T" if permuted else "R", view.value, view.base, axes)
        factors = tuple((factor,) for axis in axes for factor in axis if factor not in new)
        value = view.value
        if factors != view.base:
            permuted = sorted(map(_keys, view.base)) == sorted(map(_keys, factors))
            value = self._emit_arrangement("T" if permuted else "R", value, view.base, factors)
        return self._emit_arrangement("BC", value, factors, axes)

    def _emit_arrangement(
        self, operator: str, value: ModelValue, source: Sequence[Axis], target: Sequence[Axis]
    ) -> ModelValue:
        source, target = _merge_factors(source, target, self.sizes)
        factors = list(dict.fromkeys(factor for axis in (*source, *target) for factor in axis))
        places = {factor: place for place, factor in enumerate(factors)}
        arrangement = Arrangement(
            tuple(tuple(places[factor] for factor in axis) for axis in source),
            tuple(tuple(places[factor] for factor in axis) for axis in target),
            tuple(self.sizes.find(factor.size) for factor in factors),
        )
        inside = self.call.stack[-1].key if self.call.stack else ""
        key = (operator, value, arrangement, inside)
        earlier = self._arrangements.get(key)
        if earlier is None or self._times[self.producer[earlier]] > self.time:
            axes = [self.join(axis) for axis in target]
            self._arrangements[key] = self.emit(
                operator, (value,), axes, kind=value.kind, arrangement=arrangement
            )
        return self._arrangements[key]

    def materialize(self, view: View) -> View:
        """The value laid out as it is seen."""
        value = self.lay_out(view, view.axes)
        return View(value, view.axes, view.axes)

    def isolate_last_axis(self, view: View) -> View:
        """A view whose last axis is the last axis of its value; other axes may stay."""
        if not view.axes:
            raise Unspeakable("it has no axis")
        if not view.axes[-1] and not view.repeats and view.base[-1:] != ((),):
            base = (*view.base, ())
            return View(self.lay_out(view, base), base, view.axes)
        if view.axes[-1] == view.base[-1] and not view.repeats:
            return view
        last = set(view.axes[-1])
        repeats = [factor for axis in view.axes for factor in axis if factor in view.repeats]
        front: list[Axis] = [(factor,) for factor in repeats if factor not in last]
        for axis in view.base:
            rest = tuple(factor for factor in axis if factor not in last)
            if rest:
                front.append(rest)
        axes = (*front, view.axes[-1])
        return View(self.lay_out(view, axes), axes, view.axes)

    def broadcast_together(self, main: View, other: View) -> tuple[View, ModelValue]:
        """Two views broadcast to each other: the first as it is, the second laid out like it."""
        main, other = align(main, other, self.sizes)
        if main.repeats:
            main = self.materialize(main)
        pairs = factor_pairs(main, other)
        axes = tuple(tuple(pairs[factor] for factor in axis) for axis in main.base)
        return main, self.lay_out(other, axes)

    def set_range(self, value: ModelValue, size: Size) -> None:
        """Say what integers index, back to the input that they come from."""
        while value in self.producer and self.producer[value].operator in (*LAYOUT, "not"):
            value = self.producer[value].data[0]
        if value in self.ranges:
            if self.sizes.dim(self.ranges[value]) != self.sizes.dim(size):
                raise Unspeakable("the same integers index axes of two sizes")
            self.sizes.equal(self.ranges[value], size)
        self.ranges.setdefault(value, size)


def _no_number(known: Known) -> Unspeakable:
    """The reason why something is no tensor of numbers that a step could read."""
    match known:
        case Mask():
            return Unspeakable("a mask is used as a number")
        case Chosen():
            return Unspeakable("it computes with which were chosen")
        case Routed():
            return Unspeakable("it reads what single experts give, before they are added up")
        case Blank() | BlankPart():
            return Unspeakable("it reads a tensor of which not all numbers were written")
        case Turning() | TurnedCoordinate():
            return Unspeakable(OTHER_TABLE)
        case _:
            return Unspeakable(
                "it needs a table of constants, which the language has no place for",
                "make it a parameter, or compute it from positions",
            )


def _goes_in(lowering: Lowering, formula: Formula) -> bool:
    """Whether arithmetic that was written around a module goes into it: as an edge."""
    wide = any(not is_narrow(view) for view in formula.operands)
    outer = lowering.origins[formula][0].stack if formula in lowering.origins else ()
    inner = lowering.call.stack
    return wide and len(inner) > len(outer) and inner[: len(outer)] == outer


def _merge_factors(
    source: Sequence[Axis], target: Sequence[Axis], sizes: SizeClasses
) -> tuple[Sequence[Axis], Sequence[Axis]]:
    """Factors that stay side by side are one."""
    axes = [*source, *target]
    for first in {factor: None for axis in axes for factor in axis}:
        while True:
            behind = {axis[axis.index(first) + 1 :][:1] for axis in axes if first in axis}
            pair = next(iter(behind), ())
            if len(behind) != 1 or not pair:
                break
            before = {axis[: axis.index(pair[0])][-1:] for axis in axes if pair[0] in axis}
            if before != {(first,)}:
                break
            one = Factor(sizes.join([first.size, pair[0].size]), first.key)
            axes = [tuple(one if f == first else f for f in axis if f != pair[0]) for axis in axes]
            first = one
    return axes[: len(source)], axes[len(source) :]


def _keys(axis: Axis) -> tuple[int, ...]:
    return tuple(factor.key for factor in axis)
