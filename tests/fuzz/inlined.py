"""A program without calls: the body of every called block is written in the place of its calls.

The text is written again from the tree, name by name, so nothing of the compiler's own handling of
calls is used: the sizes of a call are those that the generator chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from fuzz.in_front import as_node
from fuzz.sketch import Sketch, Step, words

from xg import ops
from xg.diagnostics.diagnostic import Source
from xg.ir import use
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.parse import parse


class NotInlined(Exception):
    """The body cannot stand in its place: two sizes that it tells apart are one there."""


@dataclass(frozen=True)
class Inlined:
    """The text of the program, and by their old paths the new names of parameters."""

    text: str
    names: Mapping[str, str]


@dataclass
class Scope:
    """The names of a block, and what they are where its body is written."""

    block: ast.Block
    prefix: str
    path: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict[str, str])
    dims: dict[str, str] = field(default_factory=dict[str, str])
    own: dict[str, str] = field(default_factory=dict[str, str])
    calls: dict[str, tuple[ast.NodeUse, Step]] = field(
        default_factory=dict[str, tuple[ast.NodeUse, Step]]
    )

    def value(self, name: str) -> str:
        """The value under its new name; a path is that of a parameter of a call."""
        return self.values.get(name) or f"{self.prefix}{name}"

    def dim(self, name: str) -> str:
        """A size under its new name, or a number or word that the call gives."""
        return self.own.get(name) or self.dims.get(name, name)


def inlined(sketch: Sketch) -> Inlined:
    """The main block alone, with all that it calls written into it."""
    writer = _Writer(sketch)
    writer.block(Scope(writer.main, ""), sketch.main.name)
    mentioned = words("\n".join(writer.lines))  # others belong to other choices of the call
    ports = [_spell_ports(ports) for ports in (writer.main.data, writer.main.outputs)]
    dims = [f"{name} = {size}" if size else name for name, size in sketch.dims.items()]
    lines = [
        *([f"dim {', '.join([*dims, *writer.dims])}"] if dims or writer.dims else []),
        *(f"option {name} = {' | '.join(words)}" for name, words in sketch.options.items()),
        *sketch.ops,
        f"block {sketch.main.name} ({ports[0]}) -> {ports[1]} {{",
        *(f"    param {each}" for each in writer.params.values() if each.split()[0] in mentioned),
        *(f"    {line}" for line in writer.lines),
        "}\n",
    ]
    return Inlined("\n".join(lines), writer.names)


def _spell_ports(ports: Sequence[ast.Port]) -> str:
    return ", ".join(port.span.text for port in ports)


class _Writer:
    def __init__(self, sketch: Sketch) -> None:
        tree = parse(Source("case.xg", str(sketch)))
        self.blocks = {block.name.name: block for block in tree.blocks}
        self.main = tree.blocks[-1]
        self.operators = {op.name.name: [own.name.name for own in op.own] for op in tree.ops}
        self.tensors = {(op.name.name, own.name.name) for op in tree.ops for own in op.own
                        if own.shape}  # fmt: skip
        self.sizes = {decl.name.name: decl.size for decl in tree.dims if decl.size}
        self.steps = {
            block.name: [statement.steps for statement in block.statements]
            for block in sketch.blocks
        }
        self.numbers = sketch.dims
        self.dims: list[str] = []
        self.params: dict[str, str] = {}
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.fresh = count(1)

    # ---- blocks ---------------------------------------------------------------------------------

    def block(self, scope: Scope, sketched: str) -> None:
        """Write the lines of a block; the steps of its sketch say the sizes of calls."""
        for param in scope.block.params:
            old = ".".join((*scope.path, param.name.name))
            if old not in self.params:
                new = f"p{next(self.fresh)}_{param.name.name}" if scope.path else param.name.name
                start = f" = {_expr(scope, param.init)}" if param.init else ""
                start += " frozen" if param.frozen else ""
                self.params[old] = f"{new} {_shape(scope, param.shape)}{start}"
                self.names[old] = new
            scope.values[param.name.name] = self.names[old]
        for chain, steps in zip(scope.block.chains, self.steps[sketched], strict=True):
            self.statement(scope, chain, steps)

    def statement(self, scope: Scope, chain: ast.Chain, steps: Sequence[Step]) -> None:
        """Write a chain, or the body of the block that its only node calls."""
        match chain.sources:
            case (ast.Call() | ast.NodeUse() as first,) if steps and self.called(scope, first):
                self.call(scope, *self.node_of(scope, first, chain.label), steps[0])
            case sources if len(chain.steps) == 1 and self.called(scope, chain.steps[0]):
                self.call(scope, sources, chain.steps[0], steps[0])
            case _:
                for line in self.chain(scope, chain):
                    self.lines.append(line)

    def called(self, scope: Scope, node: ast.NodeUse | ast.Call) -> bool:
        """Whether a node is a call."""
        return node.operator.name in self.blocks or node.operator.name in scope.calls

    def node_of(
        self, scope: Scope, written: ast.Call | ast.NodeUse, label: ast.Label | None
    ) -> tuple[Sequence[ast.Start], ast.NodeUse]:
        """The operands and the node of a call in front of what it takes."""
        again, name = scope.calls.get(written.operator.name), written.operator.name
        block = self.blocks[again[0].operator.name if again else name]
        return as_node(written, len(block.data), label)

    def call(
        self, scope: Scope, sources: Sequence[ast.Start], node: ast.NodeUse, step: Step
    ) -> Sequence[str]:
        """Write the body that a node calls, as often as it says; give the names of its results."""
        name = node.instance.name if node.instance else node.operator.name
        again = scope.calls.get(name) if not node.instance else None
        first, sizes = again or (node, step)
        scope.calls[name] = (first, sizes)
        operands = [self.given(scope, operand) for operand in sources]
        operands += [self.given(scope, each.operand) for each in node.attachments]
        times = self.times(first.repeat)
        results = operands[:1]  # of a row of no calls
        for turn in range(times):
            path = (*scope.path, name, *([str(turn)] if first.repeat else []))
            inner = self.inner(scope, first, sizes, path)
            inputs = [port.name.name for port in inner.block.data]
            inner.values.update(zip(inputs, operands, strict=True))
            self.block(inner, inner.block.name.name)
            made = [inner.value(port.name.name) for port in inner.block.outputs]
            operands, results = [made[0], *operands[1:]], made
        ports = node.label.ports if node.label else ()
        for port, value in zip(ports, results, strict=bool(ports)):
            shape = f" {_shape(scope, port.shape)}" if port.shape else ""
            self.lines.append(f"{value} : {scope.value(port.name.name)}{shape}")
        if not first.repeat:
            self.reachable(scope, name, self.blocks[first.operator.name])
        return results

    def reachable(self, scope: Scope, name: str, block: ast.Block) -> None:
        """Let paths of the caller reach the parameters of a call."""
        for param in block.params:
            old = ".".join((*scope.path, name, param.name.name))
            scope.values[f"{name}.{param.name.name}"] = self.names[old]

    def times(self, repeat: ast.Number | ast.Path | None) -> int:
        """How many rounds a row of calls has."""
        match repeat:
            case None:
                return 1
            case ast.Number():
                return int(repeat.value)
            case ast.Path():
                return int(self.numbers[repeat.name])

    def given(self, scope: Scope, operand: ast.Start) -> str:
        """The name of a value that a call is given; a chain in parentheses gets one."""
        if isinstance(operand, ast.Path):
            return scope.value(operand.name)
        name = f"g{next(self.fresh)}"
        self.lines.append(f"{self.operand(scope, operand)} : {name}")
        return name

    def inner(self, scope: Scope, node: ast.NodeUse, step: Step, path: tuple[str, ...]) -> Scope:
        """The names of a called block: its own get a prefix, its sizes are the caller's."""
        block = self.blocks[node.operator.name]
        inner = Scope(block, f"i{next(self.fresh)}_", path)
        inner.dims = self.bound(scope, dict(step.sizes), block)
        for own in block.own:
            inner.own[own.name.name] = own.words[0].name if own.words else own.default.span.text  # pyright: ignore
        for argument in node.arguments:
            assert argument.name is not None, node.span.text
            if argument.name.name in inner.own:
                inner.own[argument.name.name] = f"{_expr(scope, argument.value)}"
        return inner

    def bound(self, scope: Scope, sizes: Mapping[str, str], block: ast.Block) -> dict[str, str]:
        """The names that the sizes of a called block have: new ones for those that differ."""
        bound = dict(scope.dims)
        own = {decl.name.name: decl.size for decl in block.dims if decl.size}
        there = {scope.dim(name) for name in words(block.span.text) - {*sizes, *own}}
        for name, size in sizes.items():
            bound[name] = self.size(_expr(scope, _expression(size)))
            if there & words(_expr(scope, _expression(size))):
                raise NotInlined(f"{name} is {size} in {block.name.name}")
        changed = {*sizes, *scope.dims}
        for name, size in {**self.sizes, **own}.items():  # E = 2*K, where K is another one
            if name in own or (changed & _names(size) and name not in sizes):
                inner = Scope(block, "", dims=bound)
                bound[name] = self.size(_expr(inner, size))
                changed.add(name)
        return bound

    def size(self, text: str) -> str:
        """A name for a size: its own, or a new one."""
        if text.isidentifier():
            return text
        self.dims.append(f"q{next(self.fresh)} = {text}")
        return self.dims[-1].split(" ")[0]

    # ---- chains ---------------------------------------------------------------------------------

    def chain(self, scope: Scope, chain: ast.Chain) -> Iterator[str]:
        """A statement, cut where both edges of a node that is left out have names."""
        text = ", ".join(self.operand(scope, source) for source in chain.sources)
        label = chain.label
        for node in chain.steps:
            if self.kept(scope, node) is not False:
                text += f"{self.label(scope, label)} -> {self.node(scope, node)}"
                label = node.label
            elif label is None or not label.ports:
                label = node.label or label
            elif node.label and node.label.ports:
                yield text + self.label(scope, label)
                text, label = scope.value(label.ports[0].name.name), node.label
        yield text + self.label(scope, label)

    def kept(self, scope: Scope, node: ast.NodeUse) -> bool | None:
        """Whether an argument of the call keeps a node; None where an option of the file says."""
        if node.guard is None or node.guard.option.name not in scope.own:
            return None
        return scope.own[node.guard.option.name] in {word.name for word in node.guard.words}

    def node(self, scope: Scope, node: ast.NodeUse) -> str:
        """One node without its label."""
        text = node.operator.name + _brackets(scope, node.axes)
        text += self.arguments(scope, node.operator.name, node.arguments)
        for each in node.attachments:
            inner = self.operand(scope, each.operand)
            text += f"{each.arrow}{inner}"
        if node.guard and self.kept(scope, node) is None:
            text += f" if {node.guard.option.name} = "
            text += " | ".join(word.name for word in node.guard.words)
        assert node.instance is None, node.span.text
        return text

    def operand(self, scope: Scope, operand: ast.Start) -> str:
        """A value, an operator in front of its operands, or a chain in parentheses."""
        match operand:
            case ast.Path():
                return scope.value(operand.name)
            case ast.Call() | ast.NodeUse() if self.called(scope, operand):
                sources, node = self.node_of(scope, operand, None)
                return self.call(scope, sources, node, Step("", ()))[0]
            case ast.Call():
                data = self.data_count(operand.operator.name)
                values = [_expr(scope, each.value) for each in operand.arguments]
                for place, each in enumerate(operand.arguments[:data]):
                    assert isinstance(each.value, ast.Path), operand.span.text
                    values[place] = scope.value(each.value.name)
                axes = _brackets(scope, operand.axes)
                return f"{operand.operator.name}{axes}({', '.join(values)})"
            case ast.Chain():
                (text,) = self.chain(scope, operand)
                return f"({text})"
            case ast.NodeUse():
                raise AssertionError(operand.span.text)

    def data_count(self, operator: str) -> int:
        """How many of the operands in parentheses are values."""
        op = ops.find(operator)
        return len(op.data) if op else 0

    def label(self, scope: Scope, label: ast.Label | None) -> str:
        """The names and shapes of a label."""
        if label is None:
            return ""
        if label.shape:
            return f" : {_shape(scope, label.shape)}"
        return " : " + ", ".join(self.port(scope, port) for port in label.ports)

    def port(self, scope: Scope, port: ast.Port) -> str:
        """A name and its type."""
        text = scope.value(port.name.name)
        text += f" {_shape(scope, port.shape)}" if port.shape else ""
        return text + (f" in {_expr(scope, port.range)}" if port.range else "")

    # ---- arguments ------------------------------------------------------------------------------

    def arguments(self, scope: Scope, operator: str, given: Sequence[ast.Argument]) -> str:
        """The arguments of an operator: parameters, numbers and words."""
        op = ops.find(operator) if operator not in self.operators else None
        names = [own.name for own in op.own] if op else self.operators.get(operator, [])
        said = {w: own.name for own in (op.own if op else ()) if isinstance(own, use.Word)
                for w in own.choices}  # fmt: skip
        tensors = {own.name for own in (op.own if op else ()) if isinstance(own, use.Tensor)}
        taken: list[str] = []
        texts: list[str] = []
        for each in given:
            free = (name for name in names if name not in taken)
            name = each.name.name if each.name else said.get(each.value.span.text) or next(free)
            taken.append(name)
            tensor = name in tensors or (operator, name) in self.tensors
            path = isinstance(each.value, ast.Path)
            text = scope.value(each.value.name) if tensor and path else _expr(scope, each.value)  # pyright: ignore
            texts.append(f"{name}={text}" if each.name else text)
        return f"({', '.join(texts)})" if texts else ""


