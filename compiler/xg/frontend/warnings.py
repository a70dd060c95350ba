"""Warn of programs that have types, but hardly mean what their author wanted.

These are warnings and not errors: a coupling layer exchanges its halves on purpose, and a mixer
turns tokens into channels. Binding by names would forbid one block for two lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from xg.diagnostics.diagnostic import Diagnostic, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.errors import ExchangedAxes, ExchangedNames, LossOperand, ReorderedAxes, Unused
from xg.ir.dim import ONE, Dim, Scalar, product, symbol
from xg.ir.errors import UnboundSize
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value, meant_axis
from xg.ir.size_checks import SizeSources, carried_symbols, closure, implied_sizes, own_shapes
from xg.ir.tensor import spell_shape
from xg.ir.use import Tensor
from xg.ir.walk import is_loss
from xg.passes.pipelines import SINGLE, run
from xg.passes.resolve.expressions import KnownMentions
from xg.passes.rewrites import eliminate_dead
from xg.syntax import ast
from xg.syntax.ast import only, walk
from xg.syntax.spelling import greek_name

# Axes that two reshapes in a row exchange: merged as [S*D] and split as [D, S].
#
# A reshape keeps the order of elements, so that what is split off is no axis that was there before.
# One reshape alone moves axes where their names tell which is which; behind a merged axis they no
# longer do.


def reordered_axes(program: IRProgram) -> Iterator[ReorderedAxes]:
    """A warning for each reshape that has the axes of the one before, in another order."""
    for graph in program.graphs.values():
        makers = {out: step for step in graph.steps for out in step.outputs}
        for step in graph.steps:
            before = makers.get(step.inputs[0]) if step.inputs else None
            if not (_is_reshape(step) and _is_reshape(before)) or before is None:
                continue
            values = before.inputs[0], step.inputs[0], step.outputs[0]
            shapes = [graph.types[value].shape for value in values]
            first, merged, last = ([dim for dim in shape if dim != ONE] for shape in shapes)
            same = sorted(map(str, first)) == sorted(map(str, last))
            if same and first != last and len(merged) < len(last):
                spelled = (spell_shape(tuple(map(graph.sizes.fold, each))) for each in shapes)
                yield ReorderedAxes(step.span, *spelled)


def _is_reshape(step: object) -> bool:
    """Whether a step is a reshape without a map, which would name its axes."""
    return isinstance(step, Apply) and step.op.name == "reshape" and "->" not in step.span.text


# Operands that have an axis of a port's name at another place, as [B, C, H, W] for [B, H, W, C].
#
# A port's names are its own, and its axes are bound by their places: such a call is no error. It is
# meant where a reordering is written in front of it, as a mixer has; else it may be a slip.


ORDERING: Final = frozenset({"transpose", "reshape"})
REST: Final = ".."


@dataclass(frozen=True, slots=True)
class _NamedPort:
    """A port, its axis names (None for an unnamed axis), and the value that arrives there."""

    name: str
    axes: tuple[str | None, ...]
    value: Value
    along: int | None = None  # the axis, counted from the end, that a loop takes apart


def exchanged_axes(program: IRProgram) -> Iterator[ExchangedAxes]:
    """A warning for each port of a program whose axes an operand has in another order."""
    for graph in program.graphs.values():
        makers = {out: step for step in graph.steps for out in step.outputs}
        for step in graph.steps:
            taker = step.op.glyph if isinstance(step, Apply) else program.callee(step).block
            for port in _ports(program, step):
                made = makers.get(port.value)
                if isinstance(made, Apply) and made.op.name in ORDERING:
                    continue
                shape, over = _arriving(graph, port), _meant(graph, port)
                if apart := _misplaced_axes(port.axes, shape, over):
                    axes, found = _spell_axes(port.axes), spell_shape(shape)
                    whole = port.along is None and {*port.axes} == {dim.name for dim in shape}
                    told = taker, port.name, axes, found, apart, whole, over
                    yield ExchangedAxes(step.span, *told)


def _ports(program: IRProgram, step: Apply | Call) -> Iterator[_NamedPort]:
    """The ports of a step that name their axes."""
    if isinstance(step, Apply):
        for data, value in zip(step.op.data, step.inputs, strict=False):
            if data.axes:
                yield _NamedPort(data.name, data.axes, value)
        return
    loops = step.loop.inputs if step.loop else (None,) * len(step.inputs)
    ports = program.callee(step).inputs
    given = ports[: len(ports) - (step.loop.states if step.loop else 0)]
    for port, value, along in zip(given, step.inputs, loops, strict=False):
        if port.declared is not None:
            axes = tuple(dim.name for dim in port.declared.shape)
            yield _NamedPort(port.name or "", axes, value, along)


def _arriving(graph: Graph, port: _NamedPort) -> tuple[Dim, ...]:
    """The shape that arrives at a port, in the symbols of the text."""
    shape = [graph.sizes.fold(dim) for dim in graph.types[port.value].shape]
    if port.along is not None:
        del shape[port.along]
    return tuple(shape)


def _meant(graph: Graph, port: _NamedPort) -> str:
    """The axis that a loop was likely meant to go over, where it goes over one of the port's."""
    if port.along is None:
        return ""
    shape = [graph.sizes.fold(dim) for dim in graph.types[port.value].shape]
    return str(meant_axis(port.axes, shape, port.along) or "")


