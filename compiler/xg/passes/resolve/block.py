"""One instance of a block as an untyped graph: names looked up, nodes in order."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import Final

from xg import ops
from xg.diagnostics.diagnostic import Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import SLIP, similar
from xg.ir.dim import as_scalar, size
from xg.ir.graph import Apply, Graph, MeantZero, Param, Remark, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape, TensorType
from xg.passes.resolve.errors import (
    CallPlace,
    DoubleArrow,
    NameTwice,
    NoLabel,
    OutputMissing,
    Refused,
    SeveralOutputs,
    UnknownOperator,
    UnknownValue,
    UnnamedTwice,
    UnusedParam,
)
from xg.passes.resolve.expressions import Mentions, start
from xg.passes.resolve.hints import Beside, suggest_operand_param
from xg.passes.resolve.nodes import apply_gradient, apply_operator, call_again, first_call
from xg.passes.resolve.scope import BlockScope, Lookups, Request
from xg.passes.resolve.size_errors import UnknownSize, told_once
from xg.passes.resolve.statements import carries, declare_state, meant_zeros, remarks
from xg.syntax import ast
from xg.syntax.spelling import ascii_name

# Chains: operands and nodes in the order in which the file writes them.


Targets = tuple[Shape | None, ...]  # the shapes of the labels that follow a node, one per output
UNKNOWN_NAME: Targets = (None,)


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
        return _single_value(source, _read_prefix(scope, _use(source, None), None))
    return read_operand(scope, source, None)


@dataclass(slots=True)
class _Labels:
    """The labels ahead of each node of a chain; asked in order, each step is looked at twice."""

    scope: BlockScope
    steps: Sequence[ast.NodeUse]
    kept: Sequence[bool]
    ahead: tuple[int, Targets] = (0, UNKNOWN_NAME)  # up to where these are the targets

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
            end, targets = self._scan_ahead(position)
            self.ahead = end, targets
        return targets

    def _scan_ahead(self, position: int) -> tuple[int, Targets]:
        """The shapes, and the first node that does not reach them."""
        for i in range(position, len(self.steps)):
            use = self.steps[i]
            if i > position and self.kept[i] and not _keeps_shape(self.scope, use):
                return i, UNKNOWN_NAME
            if use.label:
                shapes = self.scope.label_shapes(use.label)
                if shapes != UNKNOWN_NAME:
                    return i + 1, shapes
        return len(self.steps), UNKNOWN_NAME


def _keeps_shape(scope: BlockScope, use: ast.NodeUse) -> bool:
    op = scope.operator(use.operator)
    return isinstance(op, Op) and op.keeps_shape


# ---- operands -----------------------------------------------------------------------------------


def read_operand(scope: BlockScope, operand: ast.Operand, peer: Value | None) -> Value:
    """Read a value, an operator before its operand, or a chain in parentheses."""
    match operand:
        case ast.Path():
            return scope.path(operand)
        case ast.Call():
            values = _read_prefix(scope, _use(operand, None), peer, place="operand")
            return _single_value(operand, values)
        case ast.Chain():
            return read_chain(scope, operand, peer)


def _use(written: ast.Call | ast.NodeUse, label: ast.Label | None) -> ast.NodeUse:
    """Turn a call such as `T(E) : E_T` into a node with the label of its edge."""
    if isinstance(written, ast.NodeUse):
        return replace(written, label=label)
    span, operator, axes, own = written.span, written.operator, written.axes, written.arguments
    return ast.NodeUse(span, operator, axes, own, (), None, None, None, None, label)


def _read_prefix(
    scope: BlockScope, use: ast.NodeUse, peer: Value | None, place: CallPlace = "chain"
) -> tuple[Value, ...]:
    """`f(x, a)` is `x -> f(a)`: data operands come first, the rest is the node's own."""
    data = [a for a in use.arguments[: _operand_count(scope, use)] if a.name is None]
    arriving = tuple(_read_argument(scope, argument) for argument in data)
    use = replace(use, arguments=use.arguments[len(data) :])
    targets = scope.label_shapes(use.label) if use.label else UNKNOWN_NAME
    try:
        return _read_node(scope, use, arriving, targets, peer)
    except Refused as refused:
        raise Refused(*(_add_call_place(problem, place) for problem in refused.problems)) from None


