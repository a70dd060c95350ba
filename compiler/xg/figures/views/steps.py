"""Draw the steps of a graph as glyphs: the kind of node, its arrows, the text in its box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model import richtext
from xg.figures.model.figure import EdgeStyle, Figure, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun
from xg.figures.views.notation import Notation, kind
from xg.figures.views.sketch import collective_axis, mesh_axes
from xg.ir.dim import ONE, ZERO, Dim, as_scalar, product
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import collective
from xg.ir.placement import ROUNDS, Plan
from xg.ir.use import Attrs, Length, Number, Tensor, Word

# Masks that a block puts on scores itself: its box says them, as they change its meaning.


def with_masks(title: str, steps: Iterable[Step]) -> str:
    """Return a block's title with the masks of some steps: `Multi-Head Attention, causal`.

    A mask that the title has already is not repeated.
    """
    words = dict.fromkeys(_masks(steps))
    return ", ".join((title, *(word for word in words if word not in title.casefold())))


def _masks(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        mask = step.attrs.get("mask") if isinstance(step, Apply) else None
        if isinstance(mask, str) and mask != "none":
            yield mask


# The arguments of an operator's use that its box says: what a file writes in parentheses.


_ROUNDING: Final = ("eps",)  # arguments that are about rounding only


def arguments(step: Apply, notation: Notation) -> RichText:
    """Return the arguments of a use that are no defaults; one that may be missing has its name.

    A gradient has those of the operator that it differentiates.
    """
    if step.origin and step.op.name.startswith("gradient of "):
        step = step.origin
    if "reduction" in step.attrs:
        return _reduction_text(step, notation)
    texts = dict(_lengths(step, notation))
    for own in step.op.own:
        value = step.attrs.get(own.name)
        if isinstance(own, Number) and value is not None and own.name not in _ROUNDING:
            if own.default is None or value != as_scalar(own.default):
                texts[own.name] = richtext.number(str(value))
        elif isinstance(own, Word) and value not in (None, *own.choices[:1]):
            texts[own.name] = richtext.plain(str(value))
    found = [texts[own.name] for own in step.op.own if own.name in texts]
    return tuple(run for text in found for run in (*richtext.plain(", "), *text))[1:]


def _reduction_text(loss: Apply, notation: Notation) -> RichText:
    """Return ``mean over B·S``, or ``mean where w = 1`` of a loss whose targets may not all count.

    The number of targets is that of all ranks.
    """
    attrs, (y, t, *weights) = loss.attrs, loss.inputs
    runs = richtext.plain(str(attrs["reduction"]))
    counted = [(w, "w", "= 1") for w in weights]
    if attrs.get("ignore") is not None:
        counted.append((t, "t", f"≠ {attrs['ignore']}".replace("-", "−")))
    for place, (value, letter, words) in enumerate(counted):
        runs += richtext.plain(", " if place else " where ")
        runs += (*(notation.symbol(value) or richtext.symbol(letter)), *richtext.plain(f" {words}"))
    if not counted and attrs["reduction"] == "mean":
        count = str(attrs.get("count") or "") or _count(y, notation)
        runs += (*richtext.plain(" over "), *richtext.number(count)) if count else ()
    runs += richtext.plain(f", {attrs['form']}" if attrs.get("form") == "logits" else "")
    return runs


def _count(value: Value, notation: Notation) -> str:
    """Return the number of elements as the shape writes it; empty for a part of all ranks."""
    if notation.graph.placements:
        return ""
    shape = notation.graph.shape(value)
    factors = [str(dim) for dim in shape if dim != ONE]
    is_plain = all(factor.isidentifier() for factor in factors) and len(set(factors)) == len(
        factors
    )
    return "*".join(factors) if is_plain else str(product(shape))


def _lengths(step: Apply, notation: Notation) -> Iterator[tuple[str, RichText]]:
    """Yield the lengths of a use by name, and `causal` if only the start is padded."""
    held = _windows(step) if "behind" in step.attrs else _held(step.attrs)
    for own in step.op.own:
        length = held.get(own.name)
        if isinstance(own, Length) and isinstance(length, Dim):
            name = (*richtext.plain(own.name), StyledRun("=")) if _shows_name(own) else ()
            yield own.name, (*name, *richtext.number(notation.written(length)))
        elif isinstance(length, str):
            yield own.name, richtext.plain(length)


def _shows_name(own: Length) -> bool:
    return own.optional and own.name != "stop"


def _held(attrs: Attrs) -> dict[str, object]:
    """Return the lengths that a use has; range(n) begins at 0."""
    held = {name: length for name, length in attrs.items() if isinstance(length, Dim)}
    if "start" in held and "range" in held:
        held["stop"] = held["range"]
        held = {name: length for name, length in held.items() if (name, length) != ("start", ZERO)}
    return dict(held)


def _windows(step: Apply) -> dict[str, object]:
    """Return the numbers of windows as a file writes them; pools have several."""
    (_, _, width, stride, dilation, before), *_ = step.attrs["cuts"]
    behind, *_ = step.attrs["behind"]
    is_pool = step.op.family == "reduce" and any(own.name == "k" for own in step.op.own)
    usual = width if is_pool else ONE
    is_causal = before != behind
    given: dict[str, object] = {"k": width}
    given |= {"stride": stride} if stride != usual else {}
    given |= {"dilation": dilation} if dilation != ONE else {}
    given |= {"pad": before} if before != ZERO and not is_causal else {}
    given |= {"side": "causal"} if is_causal else {}
    groups = step.attrs.get("groups", ONE)
    return given | ({"groups": groups} if groups != ONE else {})


_SHORT: Final = 4  # characters of arguments that are beside the glyph
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and, for every step that it shows, the id of its node."""

    figure: Figure
    nodes: Mapping[Step, str]