def _misplaced_axes(axes: Sequence[str | None], shape: Sequence[Dim], over: str) -> str:
    """The names of a port that the operand has at another place, and what it has at theirs.

    Of a loop that was likely meant to go `over` another axis all names that differ.
    """
    there = {dim.name for dim in shape}
    named = [axis for axis in axes if axis != REST]
    apart = [
        f"its {axis} is {dim}"
        for axis, dim in zip(named, shape[len(shape) - len(named) :], strict=True)
        if axis is not None and axis != dim.name and (over or axis in there)
    ]
    return ", ".join(apart)


def _spell_axes(axes: Sequence[str | None]) -> str:
    return f"[{', '.join(axis or '_' for axis in axes)}]"


# Results and parameters that a text names in another order than they have.
#
# They are bound by their places: `: var, mean` of a block that gives mean, var, the last states of
# a loop, and `LN(β, γ)`. That is no error, and hardly meant.


Names = Sequence[str | None]
OTHERWISE: Final = {"mu": "mean", "v": "variance", "var": "variance"}  # as BN's are often called


def exchanged_names(program: IRProgram) -> Iterator[ExchangedNames]:
    """A warning for each step of a program that has names of its own at each other's places."""
    for graph in program.graphs.values():
        for step in graph.steps:
            if isinstance(step, Apply):
                own, given, node = *_parameters(step), step.op.glyph
            else:
                callee = program.callee(step)
                own, given, node = *_results(step, callee), callee.block
            if moved := _permutation(own, given):
                names = ", ".join(greek_name(name or "…") for name in own[: len(given)])
                meant = {there: given[here] for here, there in moved.items()}
                order = (meant.get(place, name) for place, name in enumerate(given))
                written = ", ".join(greek_name(name or "…") for name in order)
                gives = "takes" if isinstance(step, Apply) else "gives"
                yield ExchangedNames(step.span, node, gives, names, written)


def _parameters(step: Apply) -> tuple[Names, Names]:
    """Return the names of a node's parameters in order, and the names that it is given."""
    tensors = {own.name for own in step.op.own if isinstance(own, Tensor)}
    pairs = zip(step.op.operand_names(step.attrs), step.inputs, strict=True)
    named = [(own, value.name or "") for own, value in pairs if own in tensors]
    return [own for own, _ in named], [name.rpartition(".")[2] for _, name in named]


def _results(call: Call, callee: Graph) -> tuple[Names, Names]:
    """Return the names of a call's results in order, and the names in its label."""
    states = call.loop.states if call.loop else 0
    outputs = callee.outputs[: len(callee.outputs) - states]
    last = callee.inputs[len(callee.inputs) - states :]
    return [value.name for value in (*outputs, *last)], [value.name for value in call.outputs]


def _permutation(own: Names, given: Names) -> dict[int, int]:
    """The places of names that are at each other's, two of them or a round, by where they are."""
    at = {name: place for place, name in enumerate(own) if name}
    known = [OTHERWISE.get(name or "", name) if name not in at else name for name in given]
    moved = {here: at[name] for here, name in enumerate(known) if name in at and at[name] != here}
    while apart := [here for here, there in moved.items() if there not in moved]:
        for here in apart:
            del moved[here]
    return moved


# Losses whose operand is certainly of another kind: logits for probabilities, or these for those.
#
# An input of a block may be anything: only results of the block and of those that it calls count.


ANY_SIGN: Final = frozenset({"convolution", "layer_norm", "tanh"})
KEEPING: Final = frozenset({"relu", "gelu", "silu", "scale", "dropout", "stop"})  # what they get
PROBABILITIES: Final = frozenset({"softmax", "sigmoid"})

Place = tuple[Graph, Value]


