"""One block with its options and numbers chosen: names looked up, nodes in order, nothing typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xg.dim import Dim
from xg.graph import Apply, Call, Graph, Param, Pending, Value
from xg.op import Op
from xg.passes.resolve.arguments import block_arguments, op_arguments, start
from xg.passes.resolve.errors import (
    DoubleArrow,
    NameTwice,
    NoLabel,
    NotYet,
    OutputMissing,
    Refused,
    SeveralOutputs,
    UnknownOperator,
    UnknownOption,
    UnknownValue,
    UnknownWord,
    UnnamedTwice,
    UnusedParam,
    WrongOperands,
)
from xg.passes.resolve.expressions import Reader
from xg.passes.resolve.units import Linked, Located, Unit
from xg.scalar import Scalar, as_scalar, size
from xg.source import Span
from xg.syntax import ast
from xg.tensor import Shape, Sizes, TensorType

COLLECTIVES = frozenset({"AR", "AG", "RS", "A2A"})


@dataclass(frozen=True, slots=True)
class Instance:
    """A block with everything chosen: what one graph is made for."""

    located: Located
    words: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, Scalar], ...] = ()
    sizes: tuple[tuple[str, Dim], ...] = ()

    @property
    def name(self) -> str:
        """The block's name with what was chosen: ``Attention(mask=causal)``."""
        chosen = [f"{name}={value}" for name, value in (*self.words, *self.numbers, *self.sizes)]
        return self.located.block.name.name + (f"({', '.join(chosen)})" if chosen else "")


Request = Callable[[Instance], str]  # the key of an instance's graph, which is made if need be