@dataclass(slots=True)
class Ids:
    """Unique, stable ids: the second node that asks for W_Q becomes W_Q~2."""

    taken: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with a number."""
        count = self.taken.get(wanted, 0) + 1
        self.taken[wanted] = count
        return wanted if count == 1 else f"{wanted}~{count}"


def operand_style(step: Apply, place: int) -> EdgeStyle:
    """Return the arrow of an operand: the second one of a product is double."""
    double = kind(step.op) is NodeKind.MATMUL and place == 1
    return EdgeStyle.DOUBLE if double else EdgeStyle.SINGLE


def own_tensors(step: Apply) -> tuple[Value, ...]:
    """Return the operands that the node is made of: γ, β, a table."""
    own = {own.name for own in step.op.own if isinstance(own, Tensor)}
    names = step.op.operand_names(step.attrs)
    return tuple(value for name, value in zip(names, step.inputs, strict=True) if name in own)


def apply_node(step: Apply, node_id: str, notation: Notation, detail: RichText = ()) -> FigureNode:
    """Return the glyph of an operator's use, with its arguments and the axes that it works along.

    An argument of a few characters follows the glyph; a longer one, or several, are a line.
    """
    op, node_kind = step.op, kind(step.op)
    title = f"{op.words}: {op.formula}" if op.formula else op.words
    if node_kind is NodeKind.REDUCE and op.glyph == "sum":
        axes = _names(notation.dims(step.inputs[0]), step.attrs["axes"])
        label = (*richtext.plain("Σ "), *richtext.listed_dimensions(axes))
        return FigureNode(node_id, node_kind, label, detail, title)
    if op.differentiates:
        by = [notation.symbol(value) for value in step.inputs[1 : 1 + op.differentiates]]
        label = (*richtext.plain(f"{op.glyph}/{op.glyph}"), *_listed(by))
        return FigureNode(node_id, node_kind, label, detail, title)
    repeated = notation.repeated(step) if op.glyph == "BC" else ()
    label = (StyledRun(op.glyph, sub=",".join(repeated)), *_along(step, notation))
    record = collective(op)
    if record and record.stays_on_rank:
        label = (*label, *richtext.plain(" "), *mesh_axes(collective_axis(step)))
    given = arguments(step, notation)
    words = richtext.characters(given)
    if len(words) > _SHORT or ", " in words:
        lines = (detail, given) if detail else (given,)
        return FigureNode(node_id, node_kind, label, lines[0], title, lines=lines[1:])
    if given:
        label = (*label, *richtext.muted((StyledRun("("), *given, StyledRun(")"))))
    return FigureNode(node_id, node_kind, label, detail, title)


def _listed(names: Sequence[RichText]) -> RichText:
    """Return names with commas between them, several in parentheses."""
    runs = [run for name in names for run in (*richtext.plain(", "), *name)][1:]
    return (*richtext.plain("("), *runs, *richtext.plain(")")) if len(names) > 1 else tuple(runs)


def _along(step: Apply, notation: Notation) -> RichText:
    origin = step.origin or step
    if origin.op.brackets != "axes" or origin.op.variadic:
        return ()
    if step.origin and not origin.op.keeps_shape:
        return ()
    axes: Sequence[int] = origin.attrs.get("axes", ())
    if "axis" in origin.attrs:
        axes = (*axes, origin.attrs["axis"])
    return richtext.shape(_names(notation.dims(origin.inputs[0]), axes)) if axes else ()


def _names(dims: Sequence[str], axes: Sequence[int]) -> list[str]:
    """Return axes by their dims; of some of several equal ones also which these are: 2nd H."""
    named = Counter(dims[axis] for axis in axes)
    return [
        dims[axis] if named[dims[axis]] == dims.count(dims[axis]) else _nth(dims, axis)
        for axis in axes
    ]


def _nth(dims: Sequence[str], axis: int) -> str:
    count = dims[: axis % len(dims) + 1].count(dims[axis])
    return f"{count}{_ENDINGS.get(count, 'th')} {dims[axis]}"


def call_node(
    call: Call,
    graphs: Mapping[str, Graph],
    node_id: str,
    notation: Notation,
    written: Callable[[RichText], RichText] = tuple,
    starts: Mapping[Value, Apply] | None = None,
) -> FigureNode:
    """Return the box of a called block; of a repeated one with its count.

    The label has the callee's masks. One of several boxes with a title has its name; those of one
    name share their parameters. Lines have sizes of the callee that no shape shows, and of a loop
    at which numbers its states begin, if `starts` makes them.
    """
    callee = graphs[call.callee]
    label = written(richtext.plain(with_masks(callee.title or callee.block, callee.steps)))
    title = f"{callee.block} as {call.path}"
    name = call_name(call, notation.graph, graphs)
    count = times(call, notation)
    detail = (*count, *richtext.plain(", " if count and name else ""), *name)
    lines = (_sizes(call, graphs, notation), _begun(call, callee, starts or {}))
    some = (*((detail,) if detail else ()), *(line for line in lines if line))
    return FigureNode(node_id, NodeKind.BLOCK, label, (some or ((),))[0], title, lines=some[1:])


def differential(text: RichText) -> RichText:
    """Return a d before the words of an operation, several in parentheses: ``d(Layer norm)``."""
    several = " " in richtext.characters(text)
    inside = (*richtext.plain("("), *text, *richtext.plain(")")) if several else text
    return (StyledRun("d", italic=True), *inside)


def call_name(call: Call, graph: Graph, graphs: Mapping[str, Graph]) -> RichText:
    """Return ``as head_1`` where several calls have one title; shared if another has its name.

    Instances of one block, for some sizes or arguments each, have its title, too. Another block may
    have a call of that title under another name: a name that only says the title again is left out.
    """
    title = _title(call, graphs)
    is_shared = sum(one.path == call.path and one.first == call.first for one in graph.calls) > 1
    if len(_sisters(call, graph, graphs)) < 2:
        every = (other for one in graphs.values() for other in _sisters(call, one, graphs))
        if len({other.path for other in every}) < 2 or call.path.casefold() == title.casefold():
            return ()
    return (*call_alias(call), *richtext.plain(", shared" if is_shared else ""))


def call_alias(call: Call) -> RichText:
    """Return ``as head_1``: the name that a file gives a call, its number as a subscript."""
    name = tuple(replace(run, bold=False) for run in richtext.symbol(call.path))
    return (*richtext.plain("as "), *name)


def _title(call: Call, graphs: Mapping[str, Graph]) -> str:
    callee = graphs[call.callee]
    return callee.title or callee.block


def _sisters(call: Call, graph: Graph, graphs: Mapping[str, Graph]) -> list[Call]:
    """Return the calls of a graph whose boxes have the same title as a call's, itself included.

    A repeat that stages share is one call.
    """
    title = _title(call, graphs)
    return [
        other
        for other in graph.calls
        if _title(other, graphs) == title
        and not (other.path == call.path and other.first != call.first)
    ]


def start_values(call: Call) -> tuple[Value, ...]:
    """Return what the first round of a loop finds as its states."""
    count = call.loop.states if call.loop else 0
    return call.inputs[len(call.inputs) - count :]


def _sizes(call: Call, graphs: Mapping[str, Graph], notation: Notation) -> RichText:
    """Return N=N_1-1, s=2: sizes that are no axis of what goes in or out, if they have a new name.

    A size of what goes in or out says also that of an equal one. One of several boxes with a title
    has also those of its own name that another box gives: k, s.
    """
    block = graphs[call.callee].block
    others = (one for one in notation.graph.calls if graphs[one.callee].block == block)
    shown = {name: name for one in (call, *others)
            for name, text in _given_sizes(one, graphs, notation).items()
            if name != text}  # fmt: skip
    own = {name: notation.written(dim) for name, dim in call.sizes.items()}
    runs: list[StyledRun] = []
    for name, text in (shown | {name: own[name] for name in shown if name in own}).items():
        runs += (*richtext.plain(", " if runs else ""), *richtext.dimension(name))
        runs += (*richtext.plain("="), *richtext.number(text)) if name != text else ()
    return tuple(runs)


def _given_sizes(call: Call, graphs: Mapping[str, Graph], notation: Notation) -> dict[str, str]:
    """Return the sizes of a call that none of its shapes show, in the caller's terms."""
    callee = graphs[call.callee]
    axes = {str(dim) for value in (*callee.inputs, *callee.outputs)
            for dim in callee.types[value].shape}  # fmt: skip
    seen = {dim for name, dim in call.sizes.items() if name in axes}
    return {name: notation.written(dim) for name, dim in call.sizes.items()
            if name not in axes and dim not in seen}  # fmt: skip