def loss_operands(program: IRProgram) -> Iterator[LossOperand]:
    """A warning for each loss of a program that does not get what it takes."""
    for graph in program.graphs.values():
        for step in filter(is_loss, graph.steps):
            kind = _kind(step)
            made, by = _find_maker(program, (graph, step.inputs[0]), rows=kind == "classes")
            if by is None:
                continue
            is_last = by.attrs.get("axis", -1) == -1
            softmax = by.op.name == "softmax" and is_last
            if kind == "probabilities" and _is_linear(program, made):
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "probabilities")
            elif kind == "logits" and (by.op.name == "sigmoid" or softmax):
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "logits")
            elif kind == "classes" and softmax:
                yield LossOperand(step.span, step.op.glyph, by.op.glyph, "classes")


def _kind(step: Apply) -> str | None:
    """The kind of operand that a loss takes: probabilities, logits of yes or no, or of classes."""
    if step.op.name == "binary_cross_entropy":
        return str(step.attrs["form"])
    return "classes" if step.op.name == "cross_entropy" else None


def _find_maker(
    program: IRProgram, place: Place, *, rows: bool = False
) -> tuple[Place, Apply | None]:
    """The place and the step that makes a value, calls left out, and moves (that keep `rows`)."""
    graph, value = place
    while True:
        step = next((step for step in graph.steps if value in step.outputs), None)
        if step is None:
            return (graph, value), None
        if isinstance(step, Apply):
            if not _moves(graph, step, rows=rows):
                return (graph, value), step
            value = step.inputs[0]
        else:
            index = step.outputs.index(value)
            graph = program.callee(step)
            if index >= len(graph.outputs):
                return (graph, value), None  # the last state of a loop
            value = graph.outputs[index]


def _moves(graph: Graph, step: Apply, *, rows: bool) -> bool:
    """Whether a step only moves numbers, and, if asked, rows of classes stay rows."""
    if step.op.family != "layout" or len(step.inputs) != 1:
        return False
    before, after = (graph.types[value].shape for value in (*step.inputs, *step.outputs[:1]))
    return not rows or (step.op.name == "reshape" and before[-1:] == after[-1:])


def _is_linear(program: IRProgram, place: Place) -> bool:
    """Whether a value has no bounds: a product with a parameter, or what keeps it so."""
    (graph, _), step = _find_maker(program, place)
    if step is None:
        return False
    if step.op.name in ANY_SIGN:
        return True
    if step.op.name == "matmul":
        made = (_find_maker(program, (graph, each))[0][1] for each in step.inputs)
        params = {param.value for param in graph.params}
        return any(each in params for each in made)
    if step.op.name in KEEPING:
        return _is_linear(program, (graph, step.inputs[0]))
    if step.op.name == "add":
        return any(_is_linear(program, (graph, each)) for each in step.inputs)
    return False


# Sizes that code will need as numbers, and that nothing tells: no default, and no array.


def warn_unbound_sizes(program: IRProgram) -> Iterator[Diagnostic]:
    """A warning for each size of a program that the caller must give.

    A step that no output needs is left out of the code: it neither needs a size nor tells one.
    """
    if not SizeSources.of(program).is_open or not _untold(eliminate_dead(program)):
        return
    derived = run(SINGLE, program).result
    for name in _untold(derived):
        yield replace(UnboundSize(program.main.span, name).diagnostic(), severity="warning")


def _untold(program: IRProgram) -> list[str]:
    """The sizes that code needs and nothing tells; more of them before backward passes are derived.

    Deriving takes longer than all else here, and hardly a program needs it to be content.
    """
    sources = SizeSources.of(program)
    untold: dict[str, list[str]] = {}  # of each block
    for key, graph in program.graphs.items():  # callees come first
        shapes = [*own_shapes(graph), *sources.inner(graph).values()]
        carried, sizes = carried_symbols(graph), graph.sizes
        known = {*carried, *sizes.defaults, *sizes.mesh}
        backward = program.backwards.get(key)
        dims = [
            *_needed_sizes(graph, untold),
            *(dim for shape in sources.idle(graph) for dim in shape),
        ]
        dims += _needed_sizes(backward, untold) if backward else _means(graph)
        needed = (name for dim in dims for name in sizes.fold_exactly(dim).symbols())
        names, defined = closure(needed, carried, sizes, implied_sizes(shapes, sizes, known))
        untold[key] = [name for name in names if name not in known and name not in defined]
    return untold[program.entry]


