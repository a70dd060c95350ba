"""Chains: operands and nodes in the order in which the file writes them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xg import ops
from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.passes.resolve.call_errors import CallPlace, SeveralOutputs, UnnamedTwice
from xg.passes.resolve.errors import (
    DoubleArrow,
    NoLabel,
    Refused,
    UnknownOperator,
    UnknownValue,
)
from xg.passes.resolve.nodes import apply_operator, call_again, first_call
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.undeclared import Beside, operand_declared
from xg.syntax import ast

Targets = tuple[Shape | None, ...]  # the shapes of the labels that follow a node, one per output
UNKNOWN: Targets = (None,)


def read_statement(scope: BlockScope, chain: ast.Chain) -> None:
    """A chain as a statement of its own: its last edge has a name."""
    last = chain.steps[-1].label if chain.steps else chain.label
    if last is None or not last.ports:
        with suppress(Refused):
            read_chain(scope, chain, None)  # its nodes have types, although it has no name yet
        raise Refused(NoLabel(chain.steps[-1].span if chain.steps else chain.span))
    read_chain(scope, chain, None)


def read_chain(scope: BlockScope, chain: ast.Chain, peer: Value | None) -> Value:
    """The value that leaves a chain; `peer` is the other operand of the node that takes it."""
    arriving = _read_sources(scope, chain)
    if chain.label:
        scope.name(arriving, chain.label)
    included = [scope.kept(use.guard) for use in chain.steps]
    _refuse_unknown(
        scope, [use for use, is_kept in zip(chain.steps, included, strict=True) if is_kept]
    )
    last = max((position for position, is_kept in enumerate(included) if is_kept), default=-1)
    labels = _Labels(scope, chain.steps, included)
    for position, use in enumerate(chain.steps):
        if included[position]:
            node = replace(use, label=labels.first(position))
            targets = labels.targets(position)
            beside = peer if position == last else None
            arriving = _read_node(scope, node, arriving, targets, beside)
        if use.label:
            scope.name(arriving, use.label)
        elif len(arriving) > 1 and included[position]:
            raise Refused(SeveralOutputs(use.span, use.operator.name, len(arriving)))
    return next(iter(arriving))


def _read_sources(scope: BlockScope, chain: ast.Chain) -> tuple[Value, ...]:
    """The values that a chain begins with; one call alone may give those that its label names."""
    match chain.sources:
        case (ast.Call() | ast.NodeUse() as alone,):
            values = _read_prefix(scope, _use(alone, chain.label), None)
            if len(values) > 1 and not chain.label:
                raise Refused(SeveralOutputs(alone.span, alone.operator.name, len(values), "chain"))
            return values
        case sources:
            return tuple(_read_source(scope, source) for source in sources)


def _read_source(scope: BlockScope, source: ast.Start) -> Value:
    if isinstance(source, ast.NodeUse | ast.Call):
        return _one(source, _read_prefix(scope, _use(source, None), None))
    return read_operand(scope, source, None)


@dataclass(slots=True)
class _Labels:
    """The labels ahead of each node of a chain; asked in order, each step is looked at twice."""

    scope: BlockScope
    steps: Sequence[ast.NodeUse]
    kept: Sequence[bool]
    ahead: tuple[int, Targets] = (0, UNKNOWN)  # up to where these are the targets

    def first(self, position: int) -> ast.Label | None:
        """The label of a node's edge, one with a name if there is one.

        Behind nodes that this choice leaves out it is still the same edge.
        """
        label = self.steps[position].label
        for i in range(position + 1, len(self.steps)):
            if self.kept[i]:
                break
            following = self.steps[i].label
            if following and (label is None or not label.ports):
                label = following
        return label

    def targets(self, position: int) -> Targets:
        """Shapes of the label that a node's edge reaches across nodes that keep shapes."""
        end, targets = self.ahead
        if position >= end:
            end, targets = self._reached(position)
            self.ahead = end, targets
        return targets

    def _reached(self, position: int) -> tuple[int, Targets]:
        """The shapes, and the first node that does not reach them."""
        for i in range(position, len(self.steps)):
            use = self.steps[i]
            if i > position and self.kept[i] and not _keeps_shape(self.scope, use):
                return i, UNKNOWN
            if use.label:
                shapes = self.scope.label_shapes(use.label)
                if shapes != UNKNOWN:
                    return i + 1, shapes
        return len(self.steps), UNKNOWN


def _keeps_shape(scope: BlockScope, use: ast.NodeUse) -> bool:
    op = scope.operator(use.operator)
    return isinstance(op, Op) and op.keeps_shape


# ---- operands -----------------------------------------------------------------------------------


def read_operand(scope: BlockScope, operand: ast.Operand, peer: Value | None) -> Value:
    """A value, an operator in front of its operand, or a chain in parentheses."""
    match operand:
        case ast.Path():
            return scope.path(operand)
        case ast.Call():
            values = _read_prefix(scope, _use(operand, None), peer, place="operand")
            return _one(operand, values)
        case ast.Chain():
            return read_chain(scope, operand, peer)


