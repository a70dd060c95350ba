"""One instance of a block as an untyped graph: names looked up, nodes in order."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.source import Span
from xg.diagnostics.wording import SLIP, similar
from xg.ir.graph import Apply, Graph, MeantZero, Param, Remark, Value
from xg.ir.scalar import as_scalar, size
from xg.ir.tensor import TensorType
from xg.passes.resolve.chains import read_statement
from xg.passes.resolve.errors import (
    NameTwice,
    OutputMissing,
    Refused,
    UnknownOperator,
    UnknownValue,
    UnusedParam,
)
from xg.passes.resolve.instance import Request
from xg.passes.resolve.lookups import Lookups
from xg.passes.resolve.meant_zeros import meant_zeros
from xg.passes.resolve.mentions import Mentions
from xg.passes.resolve.remarks import remarks
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.size_errors import UnknownSize, told_once
from xg.passes.resolve.starts import start
from xg.passes.resolve.states import carries, declare_state
from xg.syntax import ast
from xg.syntax.spelling import ascii_name

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
        self._find_unfinished()
        if self.problems:
            problems = [p for refused in self.problems for p in refused.problems]
            explained = any(isinstance(problem, UNKNOWN) for problem in problems)
            unused = [] if explained else self._unused()
            raise Incomplete(self._rest(inputs), *told_once(problems), *unused)
        graph = replace(self._whole(inputs, pasts, marked), meant_zeros=zeros)
        if unused := self._unused():
            names = {problem.name for problem in unused}
            spare = tuple(param for name, param in self.params.items() if name in names)
            raise Incomplete(replace(graph, unused=spare), *unused)
        return graph

    def _whole(
        self, inputs: tuple[Value, ...], pasts: list[Value], marked: tuple[Remark, ...]
    ) -> Graph:
        """The graph of a block whose names are all known."""
        outputs = self._outputs()
        states = tuple(carries(self.scope, pasts))
        tables = self._tables()
        started = tuple(
            self._started(param, decl, tables)
            for param, decl in zip(self.params.values(), self.block.params, strict=True)
            if param.value in self.scope.read
        )
        return replace(
            self._made(inputs, outputs, started),
            inputs=(*inputs, *pasts),
            outputs=(*outputs, *(state.next for state in states)),
            output_names=tuple(p.name.name for p in (*self.block.outputs, *self.block.states)),
            output_types=(*self._output_types(), *(v.declared for v in pasts if v.declared)),
            claims=tuple(self.scope.claims),
            carries=states,
            remarks=marked,
        )

    def _rest(self, inputs: tuple[Value, ...]) -> Graph | None:
        """The part without errors, for an editor: what a text gives the shape of counts as given.

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
            return self._made(inputs, known, tuple(params)) if len(known) == len(outputs) else None
        return None

    def _made(
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
        type_ = self._attempt(lambda: self._declared(port))
        value = Value(port.name.name, "input", port.span, type_, port.frozen is not None)
        self.scope.bind(port.name, value)
        if type_ and port.shape:
            self.scope.lay(value, port.shape)
        return value

    def _declared(self, port: ast.Port) -> TensorType:
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

    def _started(self, param: Param, decl: ast.Param, tables: Container[Value]) -> Param:
        """The initial value of a parameter: that of the file, else normal by its fan-in."""
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

    def _find_unfinished(self) -> None:
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

    def _unused(self) -> list[UnusedParam]:
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