# ---- sizes and axes ------------------------------------------------------------------------------


def _shape(scope: Scope, shape: ast.Shape) -> str:
    """The sizes of a tensor."""
    dims = [".." if isinstance(d, ast.Rest) else _expr(scope, d) for d in shape.dims]
    return f"[{', '.join(dims)}]"


def _expr(scope: Scope, expr: ast.Expr) -> str:
    """An expression over sizes and numbers, with parentheses around every part."""
    match expr:
        case ast.Number():
            return expr.digits
        case ast.Path():
            return scope.dim(expr.name)
        case ast.Call():
            inner = ", ".join(_expr(scope, each.value) for each in expr.arguments)
            return f"{expr.operator.name}({inner})"
        case ast.Arithmetic():
            text = _part(scope, expr.first)
            return text + "".join(
                f" {each.sign} {_part(scope, each.operand)}" for each in expr.rest
            )
        case ast.Negation():
            return f"-{_part(scope, expr.operand)}"
        case ast.Power():
            return f"{_part(scope, expr.base)}^{_part(scope, expr.exponent)}"
        case _:
            raise AssertionError(expr.span.text)


def _part(scope: Scope, expr: ast.Expr) -> str:
    """A part of a larger expression."""
    text = _expr(scope, expr)
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def _brackets(scope: Scope, axes: ast.AxisMap | None) -> str:
    """A list of axes, or a map, whose letters stay."""
    if axes is None:
        return ""
    named = axes.target is None
    source = ", ".join(_axis(scope, item, named=named) for item in axes.source)
    if axes.target is None:
        return f"[{source}]"
    target = ", ".join(_axis(scope, item, named=False) for item in axes.target)
    return f"[{source} -> {target}]"


def _axis(scope: Scope, item: ast.AxisItem, *, named: bool) -> str:
    """One axis in brackets, or a group."""
    match item:
        case ast.Axis():
            name = scope.dim(item.name.name) if named else item.name.name
            return name + (f"={_expr(scope, item.size)}" if item.size else "")
        case ast.AxisGroup():
            return f"({', '.join(_axis(scope, a, named=named) for a in item.axes)})"
        case _:
            return item.span.text


def _expression(size: str) -> ast.Expr:
    (decl,) = parse(Source("size.xg", f"dim q = {size}")).dims
    assert decl.size is not None
    return decl.size


def _names(tree: ast.Expr) -> set[str]:
    return {part.name for part in walk(tree) if isinstance(part, ast.Path)}
