"""The names of a block while it is read: values, calls, options, sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, Scalar
from xg.ir.graph import Apply, Call, Value
from xg.ir.op import Op
from xg.ir.placement import Layout
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.passes.resolve.errors import (
    NameTwice,
    ParamOfRow,
    Refused,
    UnknownOption,
    UnknownValue,
    UnknownWord,
    WrongOperands,
)
from xg.passes.resolve.expressions import ExpressionReader
from xg.passes.resolve.units import Linked, LocatedBlock, Unit
from xg.syntax import ast
from xg.syntax.spelling import greek_name

# A block with everything chosen: what one graph is made for.


@dataclass(frozen=True, slots=True)
class BlockInstance:
    """A block with everything chosen: what one graph is made for."""

    located: LocatedBlock
    words: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, Scalar], ...] = ()

    @property
    def name(self) -> str:
        """The block's name with what was chosen: ``Attention(mask=causal)``."""
        chosen = [f"{name}={value}" for name, value in (*self.words, *self.numbers)]
        return self.located.block.name.name + (f"({', '.join(chosen)})" if chosen else "")


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call that was made: what it calls and where, and whether `as` named it or it is a row.

    `sizes` are the callee's symbols that the call gives, in the caller's sizes.
    """

    instance: BlockInstance
    sizes: Mapping[str, Dim]
    span: Span
    named: bool
    row: bool


Request = Callable[[BlockInstance], str]  # the key of an instance's graph, which is made if need be


# Meanings of option and operator names in one instance of a block, and which were looked up.


Words = tuple[tuple[str, ...], str]  # the words of an option and the chosen one


@dataclass(slots=True)
class Lookups:
    """The only way to the options and operators that an instance sees.

    `options` and `operators` hold every answer: an instance with the same answers has the same
    graph.
    """

    linked: Linked
    instance: BlockInstance
    options: dict[str, Words | None] = field(default_factory=dict[str, "Words | None"])
    operators: dict[str, Op | LocatedBlock | None] = field(
        default_factory=dict[str, "Op | LocatedBlock | None"]
    )

    def option(self, name: str) -> Words | None:
        """Words and the chosen one, of an option of the call or of the program."""
        if name not in self.options:
            self.options[name] = self._option(name)
        return self.options[name]

    def operator(self, name: str) -> Op | LocatedBlock | None:
        """The operator or block that a node names, options followed to the chosen word."""
        if name not in self.operators:
            self.operators[name] = self._operator(name)
        return self.operators[name]

    def _option(self, name: str) -> Words | None:
        for own in self.instance.located.block.own:
            if own.name.name == name and own.words:
                words = tuple(word.name for word in own.words)
                return words, dict(self.instance.words).get(name, words[0])
        choice = self.linked.options.get(name)
        return (choice.words, choice.chosen) if choice else None

    def _operator(self, name: str) -> Op | LocatedBlock | None:
        located = self.instance.located
        own = any(own.name.name == name and own.words for own in located.block.own)
        choice = None if own else self.linked.options.get(name)
        if choice is not None:
            word = choice.chosen
            return choice.unit.blocks.get(word) or choice.unit.operator(word)
        chosen = self._option(name)
        word = chosen[1] if chosen else name
        return located.unit.blocks.get(word) or located.unit.operator(word)


@dataclass(slots=True)
class BlockScope:
    """The names of one instance of a block, and the nodes made so far."""

    lookups: Lookups
    request: Request
    linked: Linked = field(init=False)
    instance: BlockInstance = field(init=False)
    reader: ExpressionReader = field(init=False)
    sizes: Sizes = field(init=False)
    values: dict[str, Value] = field(default_factory=dict[str, Value], init=False)
    spoiled: set[str] = field(default_factory=set[str], init=False)
    unlabeled: bool = field(default=False, init=False)  # a label has too few names, one is meant
    steps: list[Apply | Call] = field(default_factory=list[Apply | Call], init=False)
    calls: dict[str, ResolvedCall] = field(default_factory=dict[str, ResolvedCall], init=False)
    foreign: dict[str, Value] = field(default_factory=dict[str, Value], init=False)
    claims: list[tuple[Value, TensorType, Span]] = field(
        default_factory=list[tuple[Value, TensorType, Span]], init=False
    )
    aliases: list[tuple[str, Value]] = field(default_factory=list[tuple[str, Value]], init=False)
    unnamed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    read: set[Value] = field(default_factory=set[Value], init=False)
    outputs: dict[str, ast.Port] = field(init=False)
    laid: dict[Value, tuple[Layout, Span]] = field(
        default_factory=dict[Value, tuple[Layout, Span]], init=False
    )

    def __post_init__(self) -> None:
        """Derive the sizes, the expression reader and the outputs of the block."""
        self.linked, self.instance = self.lookups.linked, self.lookups.instance
        self.sizes = self.linked.sizes_of(self.block)
        numbers = dict(self.instance.numbers)
        dims = self.linked.dims | {decl.name.name for decl in self.block.dims}
        mesh = frozenset(self.linked.mesh)
        self.reader = ExpressionReader(dims, mesh, numbers, values=self.values)
        self.outputs = {port.name.name: port for port in self.block.outputs}

    @property
    def block(self) -> ast.Block:
        """The block as written."""
        return self.instance.located.block

    @property
    def unit(self) -> Unit:
        """The file whose names it sees."""
        return self.instance.located.unit

    # ---- options and operators ------------------------------------------------------------------

    def kept(self, guard: ast.Guard | None) -> bool:
        """Whether a node is there for the chosen options."""
        if guard is None:
            return True
        name = guard.option.name
        words, chosen = self.option(name) or (None, "")
        if words is None:
            raise Refused(UnknownOption(guard.option.span, name, tuple(self.linked.options)))
        first: dict[str, ast.Name] = {}
        for word in guard.words:
            if word.name not in words:
                raise Refused(UnknownWord(word.span, name, word.name, words))
            if first.setdefault(word.name, word) is not word:
                raise Refused(NameTwice(word.span, word.name, first[word.name].span))
        return chosen in [word.name for word in guard.words]

    def option(self, name: str) -> tuple[tuple[str, ...], str] | None:
        """Words and the chosen one, of an option of the call or of the program."""
        return self.lookups.option(name)

    def operator(self, name: ast.Name) -> Op | LocatedBlock | None:
        """The operator of a node's name, options followed to the chosen word."""
        return self.lookups.operator(name.name)

    def again(self, use: ast.NodeUse) -> ResolvedCall | None:
        """The named call that a node makes again."""
        call = self.calls.get(use.operator.name)
        return call if call and call.named and use.instance is None else None

    # ---- values ---------------------------------------------------------------------------------

    def path(self, path: ast.Path) -> Value:
        """A value of this block, or a parameter of a call (`bert.E`)."""
        first = path.segments[0].name
        if len(path.segments) == 1:
            if first in self.values:
                self.read.add(self.values[first])
                return self.values[first]
            if first in self.spoiled or self.unlabeled:
                raise Refused()
            other = "dim" if first in self.reader.dims else "nothing"
            other = "number" if first in self.reader.numbers else other
            if isinstance(self.operator(path.segments[0]), Op):
                other = "operator"
            name = path.span.text
            raise Refused(
                UnknownValue(path.span, name, tuple(self.values), other, self._as_input(name))
            )
        if first not in self.calls:
            raise Refused(UnknownValue(path.span, path.span.text, tuple(self.calls)))
        if self.calls[first].row:
            raise Refused(ParamOfRow(path.span, first, self.calls[first].span))
        if path.name not in self.foreign:
            params = self.calls[first].instance.located.block.params
            frozen = {param.name.name for param in params if param.frozen}
            is_frozen = path.segments[1].name in frozen
            self.foreign[path.name] = Value(path.name, "param", path.span, frozen=is_frozen)
        return self.foreign[path.name]

    def _as_input(self, name: str) -> str:
        """A name with the shape of the first input."""
        shapes = [port.shape for port in self.block.data if port.shape]
        return f"{name} {shapes[0].span.text}" if shapes else ""

    def name(self, values: Sequence[Value], label: ast.Label) -> None:
        """Give values the names of a label, and note the types that it promises."""
        if label.shape:
            self._claim(values[0], self.reader.type(label.shape, None), label.span)
            self.lay(values[0], label.shape)
            return
        if len(values) != len(label.ports):
            raise self._wrong_label(label, len(values), ())
        for value, port in zip(values, label.ports, strict=True):
            declared = self.declared(port)
            if declared:
                self._claim(value, declared, port.span)
            for written in self._written(port):
                self._promise(value, written, port)
            self.bind(port.name, value)

    def _written(self, port: ast.Port) -> tuple[ast.Port, ...]:
        """A name where it has a shape: in its label, among the outputs of the block."""
        output = self.outputs.get(port.name.name)
        both = (port, output) if output else (port,)
        return tuple(written for written in both if written.shape)

    def declared(self, port: ast.Port) -> TensorType | None:
        """The type that the text gives an edge of this name."""
        written = next(iter(self._written(port)), None)
        return self.reader.type(written.shape, written.range) if written and written.shape else None

    def _promise(self, value: Value, written: ast.Port, label: ast.Port) -> None:
        """Hold a value to what an output promises, where its label has a shape of its own."""
        assert written.shape
        if label.shape and (label.shape, label.range) != (written.shape, written.range):
            self._claim(value, self.reader.type(written.shape, written.range), written.span)
        self.lay(value, written.shape)

    def lay(self, value: Value, shape: ast.Shape) -> None:
        """Note what cuts a value where the file gives its shape."""
        layout = self.reader.layout(shape, plan=False)
        first, span = self.laid.setdefault(value, (layout, shape.span))
        if first.axes(len(first.dims)) != layout.axes(len(layout.dims)):
            from xg.passes.resolve.plan_errors import TwoLayouts  # few files have plans

            raise Refused(TwoLayouts(shape.span, str(layout), str(first), span))

    def layouts(self) -> dict[Value, dict[str, int]]:
        """The cuts of all values that the file cuts."""
        laid = {value: layout.axes(len(layout.dims)) for value, (layout, _) in self.laid.items()}
        return {value: axes for value, axes in laid.items() if axes}

    def _claim(self, value: Value, type_: TensorType, span: Span) -> None:
        self.claims.append((value, type_, span))

    def bind(self, name: ast.Name, value: Value) -> None:
        """Make a name known."""
        earlier = self.values.get(name.name)
        if earlier is not None:
            raise Refused(NameTwice(name.span, name.name, earlier.span))
        self.values[name.name] = value
        if value.name != name.name:
            self.aliases.append((name.name, value))

    def made(
        self, label: ast.Label | None, count: int, span: Span, called: Sequence[str] = ()
    ) -> tuple[Value, ...]:
        """New values for the outputs of a node, under the names and shapes of its label.

        `called` is how the node itself calls its outputs.
        """
        ports = label.ports if label else ()
        if len(ports) == count:
            return tuple(
                Value(port.name.name, "edge", port.name.span, self.declared(port)) for port in ports
            )
        if count == 1 and not ports:
            shape = label.shape if label else None
            declared = self.reader.type(shape, None) if shape else None
            return (Value(None, "edge", span, declared),)
        if label and ports:
            raise self._wrong_label(label, count, called)
        return tuple(Value(None, "edge", span) for _ in range(count))

    def _wrong_label(self, label: ast.Label, count: int, called: Sequence[str]) -> Refused:
        """A label with more or fewer names than values arrive."""
        self.unlabeled |= count > len(label.ports)
        takes = f"{len(label.ports)} value{'s' if len(label.ports) != 1 else ''}"
        named = [greek_name(port.name.name) for port in label.ports]
        names = [*named, *called[len(named) :]][:count]
        if len(named) == 1 and any(each.range for each in self._written(label.ports[0])):
            names = [*called[: count - 1], *named]  # places are behind values
        names = names if len({*names}) == count else called
        help = (f"name all of them: `: {', '.join(names)}`",) if len(called) == count > 1 else ()
        return Refused(WrongOperands(label.span, "this label", takes, count, help=help))

    def place(self, op: Op) -> str:
        """A name for a node whose edge has none: its glyph and its number among those."""
        self.unnamed[op.glyph] = self.unnamed.get(op.glyph, 0) + 1
        return f"{op.glyph}_{self.unnamed[op.glyph]}"

    def label_shapes(self, label: ast.Label) -> tuple[Shape | None, ...]:
        """The shapes that a label gives, one per name."""
        if label.shape:
            return (self.reader.shape(label.shape),)
        return tuple(self._port_shape(port) for port in label.ports)

    def _port_shape(self, port: ast.Port) -> Shape | None:
        written = next(iter(self._written(port)), None)
        return self.reader.shape(written.shape) if written and written.shape else None