@dataclass(slots=True)
class BlockResolver:
    """Turns the body of one instance into a graph, and collects what is wrong with it."""

    linked: Linked
    instance: Instance
    key: str
    request: Request
    reader: Reader = field(init=False)
    sizes: Sizes = field(init=False)
    values: dict[str, Value] = field(default_factory=dict[str, Value], init=False)
    spoiled: set[str] = field(default_factory=set[str], init=False)
    steps: list[Apply | Call] = field(default_factory=list[Apply | Call], init=False)
    calls: dict[str, tuple[Instance, Span]] = field(
        default_factory=dict[str, tuple[Instance, Span]], init=False
    )
    params: dict[str, Param] = field(default_factory=dict[str, Param], init=False)
    foreign: dict[str, Value] = field(default_factory=dict[str, Value], init=False)
    claims: list[tuple[Value, TensorType, Span]] = field(
        default_factory=list[tuple[Value, TensorType, Span]], init=False
    )
    unnamed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    read: set[Value] = field(default_factory=set[Value], init=False)
    problems: list[Refused] = field(default_factory=list[Refused], init=False)

    @property
    def block(self) -> ast.Block:
        """The block as written."""
        return self.instance.located.block

    @property
    def unit(self) -> Unit:
        """The file whose names it sees."""
        return self.instance.located.unit

    # ---- the whole block ------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The untyped graph; raises Refused with everything that is wrong."""
        self.declare_sizes()
        inputs = tuple(self._input(port) for port in self.block.data)
        self._declare_params()
        for chain in self.block.chains:
            try:
                self._statement(chain)
            except Refused as refused:
                self.problems.append(refused)
                self.spoiled.update(_labels(chain))
        self._refuse_unfinished()
        outputs = tuple(self.values[port.name.name] for port in self.block.outputs)
        return Graph(
            key=self.key,
            block=self.block.name.name,
            title=self.block.title.value if self.block.title else self.block.name.name,
            inputs=inputs,
            outputs=outputs,
            output_names=tuple(port.name.name for port in self.block.outputs),
            output_types=self._output_types(),
            params=tuple(
                self._started(param, decl)
                for param, decl in zip(self.params.values(), self.block.params, strict=True)
                if param.value in self.read
            ),
            steps=tuple(self.steps),
            sizes=self.sizes,
            span=self.block.span,
            foreign=tuple(self.foreign.values()),
            claims=tuple(self.claims),
        )

    def _output_types(self) -> tuple[TensorType, ...]:
        shapes = [(port.shape, port.range) for port in self.block.outputs]
        return tuple(self.reader.type(shape, range_) for shape, range_ in shapes if shape)

    def declare_sizes(self) -> None:
        """Make the block's own dims and those that the call gives known."""
        given = dict(self.instance.sizes)
        if not self.block.dims and not given:
            self.sizes, dims = self.linked.sizes, self.linked.dims
        else:
            dims = self.linked.dims | {decl.name.name for decl in self.block.dims}
            reader = Reader(dims, self.linked.meshes, {})
            local = {d.name.name: reader.dim(d.size) for d in self.block.dims if d.size} | given
            self.sizes = self.linked.sizes.with_local(local)
        self.reader = Reader(dims, self.linked.meshes, dict(self.instance.numbers))

    def _input(self, port: ast.Port) -> Value:
        assert port.shape is not None
        type_ = self._attempt(lambda: self.reader.type(port.shape, port.range))  # pyright: ignore
        value = Value(port.name.name, "input", port.span, type_)
        self._bind(port.name, value)
        return value

    def _declare_params(self) -> None:
        if self.block.states:
            state = self.block.states[0]
            self.problems.append(Refused(NotYet(state.span, "state")))
        for decl in self.block.params:
            type_ = self._attempt(lambda decl=decl: self.reader.type(decl.shape, decl.range))
            value = Value(decl.name.name, "param", decl.span, type_)
            self._bind(decl.name, value)
            self.params[decl.name.name] = Param(value, type_ or TensorType(()), "zeros")

    def _started(self, param: Param, decl: ast.Param) -> Param:
        """What a parameter starts as: as the file says, else normal by the fan-in of its use."""
        if decl.init is not None:
            return replace(param, start=start(self.reader, decl.init))
        shape = param.type.shape
        if len(shape) < 2:
            return replace(param, start=as_scalar(0.02))
        table = any(
            isinstance(step, Apply) and step.op.glyph == "Emb" and step.inputs[-1] is param.value
            for step in self.steps
        )
        return replace(param, start=size(shape[-1] if table else shape[-2]) ** -0.5)

    def _attempt(self, read: Callable[[], TensorType]) -> TensorType | None:
        try:
            return read()
        except Refused as refused:
            self.problems.append(refused)
            return None

    def _refuse_unfinished(self) -> None:
        for port in self.block.outputs:
            name = port.name.name
            if name not in self.values and name not in self.spoiled:
                self.problems.append(Refused(OutputMissing(port.span, name)))
        mentioned = _mentioned(self.block)
        for decl in self.block.params:
            if decl.name.name not in mentioned:
                self.problems.append(Refused(UnusedParam(decl.span, decl.name.name)))
        if self.problems:
            raise Refused(*(p for refused in self.problems for p in refused.problems))

    # ---- chains ---------------------------------------------------------------------------------

    def _statement(self, chain: ast.Chain) -> None:
        last = chain.steps[-1].label if chain.steps else chain.label
        if last is None or not last.ports:
            raise Refused(NoLabel(chain.steps[-1].span if chain.steps else chain.span))
        self._chain(chain, None)

    def _chain(self, chain: ast.Chain, peer: Value | None) -> Value:
        arriving = tuple(self.operand(source, None) for source in chain.sources)
        if chain.label:
            self._name(arriving, chain.label)
        kept = [self._kept(use.guard) for use in chain.steps]
        last = len(kept) - 1 - kept[::-1].index(True) if True in kept else -1
        for position, use in enumerate(chain.steps):
            if kept[position]:
                following = chain.steps[position:]
                node = replace(use, label=self._first_label(following))
                beside = peer if position == last else None
                arriving = self._node(node, arriving, self._targets(following), beside)
            if use.label:
                self._name(arriving, use.label)
            elif len(arriving) > 1 and kept[position]:
                raise Refused(SeveralOutputs(use.span, use.operator.name, len(arriving)))
        if len(arriving) != 1 and not (chain.steps and chain.steps[-1].label):
            raise Refused(WrongOperands(chain.span, "an operand", "one value", len(arriving)))
        return arriving[0]

    def _first_label(self, following: Sequence[ast.NodeUse]) -> ast.Label | None:
        """The label of a node's edge; it may stand behind nodes that this choice leaves out."""
        for i, use in enumerate(following):
            if i and self._kept(use.guard):
                return None
            if use.label:
                return use.label
        return None

    def _kept(self, guard: ast.Guard | None) -> bool:
        if guard is None:
            return True
        name = guard.option.name
        words, chosen = self.option(name) or (None, "")
        if words is None:
            raise Refused(UnknownOption(guard.option.span, name, tuple(self.linked.options)))
        for word in guard.words:
            if word.name not in words:
                raise Refused(UnknownWord(word.span, name, word.name, words))
        return chosen in [word.name for word in guard.words]

    def option(self, name: str) -> tuple[tuple[str, ...], str] | None:
        """Words and the chosen one, of an option of the call or of the program."""
        for own in self.block.own:
            if own.name.name == name and own.words:
                words = tuple(word.name for word in own.words)
                return words, dict(self.instance.words).get(name, words[0])
        choice = self.linked.options.get(name)
        return (choice.words, choice.chosen) if choice else None

    def _targets(self, following: Sequence[ast.NodeUse]) -> tuple[Shape | None, ...]:
        """Shapes of the label that a node's edge reaches across nodes that keep shapes."""
        for i, use in enumerate(following):
            if i and self._kept(use.guard) and not self._keeps_shape(use):
                return (None,)
            if use.label:
                shapes = self._label_shapes(use.label)
                if any(shapes) or len(shapes) > 1:
                    return shapes
        return (None,)

    def _keeps_shape(self, use: ast.NodeUse) -> bool:
        op = self._operator(use.operator)
        return isinstance(op, Op) and op.keeps_shape

    def _label_shapes(self, label: ast.Label) -> tuple[Shape | None, ...]:
        if label.shape:
            return (self._expanded(label.shape),)
        return tuple(self._port_shape(port) for port in label.ports)

    def _port_shape(self, port: ast.Port) -> Shape | None:
        if port.shape:
            return self._expanded(port.shape)
        for output in self.block.outputs:
            if output.name.name == port.name.name and output.shape:
                return self._expanded(output.shape)
        return None

    def _expanded(self, shape: ast.Shape) -> Shape:
        return tuple(self.sizes.expand(dim) for dim in self.reader.shape(shape))

    # ---- names ----------------------------------------------------------------------------------

    def _name(self, values: Sequence[Value], label: ast.Label) -> None:
        if label.shape:
            self._claim(values[0], self.reader.type(label.shape, None), label.span)
            return
        if len(values) != len(label.ports):
            raise Refused(
                WrongOperands(label.span, "this label", f"{len(label.ports)} values", len(values))
            )
        for value, port in zip(values, label.ports, strict=True):
            declared = self._declared(port)
            if declared:
                self._claim(value, declared, port.span)
            self._bind(port.name, value)

    def _declared(self, port: ast.Port) -> TensorType | None:
        written = port
        if port.shape is None:
            for output in self.block.outputs:
                if output.name.name == port.name.name:
                    written = output
        return self.reader.type(written.shape, written.range) if written.shape else None

    def _claim(self, value: Value, type_: TensorType, span: Span) -> None:
        self.claims.append((value, type_, span))

    def _bind(self, name: ast.Name, value: Value) -> None:
        known = self.values.get(name.name)
        if known is not None:
            raise Refused(NameTwice(name.span, name.name, known.span))
        self.values[name.name] = value

    def _made(self, label: ast.Label | None, count: int, span: Span) -> tuple[Value, ...]:
        """New values for the outputs of a node, under the names and shapes of its label."""
        ports = label.ports if label else ()
        if len(ports) == count:
            return tuple(
                Value(port.name.name, "edge", port.name.span, self._declared(port))
                for port in ports
            )
        if count == 1 and not ports:
            shape = label.shape if label else None
            declared = self.reader.type(shape, None) if shape else None
            return (Value(None, "edge", span, declared),)
        if ports:
            raise Refused(
                WrongOperands(
                    label.span if label else span, "this label", f"{len(ports)} values", count
                )
            )
        return tuple(Value(None, "edge", span) for _ in range(count))

    # ---- operands -------------------------------------------------------------------------------

    def operand(self, operand: ast.Operand, peer: Value | None) -> Value:
        """A value, an operator in front of what it takes, or a chain in parentheses."""
        match operand:
            case ast.Path():
                return self.path(operand)
            case ast.Call():
                return self._prefix(operand, peer)
            case ast.Chain():
                return self._chain(operand, peer)

    def path(self, path: ast.Path) -> Value:
        """A value of this block, or a parameter of a call (`bert.E`)."""
        first = path.segments[0].name
        if len(path.segments) == 1:
            if first in self.values:
                self.read.add(self.values[first])
                return self.values[first]
            if first in self.spoiled:
                raise Refused()
            operator = isinstance(self._operator(path.segments[0]), Op)
            raise Refused(UnknownValue(path.span, path.span.text, tuple(self.values), operator))
        if first not in self.calls:
            raise Refused(UnknownValue(path.span, path.span.text, tuple(self.calls)))
        if path.name not in self.foreign:
            self.foreign[path.name] = Value(path.name, "param", path.span)
        return self.foreign[path.name]

    def _prefix(self, call: ast.Call, peer: Value | None) -> Value:
        """`f(x, a)` is `x -> f(a)`: data operands come first, the rest is the node's own."""
        op = self._operator(call.operator)
        count = 0
        if isinstance(op, Op):
            count = len([data for data in op.data if not data.optional])
        elif op is not None:
            count = len(op.block.data)
        data = [a for a in call.arguments[:count] if a.name is None]
        arriving = tuple(self._data_argument(argument) for argument in data)
        use = ast.NodeUse(
            call.span,
            call.operator,
            call.axes,
            call.arguments[len(data) :],
            (),
            None,
            None,
            None,
            None,
        )
        made = self._node(use, arriving, (None,), peer)
        if len(made) != 1:
            raise Refused(SeveralOutputs(call.span, call.operator.name, len(made)))
        return made[0]

    def _data_argument(self, argument: ast.Argument) -> Value:
        value = argument.value
        if isinstance(value, ast.Path | ast.Call):
            return self.operand(value, None)
        raise Refused(UnknownValue(value.span, value.span.text, tuple(self.values)))

    # ---- nodes ----------------------------------------------------------------------------------

    def _operator(self, name: ast.Name) -> Op | Located | None:
        """What a node's name stands for, options followed to the chosen word."""
        choice = self.linked.options.get(name.name)
        if choice is not None:
            word = choice.chosen
            return choice.unit.blocks.get(word) or choice.unit.operator(word)
        own = self.option(name.name)
        word = own[1] if own else name.name
        return self.unit.blocks.get(word) or self.unit.operator(word)

    def _node(
        self,
        use: ast.NodeUse,
        arriving: Sequence[Value],
        targets: tuple[Shape | None, ...],
        peer: Value | None,
    ) -> tuple[Value, ...]:
        if use.operator.name in self.calls:
            instance, _ = self.calls[use.operator.name]
            return self._call(use, instance, use.operator.name, arriving)
        found = self._operator(use.operator)
        if found is None:
            self._refuse_operator(use.operator)
        if isinstance(found, Op):
            return self._apply(use, found, arriving, targets, peer)
        assert found is not None
        return self._first_call(use, found, arriving)

    def _refuse_operator(self, name: ast.Name) -> None:
        if name.name in COLLECTIVES:
            raise Refused(NotYet(name.span, f"the collective {name.name}"))
        known = (*self.unit.blocks, *self.unit.ops, *self.linked.options, *_glyphs())
        value = name.name in self.values
        raise Refused(UnknownOperator(name.span, name.name, known, value))

    def _attached(
        self, use: ast.NodeUse, arriving: Sequence[Value], *, matmul: bool
    ) -> list[Value]:
        """All data operands of a node in order: those of the chain, then those beside it."""
        doubles = [attached for attached in use.attachments if attached.arrow == "<="]
        if doubles and not matmul:
            raise Refused(DoubleArrow(doubles[0].span, use.operator.name))
        if matmul and (len(doubles) != 1 or len(use.attachments) != 1 or len(arriving) != 1):
            raise Refused(DoubleArrow(use.span, "•"))
        peer = arriving[0] if arriving else None
        return [*arriving, *(self.operand(attached.operand, peer) for attached in use.attachments)]

    def _apply(
        self,
        use: ast.NodeUse,
        op: Op,
        arriving: Sequence[Value],
        targets: tuple[Shape | None, ...],
        peer: Value | None,
    ) -> tuple[Value, ...]:
        if use.repeat or use.instance:
            what = "repeated" if use.repeat else "named"
            raise Refused(
                NotYet(use.span, f"an operator that is {what}: put it into a block, which")
            )
        data = self._attached(use, arriving, matmul=op.family == "matmul")
        required = len([d for d in op.data if not d.optional])
        if not op.variadic and not required <= len(data) <= len(op.data):
            takes = _takes(required, len(op.data))
            raise Refused(WrongOperands(use.span, use.operator.name, takes, len(data)))
        tensors, own, absent = op_arguments(self, use, op)
        absent += tuple(d.name for d in op.data[len(data) :])
        count = len(op.outputs) or len(targets)
        outputs = self._made(use.label, count, use.span)
        attrs = {**own, "absent": absent} if absent else dict(own)
        if op.variadic:
            attrs["count"] = len(data)
        self.steps.append(
            Apply(
                op,
                (*data, *tensors),
                outputs,
                attrs,
                use.span,
                place=outputs[0].name or self._place(op),
                pending=Pending(self.reader.axes(use.axes), targets, peer),
            )
        )
        return outputs

    def _place(self, op: Op) -> str:
        """A name for a node whose edge has none: its glyph and its number among those."""
        self.unnamed[op.glyph] = self.unnamed.get(op.glyph, 0) + 1
        return f"{op.glyph}_{self.unnamed[op.glyph]}"

    def _first_call(
        self, use: ast.NodeUse, located: Located, arriving: Sequence[Value]
    ) -> tuple[Value, ...]:
        default = (
            use.operator.name
            if use.operator.name in self.linked.options
            else located.block.name.name
        )
        name = use.instance.name if use.instance else default
        if name in self.calls:
            raise Refused(UnnamedTwice(use.span, name, self.calls[name][1]))
        instance = block_arguments(self, use, located)
        self.calls[name] = (instance, use.span)
        return self._call(use, instance, name, arriving)

    def _call(
        self, use: ast.NodeUse, instance: Instance, name: str, arriving: Sequence[Value]
    ) -> tuple[Value, ...]:
        block = instance.located.block
        data = self._attached(use, arriving, matmul=False)
        if len(data) != len(block.data):
            takes = _takes(len(block.data), len(block.data))
            raise Refused(WrongOperands(use.span, use.operator.name, takes, len(data)))
        outputs = self._made(use.label, len(block.outputs), use.span)
        if use.repeat and len(outputs) != 1:
            raise Refused(SeveralOutputs(use.span, block.name.name, len(outputs)))
        self.steps.append(
            Call(
                callee=self.request(instance),
                path=name,
                inputs=tuple(data),
                outputs=outputs,
                saved=Value(name, "saved", use.span),
                span=use.span,
                count=self.sizes.expand(self.reader.dim(use.repeat)) if use.repeat else None,
            )
        )
        return outputs


def _takes(least: int, most: int) -> str:
    count = str(least) if least == most else f"{least} to {most}"
    return f"{count} operand{'s' if most != 1 else ''}"


def _glyphs() -> tuple[str, ...]:
    from xg import ops

    return tuple(ops.table())


def _labels(chain: ast.Chain) -> set[str]:
    """Every name that a chain would have made."""
    labels = [chain.label, *(use.label for use in chain.steps)]
    return {port.name.name for label in labels if label for port in label.ports}


def _mentioned(block: ast.Block) -> set[str]:
    """Every name that stands where a value can stand, in any choice of options."""
    names: set[str] = set()
    pending: list[object] = list(block.chains)
    while pending:
        part = pending.pop()
        match part:
            case ast.Path():
                names.add(part.segments[0].name)
            case ast.Chain():
                pending.extend((*part.sources, *part.steps))
            case ast.NodeUse():
                pending.extend((*part.arguments, *(a.operand for a in part.attachments)))
            case ast.Call():
                pending.extend(part.arguments)
            case ast.Argument():
                pending.append(part.value)
            case _:
                pass
    return names