def _add_call_place(problem: Problem, place: CallPlace) -> Problem:
    """A problem with the place of the call that has it, where its help depends on that."""
    is_open = isinstance(problem, UnnamedTwice) and problem.stands == "node"
    return replace(problem, stands=place) if is_open else problem


def _operand_count(scope: BlockScope, use: ast.NodeUse) -> int:
    """Count the operands that a node requires."""
    again = scope.again(use)
    op = again.instance.located if again else scope.operator(use.operator)
    if isinstance(op, Op):
        return len([data for data in op.data if not data.optional])
    return len(op.block.data) if op else 0


def _single_value(written: ast.Call | ast.NodeUse, values: tuple[Value, ...]) -> Value:
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
        return call_again(scope, use, name, _collect_operands(scope, use, arriving, matmul=False))
    callee = scope.operator(use.operator)
    if callee is None:
        raise Refused(_unknown_operator(scope, use.operator))
    if isinstance(callee, Op):
        try:
            data = _collect_operands(scope, use, arriving, matmul=callee.family == "matmul")
        except Refused as refused:
            place = Beside(scope, use, arriving, targets)
            raise suggest_operand_param(place, callee, refused) from None
        if callee.brackets == "values":
            return apply_gradient(scope, use, callee, data)
        return apply_operator(scope, use, callee, data, targets, peer)
    return first_call(scope, use, callee, _collect_operands(scope, use, arriving, matmul=False))


def _collect_operands(
    scope: BlockScope, use: ast.NodeUse, arriving: Sequence[Value], *, matmul: bool
) -> list[Value]:
    """Return all data operands of a node: first from the chain, then the attached ones."""
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


UNKNOWN: Final = (UnknownOperator, UnknownValue)


class Incomplete(Refused):
    """Carries the errors of a block, and the rest of its graph if there is one, for an editor."""

    def __init__(self, rest: Graph | None, *problems: Problem) -> None:
        super().__init__(*problems)
        self.rest = rest


def resolve_block(lookups: Lookups, key: str, request: Request) -> Graph:
    """The graph of an instance under a key; raises Incomplete with everything that is wrong."""
    return _BlockResolver(BlockScope(lookups, request), key).graph()


