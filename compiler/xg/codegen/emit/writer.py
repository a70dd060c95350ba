"""The common parts of the forward and the backward function of a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from xg.codegen.emit.line_breaks import commented, indented
from xg.codegen.emit.locate import Source, locate
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import Names, mentioned, spell_symbol
from xg.codegen.emit.sizes import shape_text
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.statements import Statements
from xg.codegen.emit.text import Text
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import symbol
from xg.ir.graph import Call, Graph, Step, Value
from xg.ir.scalar import Scalar
from xg.ir.size_sources import carried_symbols
from xg.ir.tensor import spell_shape


@dataclass(slots=True)
class PassWriter:
    """Writes one pass of one graph."""

    plan: ModulePlan
    graph: Graph
    names: Names
    scope: Scope
    statements: Statements
    known: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    lost: tuple[str, ...] = field(default=(), kw_only=True)

    # ---- what both passes need ------------------------------------------------------------------

    def function(
        self, head: Sequence[str], before: Sequence[str], code: Sequence[str]
    ) -> list[str]:
        """The whole function, whose code begins with the statements; the plan gets their marks."""
        start = len(head) + len(before)
        marks = tuple(mark.moved(start) for mark in self.statements.marks)
        self.plan.marks[self.graph.key, self.statements.backward] = marks
        return [*head, *indented([*before, *code])]

    @property
    def path(self) -> bool:
        """Whether the function takes a path."""
        return self.plan.has_path(self.graph)

    def below(self, name: str) -> str:
        """A path below this block's, as text."""
        if self.path and not name:
            return "at"
        return f'f"{{at}}.{name}"' if self.path else f'"{name}"'

    def take_params(self, values: Sequence[Value]) -> list[str]:
        """Lines that fetch parameters under their names."""
        lines: list[str] = []
        for value in values:
            name = self.names.fresh(str(value.name))
            self.statements.texts[value] = Text(name)
            comment = shape_text(self.graph.types[value].shape, self.graph.sizes)
            lines += commented(f"{name} = params[{self.below(str(value.name))}]", comment)
        return lines

    def untaken_params(self, taken: Sequence[Value]) -> list[Source]:
        """Parameters that serve for their shapes alone."""
        values = [value for value in self.graph.param_values() if value not in taken]
        types = self.graph.types
        return [(f"params[{self.below(str(v.name))}]", types[v].shape) for v in values]

    def _inner_params(self) -> list[Source]:
        """The parameters of the blocks that this one calls, for sizes that no others tell."""
        shapes = self.plan.sources.inner(self.graph).items()
        return [(f"params[{self.below(path)}]", shape) for path, shape in shapes]

    def size_lines(self, sources: Sequence[Source], code: Sequence[str]) -> list[str]:
        """Lines that make the sizes known which the code mentions."""
        words, implied = mentioned(code), self.plan.sources.implied(self.graph)
        lines = locate(
            [name for name in self.scope.needed if spell_symbol(name) in words],
            sources,
            self.graph.sizes,
            self.plan.program.main.sizes.defaults,
            self.graph.span,
            self.known,
            self._variable() - implied,
            implied - self.known.keys(),
            self._inner_params(),
        )
        self.plan.constants.update(lines.constants)
        self.lost = lines.lost
        return lines.lines

    def type_lines(self, floats: Sequence[str], tensors: Sequence[str]) -> list[str]:
        """Lines that fetch float type and device, where the code mentions them, from tensors.

        Where there are none, a function gets them from its caller.
        """
        scope, plan = self.scope, self.plan
        if self.graph.key == plan.program.entry or self.statements.backward:
            empty = "next(iter(params.values()))" if plan.has_params else plan.spelling.empty
            return scope.type_lines(floats, tensors, empty)
        missing = {"dtype": scope.typed and not floats, "device": scope.placed and not tensors}
        plan.types[self.graph.key] = tuple(name for name in missing if missing[name])
        lines = scope.type_lines(floats, tensors, "")
        return [line for line in lines if not missing[line.split()[0]]]

    def passed(self, call: Call) -> list[str]:
        """The sizes that the function of a call takes as numbers, then float type and device."""
        scope, plan = self.scope, self.plan
        names = plan.arguments[call.callee]
        sizes = [scope.size(call.sizes.get(size, symbol(size))).text for size in names]
        return [*sizes, *scope.types(plan.types.get(call.callee, ()))]

    def _variable(self) -> frozenset[str]:
        """Symbols that the arrays of this block or of its callers carry: no default is true."""
        names = carried_symbols(self.graph) | self.plan.above[self.graph.key]
        return names - self.known.keys()

    def spelled(self, value: Value) -> str:
        """``X [B, S, D]``, as the file says it."""
        return f"{value.name or 'value'} {spell_shape(self.graph.shape(value))}"


def read_values(steps: Sequence[Step]) -> Iterator[Value]:
    """Every value that steps read, once per reading."""
    for step in steps:
        yield from step.inputs


def count_uses(steps: Sequence[Step], results: Sequence[Value]) -> Counter[Value]:
    """How often each value is read, by a step or as a result."""
    return Counter([*read_values(steps), *results])


def place_text(plan: ModulePlan, graph: Graph) -> str:
    """How a function writes the place of a node below its own path, ``{}`` being the node."""
    return 'f"{{at}}.{}"' if plan.has_path(graph) else '"{}"'


def size_variables(graph: Graph) -> set[str]:
    """The variable of every size that the code of a graph can mention: no value is called so."""
    dims = {dim for type_ in graph.types.values() for dim in type_.shape}
    for step in graph.steps:
        if isinstance(step, Call):
            dims.update(step.sizes.values(), [step.count] if step.count is not None else [])
        else:
            dims.update(d for a in step.attrs.values() if isinstance(a, Scalar) for d in a.dims())
    names: set[str] = set()
    for dim in dims:
        names.update(dim.symbols(), graph.sizes.computed(dim).symbols())
    for name in sorted(names & graph.sizes.definitions.keys()):
        names.update(graph.sizes.expand(symbol(name)).symbols())
    return {spell_symbol(name) for name in names}


def may_be_none(value: Value) -> bool:
    """Whether a saved value is absent when dropout is off: its mask."""
    return value.role == "cache" and value.name == "keep"