def _needed_sizes(graph: Graph, untold: dict[str, list[str]]) -> Iterator[Dim]:
    """The sizes of all results of a pass, and of all numbers that it computes with."""
    for type_ in graph.types.values():
        yield from type_.shape
    for step in graph.steps:
        if isinstance(step, Apply):
            for expr in step.body(graph.types).order():
                yield from (*expr.shape, *_numbers(value for _, value in expr.attrs))
        else:
            yield from [] if step.count is None else [step.count]
            yield from (step.sizes.get(name, symbol(name)) for name in untold[step.callee])


def _means(graph: Graph) -> Iterator[Dim]:
    """The numbers by which gradients of means may divide."""
    for step in graph.steps:
        if isinstance(step, Apply):
            means = (each for each in step.body(graph.types).order() if each.prim == "mean")
            for expr in means:
                yield product(expr.args[0].shape[axis] for axis in expr.axes())


def _numbers(values: Iterable[object]) -> Iterator[Dim]:
    for value in values:
        if isinstance(value, Scalar):
            yield from value.dims()
        elif isinstance(value, Dim):
            yield value


# Unused names of a file, declared or taken: one may be a slip, so `xg check` warns of it.
#
# Whatever some choice of options uses counts as used, and so does what a plan or an example names.
# Parameters are not here: one that nothing uses is an error.


def unused(
    main: ast.Module, modules: Sequence[ast.Module], known: KnownMentions
) -> Iterator[Unused]:
    """Unused declarations of the main file; `modules` are all files of the program."""
    here = [
        *only(ast.Plan, main.plan_decls),
        *main.examples,
        *main.options,
        *main.dims,
        *main.meshes,
    ]
    ours = known.of(*main.blocks, *here)
    others = (module for module in modules if module is not main)
    everywhere = known.of(*main.blocks, *here, *others)
    yield from _outside("dim", main.dims, everywhere.sizes)
    yield from _outside("option", main.options, everywhere.nodes)
    if main.blocks:  # a file without blocks is there for others
        names = [name for use in main.uses for name in use.names]
        parts = (part for op in main.ops for part in walk(op))
        called = {part.operator.name for part in parts if isinstance(part, ast.Call)}
        used = ours.nodes | called
        yield from _outside("op", main.ops, used)
        yield from (_of("name", name, name.span) for name in names if name.name not in used)
    for block in main.blocks:
        yield from _in_block(block, main, known)


def _in_block(block: ast.Block, main: ast.Module, known: KnownMentions) -> Iterator[Unused]:
    """Inputs, states, arguments, dims and edges of a block."""
    plans = (plan for plan in only(ast.Plan, main.plan_decls) if plan.block.name == block.name.name)
    examples = (each for each in main.examples if each.block.name == block.name.name)
    mentions = known.of(block)
    values = mentions.values | {port.name.name for port in block.outputs}
    values |= known.of(*plans, *(claim for each in examples for claim in each.expects)).values
    arguments = values | mentions.nodes | mentions.sizes
    yield from (_of("input", port.name) for port in block.data if port.name.name not in values)
    yield from _outside("state", block.states, values)
    yield from (_of("argument", own.name) for own in block.own if own.name.name not in arguments)
    yield from _outside("dim", block.dims, mentions.sizes)
    for chain in block.chains:
        last = chain.steps[-1].label if chain.steps else chain.label
        ports = last.ports if last else ()
        if ports and not any(port.name.name in values for port in ports):
            yield _of("edge", ports[0].name, _last_part(chain))


def _last_part(chain: ast.Chain) -> Span | None:
    """Return the part of a chain after its second-to-last name; None if it has only one."""
    labels = [chain.label, *(step.label for step in chain.steps[:-1])]
    named = [label.span.end for label in labels if label is not None and label.ports]
    return Span(chain.span.source, named[-1], chain.span.end) if named else None


def _outside(
    kind: str,
    declared: Iterable[ast.DimDecl | ast.OptionDecl | ast.OpDef | ast.State],
    used: Set[str],
) -> Iterator[Unused]:
    """Yield an Unused for each unused declaration, over the whole declaration."""
    return (_of(kind, each.name, each.span) for each in declared if each.name.name not in used)


def _of(kind: str, name: ast.Name, whole: Span | None = None) -> Unused:
    return Unused(name.span, kind, name.name, f"use it, or leave {name.name} out", whole)


def warnings_of(program: IRProgram, *, is_compiled: bool) -> Iterator[Diagnostic]:
    """All warnings; of sizes without numbers only where the program is one to be compiled."""
    for kind in (loss_operands, exchanged_axes, exchanged_names, reordered_axes):
        yield from (each.diagnostic() for each in kind(program))
    if is_compiled:
        yield from warn_unbound_sizes(program)