@dataclass(slots=True)
class _BlockResolver:
    """Declares what a block has, reads its chains, and collects what is wrong."""

    scope: BlockScope
    key: str
    params: dict[str, Param] = field(default_factory=dict[str, Param])
    problems: list[Refused] = field(default_factory=list[Refused])
    given: list[Value] = field(default_factory=list[Value])  # by their shapes, behind an error

    @property
    def block(self) -> ast.Block:
        """The block as written."""
        return self.scope.block

    def graph(self) -> Graph:
        """The untyped graph; raises Incomplete with everything that is wrong."""
        inputs = tuple(self._input(port) for port in self.block.data)
        self._declare_params()
        pasts = self._declare_states()
        self._read_chains()
        marked = self._remarks()
        zeros = self._meant_zeros()
        self._check_outputs()
        if self.problems:
            problems = [p for refused in self.problems for p in refused.problems]
            explained = any(isinstance(problem, UNKNOWN) for problem in problems)
            unused = [] if explained else self._unused_params()
            raise Incomplete(self._partial_graph(inputs), *told_once(problems), *unused)
        graph = replace(self._complete_graph(inputs, pasts, marked), meant_zeros=zeros)
        if unused := self._unused_params():
            names = {problem.name for problem in unused}
            spare = tuple(param for name, param in self.params.items() if name in names)
            raise Incomplete(replace(graph, unused=spare), *unused)
        return graph

    def _complete_graph(
        self, inputs: tuple[Value, ...], pasts: list[Value], marked: tuple[Remark, ...]
    ) -> Graph:
        """The graph of a block whose names are all known."""
        outputs = self._outputs()
        states = tuple(carries(self.scope, pasts))
        tables = self._tables()
        started = tuple(
            self._set_start(param, decl, tables)
            for param, decl in zip(self.params.values(), self.block.params, strict=True)
            if param.value in self.scope.read
        )
        return replace(
            self._build_graph(inputs, outputs, started),
            inputs=(*inputs, *pasts),
            outputs=(*outputs, *(state.next for state in states)),
            output_names=tuple(p.name.name for p in (*self.block.outputs, *self.block.states)),
            output_types=(*self._output_types(), *(v.declared for v in pasts if v.declared)),
            claims=tuple(self.scope.claims),
            carries=states,
            remarks=marked,
        )

    def _partial_graph(self, inputs: tuple[Value, ...]) -> Graph | None:
        """Return the part without errors, for an editor; a value with a known shape is given.

        None where the head is wrong, or where rounds would not know what they begin with.
        """
        params = list(self.params.values())
        if self.block.states or not all(v.declared for v in (*inputs, *(p.value for p in params))):
            return None
        for port in self.block.outputs:
            self._give(port)
        outputs = [self.scope.values.get(port.name.name) for port in self.block.outputs]
        known = tuple(value for value in outputs if value)
        params += [Param(value, value.declared, "zeros") for value in self.given if value.declared]
        with suppress(Refused):
            return (
                self._build_graph(inputs, known, tuple(params))
                if len(known) == len(outputs)
                else None
            )
        return None

    def _build_graph(
        self, inputs: tuple[Value, ...], outputs: tuple[Value, ...], params: tuple[Param, ...]
    ) -> Graph:
        return Graph(
            key=self.key,
            block=self.block.name.name,
            title=self.block.title.value if self.block.title else self.block.name.name,
            inputs=inputs,
            outputs=outputs,
            output_names=tuple(port.name.name for port in self.block.outputs),
            output_types=self._output_types(),
            params=params,
            steps=tuple(self.scope.steps),
            sizes=self.scope.sizes,
            span=self.block.span,
            foreign=tuple(self.scope.foreign.values()),
            layouts=self.scope.layouts(),
            aliases=tuple(self.scope.aliases),
            mentions=tuple(self.scope.reader.mentions),
            file=self.scope.unit.number,
        )

    def _give(self, port: ast.Port) -> None:
        """Take a name as given that no line makes, if the text gives its shape."""
        with suppress(Refused):
            declared = self.scope.declared(port)
            if declared and port.name.name not in self.scope.values:
                self.given.append(Value(port.name.name, "edge", port.span, declared))
                self.scope.bind(port.name, self.given[-1])

    def _read_chains(self) -> None:
        for chain in self.block.chains:
            try:
                read_statement(self.scope, chain)
            except Refused as refused:
                self.problems.append(refused.with_traceback(None))
                for port in _labels(chain):
                    self.scope.spoiled.add(port.name.name)
                    self._give(port)

    def _remarks(self) -> tuple[Remark, ...]:
        try:
            return tuple(remarks(self.scope))
        except Refused as refused:
            self.problems.append(refused.with_traceback(None))
            return ()

    def _meant_zeros(self) -> tuple[MeantZero, ...]:
        try:
            return tuple(meant_zeros(self.scope))
        except Refused as refused:
            self.problems.append(refused.with_traceback(None))
            return ()

    def _output_types(self) -> tuple[TensorType, ...]:
        shapes = [(port.shape, port.range) for port in self.block.outputs]
        return tuple(self.scope.reader.type(shape, range_) for shape, range_ in shapes if shape)

    def _outputs(self) -> tuple[Value, ...]:
        """The results. An input that is one has to be of the type of that output."""
        values = tuple(self.scope.values[port.name.name] for port in self.block.outputs)
        pairs = zip(self.block.outputs, values, strict=True)
        shaped = [(port, value) for port, value in pairs if port.shape]
        for (port, value), type_ in zip(shaped, self._output_types(), strict=True):
            if value.role != "edge" and value.name == port.name.name:
                self.scope.claims.append((value, type_, port.span))
        return values

    def _input(self, port: ast.Port) -> Value:
        type_ = self._attempt(lambda: self._declared_type(port))
        value = Value(port.name.name, "input", port.span, type_, port.frozen is not None)
        self.scope.bind(port.name, value)
        if type_ and port.shape:
            self.scope.lay(value, port.shape)
        return value

    def _declared_type(self, port: ast.Port) -> TensorType:
        if port.shape is None:
            raise Refused()  # its text has an error, which is known
        return self.scope.reader.type(port.shape, port.range)

    def _declare_params(self) -> None:
        for decl in self.block.params:
            type_ = self._attempt(lambda decl=decl: self.scope.reader.type(decl.shape, decl.range))
            value = Value(decl.name.name, "param", decl.span, type_, decl.frozen is not None)
            self.scope.bind(decl.name, value)
            if type_:
                self.scope.lay(value, decl.shape)
            self.params[decl.name.name] = Param(value, type_ or TensorType(()), "zeros")

    def _declare_states(self) -> list[Value]:
        """The states as they are at the beginning of a round; those that are wrong are left out."""
        values: list[Value] = []
        for state in self.block.states:
            try:
                values.append(declare_state(self.scope, state))
            except Refused as refused:
                self.problems.append(refused.with_traceback(None))
                self.scope.spoiled.add(state.name.name)
        return values

    def _set_start(self, param: Param, decl: ast.Param, tables: Container[Value]) -> Param:
        """Set the initial value of a parameter: the file's, or else normal by its fan-in."""
        if decl.init is not None:
            return replace(param, start=start(self.scope.reader, decl.init))
        shape = param.type.shape
        if len(shape) < 2:
            return replace(param, start=as_scalar(0.02))
        fan_in = shape[-1] if param.value in tables else shape[-2]
        if fan_in.constant is not None and fan_in.constant < 1:
            return param  # which is refused where sizes are looked at
        return replace(param, start=size(fan_in) ** -0.5)

    def _tables(self) -> set[Value]:
        """The tables that `Emb` looks up in."""
        return {
            step.inputs[-1]
            for step in self.scope.steps
            if isinstance(step, Apply) and step.op.glyph == "Emb"
        }

    def _attempt(self, read: Callable[[], TensorType]) -> TensorType | None:
        try:
            return read()
        except Refused as refused:
            self.problems.append(refused.with_traceback(None))
            return None

    def _used(self) -> set[str]:
        """Names that are read, in any choice of options; maybe, where that cannot be known."""
        mentions = Mentions.of(*self.block.chains, *self.block.nexts)
        own = {own.name.name for own in self.block.own if own.words}
        told = (problem for refused in self.problems for problem in refused.problems)
        as_sizes = {problem.name for problem in told if isinstance(problem, UnknownSize)}
        if self.problems or mentions.nodes & (own | self.scope.linked.options.keys()):
            return mentions.values | as_sizes
        return {str(v.name) for v in self.scope.read} | Mentions.of(*self.block.nexts).values

    def _check_outputs(self) -> None:
        first: dict[str, ast.Name] = {}
        for port in self.block.outputs:
            name = port.name.name
            if first.setdefault(name, port.name) is not port.name:
                self.problems.append(Refused(NameTwice(port.name.span, name, first[name].span)))
            if name not in self.scope.values and name not in self.scope.spoiled:
                missing = OutputMissing(port.span, port.name.span.text, self._slip(name))
                self.problems.append(Refused(missing))

    def _slip(self, output: str) -> Span | None:
        """The label of the edge that may be meant to be an output: none reads it, none other is."""
        others = {port.name.name for port in self.block.outputs}
        made = {
            name: value.span
            for name, value in self.scope.values.items()
            if value.role == "edge" and value not in self.scope.read and name not in others
        }
        close = similar(output, (n for n, span in made.items() if ascii_name(span.text) == n), SLIP)
        return made[close] if close else None

    def _unused_params(self) -> list[UnusedParam]:
        """The parameters that nothing reads; an unknown name of the block may be the reason."""
        used = self._used()
        return [
            UnusedParam(decl.span, decl.name.span.text)
            for decl in self.block.params
            if decl.name.name not in used
        ]


def _labels(chain: ast.Chain) -> list[ast.Port]:
    """Every name that a chain would have made."""
    labels = [chain.label, *(use.label for use in chain.steps)]
    return [port for label in labels if label for port in label.ports]