def _use(written: ast.Call | ast.NodeUse, label: ast.Label | None) -> ast.NodeUse:
    """A call in front of what it takes as a node with the label of its edge: `T(E) : E_T`."""
    if isinstance(written, ast.NodeUse):
        return replace(written, label=label)
    span, operator, axes, own = written.span, written.operator, written.axes, written.arguments
    return ast.NodeUse(span, operator, axes, own, (), None, None, None, None, label)


def _read_prefix(
    scope: BlockScope, use: ast.NodeUse, peer: Value | None, place: CallPlace = "chain"
) -> tuple[Value, ...]:
    """`f(x, a)` is `x -> f(a)`: data operands come first, the rest is the node's own."""
    data = [a for a in use.arguments[: _taken(scope, use)] if a.name is None]
    arriving = tuple(_read_argument(scope, argument) for argument in data)
    use = replace(use, arguments=use.arguments[len(data) :])
    targets = scope.label_shapes(use.label) if use.label else UNKNOWN
    try:
        return _read_node(scope, use, arriving, targets, peer)
    except Refused as refused:
        raise Refused(*(_placed(problem, place) for problem in refused.problems)) from None


def _placed(problem: Problem, place: CallPlace) -> Problem:
    """A problem with the place of the call that has it, where its help depends on that."""
    is_open = isinstance(problem, UnnamedTwice) and problem.stands == "node"
    return replace(problem, stands=place) if is_open else problem


def _taken(scope: BlockScope, use: ast.NodeUse) -> int:
    """How many operands a node takes that must be there."""
    again = scope.again(use)
    op = again.instance.located if again else scope.operator(use.operator)
    if isinstance(op, Op):
        return len([data for data in op.data if not data.optional])
    return len(op.block.data) if op else 0


def _one(written: ast.Call | ast.NodeUse, values: tuple[Value, ...]) -> Value:
    if len(values) != 1:
        name, count = written.operator.name, len(values)
        raise Refused(SeveralOutputs(written.span, name, count, "operand"))
    return values[0]


def _read_argument(scope: BlockScope, argument: ast.Argument) -> Value:
    value = argument.value
    if isinstance(value, ast.Path | ast.Call):
        return read_operand(scope, value, None)
    raise Refused(UnknownValue(value.span, value.span.text, tuple(scope.values)))


# ---- nodes --------------------------------------------------------------------------------------


def _read_node(
    scope: BlockScope,
    use: ast.NodeUse,
    arriving: Sequence[Value],
    targets: Targets,
    peer: Value | None,
) -> tuple[Value, ...]:
    """The values that leave a node: a known call, an operator, or a block called first."""
    if scope.again(use):
        name = use.operator.name
        return call_again(scope, use, name, _attached(scope, use, arriving, matmul=False))
    callee = scope.operator(use.operator)
    if callee is None:
        raise Refused(_unknown_operator(scope, use.operator))
    if isinstance(callee, Op):
        try:
            data = _attached(scope, use, arriving, matmul=callee.family == "matmul")
        except Refused as refused:
            place = Beside(scope, use, arriving, targets)
            raise operand_declared(place, callee, refused) from None
        return apply_operator(scope, use, callee, data, targets, peer)
    return first_call(scope, use, callee, _attached(scope, use, arriving, matmul=False))


def _attached(
    scope: BlockScope, use: ast.NodeUse, arriving: Sequence[Value], *, matmul: bool
) -> list[Value]:
    """All data operands of a node in order: those of the chain, then those beside it."""
    doubles = [attached for attached in use.attachments if attached.arrow == "<="]
    if doubles and not matmul:
        raise Refused(DoubleArrow(doubles[0].span, use.operator.name))
    if matmul and (len(doubles) != 1 or len(use.attachments) != 1 or len(arriving) != 1):
        raise Refused(DoubleArrow(use.span, "•"))
    peer = arriving[0] if arriving else None
    beside = (read_operand(scope, attached.operand, peer) for attached in use.attachments)
    return [*arriving, *beside]


def _refuse_unknown(scope: BlockScope, uses: Sequence[ast.NodeUse]) -> None:
    """Refuse several unknown operators of a chain at once."""
    calls = {*scope.calls, *(use.instance.name for use in uses if use.instance)}
    names = [use.operator for use in uses if use.operator.name not in calls]
    unknown = [name for name in names if scope.operator(name) is None]
    if len(unknown) > 1:
        raise Refused(*(_unknown_operator(scope, name) for name in unknown))


def _unknown_operator(scope: BlockScope, name: ast.Name) -> UnknownOperator:
    written = [glyph for glyph, op in ops.table().items() if not op.derived]
    names = (*scope.unit.blocks, *scope.unit.ops, *scope.linked.options, *written)
    option = scope.option(name.name)
    chosen = option[1] if option else name.name  # the chosen word of the option
    is_value = chosen in scope.values or chosen in scope.outputs
    value = scope.values.get(chosen)
    declared = value.declared if value and value.role == "param" else None
    is_matrix = declared is not None and len(declared.shape) == 2
    is_call = chosen in scope.calls
    return UnknownOperator(name.span, chosen, names, is_value, is_matrix, is_call)