def _begun(call: Call, callee: Graph, starts: Mapping[Value, Apply]) -> RichText:
    """Return h = 0 for every state that begins at a number."""
    runs: list[StyledRun] = []
    for state, value in zip(callee.carries, start_values(call), strict=False):
        if value in starts:
            runs += richtext.plain(", " if runs else "")
            runs += (*richtext.symbol(state.name), *richtext.plain(" = "))
            runs += richtext.number(str(starts[value].attrs["value"]))
    return tuple(runs)


def subtitle(view: str, program: IRProgram) -> str:
    """Return what a figure shows: of a parallel program what one rank does, by which plan."""
    if program.plan is None:
        return view
    rank = f" (Node i of {gpus(program.mesh)})" if program.mesh else ""
    return f"{view}{rank}, {plan_name(program.plan)}"


def gpus(mesh: Mapping[str, int]) -> str:
    """Return how many GPUs a mesh has: 3 GPUs, 2 × 3 GPUs."""
    return f"{' × '.join(map(str, mesh.values()))} GPUs"


def plan_name(plan: Plan) -> str:
    """Return what a plan is called inside of a sentence."""
    title = plan.title
    return plan.name if title in ("", plan.name) else title[:1].lower() + title[1:]


def stages_of_rows(program: IRProgram) -> dict[str, RichText]:
    """Return a label for the stages that share each repeat of a pipeline, by its path.

    A program that is one of the stages has its own share.
    """
    plan = program.plan
    if plan is None or program.stage is not None:
        return {}
    turns = next((one.turns for one in plan.schedules if one.block == program.main.block_id), 1)
    several = richtext.plain(f"{turns}·" if turns > 1 else "")
    return {
        entry.path[0]: (*several, *richtext.dimension(axis))
        for entry in plan.entries
        if entry.path[-1] == ROUNDS and entry.block == program.main.block_id and entry.rest
        for ((axis,),) in [entry.rest.cuts]
    }


def times(call: Call, notation: Notation) -> RichText:
    """Return × N_L, × N_L in N_PP stages, over S, or nothing for a single call."""
    if call.loop is not None:
        axis = richtext.dimension(notation.written(call.loop.length))
        back = richtext.plain(" reversed") if call.loop.reverse else ()
        return (*richtext.plain("over "), *axis, *back)
    if call.count is None:
        return ()
    count = (*richtext.plain("× "), *richtext.factor(str(call.count)))
    stages = notation.stages.get(call.path)
    return (
        (*count, *richtext.plain(" in "), *stages, *richtext.plain(" stages")) if stages else count
    )
