"""Scaled dot-product attention, ``• SM S DO •``, at once (Dao et al. 2022: FlashAttention).

Between the passes it keeps one number per query, the logarithm of the sum of exponentials, and
computes the weights again from it, instead of keeping a weight for each pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, topological
from xg.ir.content import prune
from xg.ir.dim import ONE, ZERO, Dim, Scalar, as_scalar, size
from xg.ir.functions import exp, log
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.op import Op
from xg.ir.prim import (
    Cuts,
    Expr,
    binary,
    contract,
    dropout_apply,
    dropout_keep,
    equal,
    integer,
    iota,
    reduce_max,
    reduce_sum,
    reshape,
    where,
)
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Attrs, Data, Number, Word

# Replace a pattern of steps by the operator that computes them at once.
#
# A fused operator is an `Op` like any other, with a body and a gradient, so the interpreter runs it
# and every backend can spell it. It is no word of the language: no figure shows it.


@dataclass(frozen=True, slots=True)
class Inside:
    """The questions of a pattern about a block: who makes a value, and how many steps read it."""

    types: Mapping[Value, TensorType]
    makers: Mapping[Value, Apply]
    reads: Mapping[Value, int]

    @classmethod
    def of(cls, graph: Graph) -> Inside:
        """Collect the types, makers and read counts of a graph."""
        reads = Counter(value for step in graph.steps for value in step.inputs)
        reads.update(graph.outputs)
        reads.update(state.next for state in graph.states)
        steps = [step for step in graph.steps if not isinstance(step, Call)]
        return cls(
            graph.types,
            {step.outputs[0]: step for step in steps if step.outputs[0] not in graph.outputs},
            reads,
        )

    def maker(self, value: Value, *glyphs: str, readers: int = 1) -> Apply | None:
        """Return the maker of a value that is read `readers` times, if its glyph is given."""
        step = self.makers.get(value)
        alone = self.reads.get(value) == readers
        return step if step is not None and alone and step.op.glyph in glyphs else None


@dataclass(frozen=True, slots=True)
class Match:
    """Steps that one fused step replaces, in order: its operands, attributes, and place.

    A `turned` operand is the transpose of the value given for it.
    """

    steps: tuple[Apply, ...]
    inputs: tuple[Value, ...]
    attrs: Attrs
    place: str = ""
    turned: frozenset[Value] = field(default_factory=frozenset[Value])


@dataclass(frozen=True, slots=True)
class Fusion:
    """An operator, the glyph that its pattern ends with, and what recognizes the rest.

    A pattern that may end with any operator names no glyph.
    """

    op: Op
    ends: str
    match: Callable[[Apply, Inside], Match | None]


# One pattern of a graph, replaced wherever it is by the operator that computes it at once.


Types = dict[Value, TensorType]


def apply_fusion(graph: Graph, fusion: Fusion) -> Graph:
    """A graph with every match of a fusion replaced."""
    inside = Inside.of(graph)
    replacing = _Replacing(graph, fusion.op)
    for step in reversed(graph.steps):
        if isinstance(step, Apply) and fusion.ends in ("", step.op.glyph):
            match = fusion.match(step, inside)
            if match and not replacing.gone.intersection(match.steps):
                replacing.add(match)
    return replacing.graph()


@dataclass(slots=True)
class _Replacing:
    """One graph while its matches of one fusion are replaced."""

    source: Graph
    op: Op
    gone: set[Apply] = field(default_factory=set[Apply])
    new: dict[Apply, tuple[Apply, ...]] = field(default_factory=dict[Apply, tuple[Apply, ...]])
    types: Types = field(default_factory=dict[Value, TensorType])

    def add(self, found: Match) -> None:
        """Note a match: its last step gives way to the fused one, the others to nothing."""
        last = found.steps[-1]
        turns = {
            value: self._transpose_step(value, last)
            for value in found.inputs
            if value in found.turned
        }
        inputs = tuple(
            turns[value].outputs[0] if value in turns else value for value in found.inputs
        )
        step = Apply(self.op, inputs, (), found.attrs, last.span, found.place, parts=found.steps)
        self.gone.update(found.steps)
        self.new[last] = (*turns.values(), replace(step, outputs=self._outputs(step, last)))

    def _outputs(self, step: Apply, last: Apply) -> tuple[Value, ...]:
        """The output of the pattern's last step, and caches of the fused one's own."""
        types: Mapping[Value, TensorType] = {**self.source.types, **self.types}
        body = step.body(types)
        first = len(body.outputs) - len(body.caches)
        caches = tuple(Value(name, "cache", last.span) for name in body.caches)
        self.types.update(
            (value, TensorType(out.shape))
            for value, out in zip(caches, body.outputs[first:], strict=True)
        )
        return (last.outputs[0], *caches)

    def _transpose_step(self, value: Value, last: Apply) -> Apply:
        """A step that transposes the last two axes of a value."""
        shape = self.source.types[value].shape
        front = tuple(range(len(shape) - 2))
        order = (*front, len(shape) - 1, len(shape) - 2)
        turned = Value(None, "edge", last.span)
        self.types[turned] = TensorType((*shape[:-2], shape[-1], shape[-2]))
        return Apply(ops.table()["T"], (value,), (turned,), {"order": order}, last.span)

    def graph(self) -> Graph:
        """The graph with the replacements made."""
        if not self.new:
            return self.source
        steps: list[Apply | Call] = []
        for step in self.source.steps:
            if isinstance(step, Apply) and step in self.gone:
                steps += self.new.get(step, ())
            else:
                steps.append(step)
        types = {**self.source.types, **self.types}
        return prune(replace(self.source, steps=tuple(steps), types=types))


# The band of keys that a query sees, read from an operator that hides scores by position.
#
# ``op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf)`` is recognized by what it
# compares, not by its name: sums of positions and whole numbers.


@dataclass(frozen=True, slots=True)
class Band:
    """Query i sees the keys from i - `behind` to i + `ahead`; None is no bound.

    The last query is at the last key.
    """

    behind: Dim | None = None
    ahead: Dim | None = None

    def intersect(self, other: Band) -> Band | None:
        """The keys in both; None where it depends on sizes which bound is the closer one."""
        behind, ahead = _closer(self.behind, other.behind), _closer(self.ahead, other.ahead)
        return None if behind is None or ahead is None else Band(*behind, *ahead)

    def holds(self, query: Expr, key: Expr) -> Expr:
        """Return whether each query position sees each key position; there is a bound."""
        seen: list[Expr] = []
        if self.ahead is not None:
            seen.append(binary("ge", _plus(query, self.ahead), key))
        if self.behind is not None:
            seen.append(binary("ge", _plus(key, self.behind), query))
        return seen[0] if len(seen) == 1 else binary("and", *seen)


def _plus(position: Expr, further: Dim) -> Expr:
    return position if further == ZERO else position + integer(size(further))


CAUSAL: Final = Band(None, ZERO)


def _closer(first: Dim | None, second: Dim | None) -> tuple[Dim | None] | None:
    if first is None or second is None or first == second:
        return (second if first is None else first,)
    if first.constant is None or second.constant is None:
        return None
    return (min(first, second, key=lambda bound: bound.constant or 0),)


def band_of(body: Body) -> Band | None:
    """The band where the body gives its one operand, if it gives -inf everywhere else."""
    if len(body.operands) != 1 or len(body.outputs) != 1 or body.outputs[0].prim != "where":
        return None
    (operand,), (chosen,) = body.operands, body.outputs
    condition, yes, no = chosen.args
    holds = yes is operand
    if operand.rank < 2 or chosen.shape != operand.shape or not _hides(no if holds else yes):
        return None
    if not holds and no is not operand:
        return None
    return _band(condition, operand.shape, holds=holds)


def _hides(expr: Expr) -> bool:
    value = expr.attr("value") if expr.prim == "const" else None
    return isinstance(value, Scalar) and value.constant == float("-inf")


@dataclass(frozen=True, slots=True)
class _Line:
    """A linear expression: `query` times a query's position, `key` times a key's, plus `rest`."""

    query: int
    key: int
    rest: Dim

    def __add__(self, other: _Line) -> _Line:
        return _Line(self.query + other.query, self.key + other.key, self.rest + other.rest)

    def __neg__(self) -> _Line:
        return _Line(-self.query, -self.key, ZERO - self.rest)

    def at_least_zero(self, scores: Shape, *, strict: bool) -> Band | None:
        """The band where this is at least 0, or more than that if `strict`."""
        queries, keys = scores[-2:]
        rest = self.rest - ONE if strict else self.rest
        if (self.query, self.key) == (1, -1):
            return Band(None, rest - (keys - queries))
        if (self.query, self.key) == (-1, 1):
            return Band(rest + (keys - queries), None)
        return None


Lines = tuple[_Line, ...]  # a number that is the largest of these; none for any other number


def _band(condition: Expr, scores: Shape, *, holds: bool) -> Band | None:
    """The band where all comparisons hold, or where none does."""
    known: dict[int, Lines] = {}
    for expr in topological([condition]):
        known[id(expr)] = _lines(expr, [known[id(arg)] for arg in expr.args])
    found, waiting = Band(), [condition]
    while waiting:
        expr = waiting.pop()
        if expr.prim == ("and" if holds else "or"):
            waiting += expr.args
            continue
        if expr.prim not in ("gt", "ge"):
            return None
        sides = [known[id(arg)] for arg in expr.args]
        larger, smaller = sides if holds else sides[::-1]
        if len(larger) != 1 or not smaller:
            return None
        for line in smaller:
            strict = (expr.prim == "gt") == holds
            bound = (larger[0] + -line).at_least_zero(scores, strict=strict)
            both = bound and found.intersect(bound)
            if both is None:
                return None
            found = both
    return found


def _lines(expr: Expr, args: Sequence[Lines]) -> Lines:
    match expr.prim, args:
        case "const", _:
            value = expr.attr("value")
            if not isinstance(value, Scalar) or not value.is_integral:
                return ()
            return (_Line(0, 0, value.as_dim()),)
        case "iota", _:
            return _position_lines(expr, -1)
        case "reshape", _:
            (arg,) = expr.args
            is_range = arg.prim == "iota" and expr.shape[0] == arg.shape[0]
            return _position_lines(arg, -expr.rank) if is_range else ()
        case "as_float" | "broadcast", (lines,):
            return lines
        case "neg", ((line,),):
            return (-line,)
        case "add", ((left,), (right,)):
            return (left + right,)
        case "sub", ((left,), (right,)):
            return (left + -right,)
        case "maximum", (left, right) if left and right:
            return tuple(dict.fromkeys((*left, *right)))
        case _:
            return ()


def _position_lines(positions: Expr, axis: int) -> Lines:
    """Positions along the axis of queries or of keys."""
    start = positions.attr("start")
    if axis not in (-2, -1) or not isinstance(start, Dim):
        return ()
    return (_Line(int(axis == -2), int(axis == -1), start),)


LEADING: Final = "ABCDEFGH"  # letters of the axes in front, which all operands share


def forward(
    q: Expr,
    k: Expr,
    v: Expr,
    m: Expr | None,
    *,
    scale: Scalar,
    mask: str,
    p: Scalar | None = None,
    scaling: str = "scaled",
    cuts: Cuts = (),
    band: Band | None = None,
) -> tuple[Expr, dict[str, Expr]]:
    """``softmax(α q k⊤ + M) v``; a query that sees no key gets zeros."""
    z = _scores(q, k, m, scale, mask, band)
    peak = reduce_max(z).named("peak")
    safe = where(peak > float("-inf"), peak, 0.0).named("safe")
    e = exp(z - safe).named("e")
    total = reduce_sum(e).named("total")
    some = where(equal(total, 0.0), 1.0, total).named("some")
    lse = (safe + log(some)).named("lse")
    weights = (e / some).named("weights")
    if p is None:
        return contract(weights, v, _spec("ij,jd->id", v)), {"lse": lse}
    keep = dropout_keep(weights, p, cuts).named("keep")
    expression = dropout_apply(weights, keep, p, scaled=scaling == "scaled")
    return contract(expression, v, _spec("ij,jd->id", v)), {"lse": lse, "keep": keep}


def adjoint(
    dy: Expr,
    q: Expr,
    k: Expr,
    v: Expr,
    m: Expr | None,
    y: Expr,
    lse: Expr,
    keep: Expr | None,
    *,
    scale: Scalar,
    mask: str,
    p: Scalar | None,
    scaling: str,
    band: Band | None = None,
) -> tuple[Expr, ...]:
    """Compute the weights again from `lse`: ``exp(Z - lse)`` is 0 where masked, as is its gradient.

    ``Σ_j dP P`` is ``dY · Y``, which needs no pairs.
    """
    weights = exp(_scores(q, k, m, scale, mask, band) - lse).named("weights")
    dweights = contract(dy, v, _spec("id,jd->ij", v))
    expression = weights
    if keep is not None and p is not None:
        expression = dropout_apply(weights, keep, p, scaled=scaling == "scaled").named("kept")
        dweights = dropout_apply(dweights, keep, p, scaled=scaling == "scaled")
    dz = ((dweights - reduce_sum(dy * y)) * weights * scale).named("dz")
    return (
        contract(dz, k, _spec("ij,jd->id", v)),
        contract(dz, q, _spec("ij,id->jd", v)),
        contract(expression, dy, _spec("ij,id->jd", v)),
    )


def _scores(q: Expr, k: Expr, m: Expr | None, scale: Scalar, mask: str, band: Band | None) -> Expr:
    z = contract(q, k, _spec("id,jd->ij", q))
    z = z if scale == as_scalar(1.0) else z * scale
    shown = z if m is None else where(m > 0.0, z, float("-inf"))
    if mask == "none" and band is None:
        return shown
    queries, keys = z.shape[-2:]
    last, key = reshape(iota(queries, keys - queries), (queries, ONE)), iota(keys)
    visible = last >= key if band is None else band.holds(last, key)
    return where(visible.named("visible"), shown, float("-inf"))


def _spec(spec: str, like: Expr) -> str:
    """The same product for each of the leading axes."""
    leading = LEADING[: like.rank - 2]
    inputs, out = spec.split("->")
    return ",".join(leading + part for part in inputs.split(",")) + f"->{leading}{out}"


# ---- the pattern --------------------------------------------------------------------------------


def match(last: Apply, inside: Inside) -> Match | None:
    """From the product with the values back to the product with the keys."""
    weights = last.inputs[0]
    drop = inside.maker(weights, "DO")
    soft = inside.maker(drop.inputs[0] if drop else weights, "S")
    if soft is None or "axis" in soft.attrs:
        return None
    masked = inside.maker(soft.inputs[0], "SM")
    if masked and "axes" in masked.attrs:
        return None
    attrs = {**of_mask(masked), "mask": masked.attrs["mask"] if masked else "none"}
    if drop:
        attrs |= {name: drop.attrs[name] for name in ("p", "scaling")}
    found = between_products(last, inside, (masked, soft, drop), attrs)
    if found is None or masked is None:
        return found
    return replace(found, inputs=(*found.inputs, *masked.inputs[1:]))


def of_mask(masked: Apply | None) -> dict[str, Any]:
    """The scale of scores, and which masks there are not."""
    if masked is None:
        return {"scale": as_scalar(1.0), "absent": ("m",)}
    return {"scale": masked.attrs["scale"], "absent": masked.attrs.get("absent", ())}


def between_products(
    last: Apply, inside: Inside, steps: Sequence[Apply | None], attrs: Attrs
) -> Match | None:
    """Return the match of the steps, some absent, with the products before and after them."""
    between = [step for step in steps if step is not None]
    scores = inside.maker(between[0].inputs[0], "•")
    if scores is None or not _same_leading(scores) or not _same_leading(last):
        return None
    q, keys = scores.inputs
    turn = inside.maker(keys, "T")
    straight = turn is not None and _swaps_last(turn)
    drop = between[-1] if between[-1].op.glyph == "DO" else None
    return Match(
        steps=(*([turn] if turn and straight else []), scores, *between, last),
        inputs=(q, turn.inputs[0] if turn and straight else keys, last.inputs[1]),
        attrs=attrs,
        place=drop.place if drop else last.place,
        turned=frozenset() if straight else frozenset({keys}),
    )


def _same_leading(product: Apply) -> bool:
    """Whether both operands of a product have all leading axes, and some."""
    first, second = str(product.attrs["spec"]).split("->")[0].split(",")
    return first[:-2] == second[:-2]


def _swaps_last(turn: Apply) -> bool:
    order: tuple[int, ...] = turn.attrs["order"]
    identity = tuple(range(len(order)))
    return order == (*identity[:-2], identity[-1], identity[-2])


OP: Final = Op(
    glyph="Attention",
    name="attention",
    family="nonlinear",
    data=(Data("q"), Data("k"), Data("v"), Data("m", "int", optional=True)),
    own=(
        Number("scale", 1.0),
        Word("mask", ("none", "causal")),
        Number("p", optional=True),
        Word("scaling", ("scaled", "unscaled")),
    ),
    forward=forward,
    adjoint=adjoint,
    meaning="a mean of values, weighted by the softmax of scaled and masked scores",
    formula="Y = softmax(α Q K⊤ + M) V",
    gradient="dV = P⊤ dY, dZ = (dY V⊤ - Σ dY ⊙ Y) ⊙ P, dQ = α dZ K, dK = α dZ⊤ Q",
    source="seed 001, 4.3.4 and 4.3.5; Dao et al. 2022",
)
FUSION: Final = Fusion(OP, "•", match)
