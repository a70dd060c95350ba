"""A whole generated module: constants, blocks, public functions, operators, randomness."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from xg.emit.backward import backward_function
from xg.emit.closed import check_closed
from xg.emit.dialect import Dialect
from xg.emit.forward import Forward, forward_function
from xg.emit.layout import bracketed
from xg.emit.names import spell_symbol
from xg.emit.plan import Plan
from xg.emit.public import PublicWriter
from xg.emit.stepping import StepWriter
from xg.emit.templates import HELPERS
from xg.emit.writer import safe
from xg.graph import Call, Graph, Program, Value
from xg.tensor import TensorType


def emit(program: Program, dialect: Dialect) -> str:
    """The source of the module; nothing in it is unknown."""
    source = _Module(program, dialect).source()
    check_closed(source, dialect.vocabulary)
    return source


class _Module:
    def __init__(self, program: Program, dialect: Dialect) -> None:
        self.program = program
        self.dialect = dialect
        self.saved: dict[str, tuple[Forward, tuple[str, ...]]] = {}
        self.plan = Plan.start(program, dialect.spelling)

    def source(self) -> str:
        blocks = [list(self._block(key)) for key in self.program.graphs]
        main = self.program.entry
        writer = PublicWriter if self.plan.saves else StepWriter
        public = writer(self.dialect, self.plan, *self.saved[main]).functions()
        parts = ["\n".join(lines) for block in blocks for lines in block]
        parts += ["\n".join(lines) for lines in public]
        self.plan.helpers["check"] = None
        helpers = [text.rstrip() for name, text in HELPERS.items() if name in self.plan.helpers]
        operators = [
            "\n".join(_wrapped(function.source(name)))
            for name, function in self.plan.operators.written.items()
        ]
        drawn = ["normal"] if self.plan.saves else []
        needed = self.dialect.support.closure([*self.plan.operators.support, *drawn])
        support = [self.dialect.support.source(name) for name in needed]
        constants = "\n".join(
            f"{spell_symbol(name)} = {value}" for name, value in sorted(self.plan.constants.items())
        )
        code = "\n\n\n".join([*parts, *helpers, *operators, *support]) + "\n"
        math = re.search(r"(?<![\w.])math\.", code) is not None
        head = self._header(math=math) + (f"\n{constants}\n" if constants else "")
        return f"{head}\n\n{code}"

    def _header(self, *, math: bool) -> str:
        graph = self.program.main
        file = graph.span.source.name.rsplit("/", 1)[-1]
        return self.dialect.header.format(
            math="import math\n" if math else "",
            typing=self._typing(),
            what="forward and backward pass" if self.plan.saves else "step",
            function="forward" if self.plan.saves else "step",
            title=safe(graph.title),
            file=safe(file),
            block=graph.block,
            inputs=", ".join(_spelled(graph, value) for value in graph.inputs),
            outputs=", ".join(
                f"{name} {type_}"
                for name, type_ in zip(graph.output_names, graph.output_types, strict=True)
            ),
        )

    def _typing(self) -> str:
        names = [*self.dialect.typing, *(["NamedTuple"] if self.plan.saves else [])]
        return f"from typing import {', '.join(names)}\n" if names else ""

    # ---- blocks ---------------------------------------------------------------------------------

    def _block(self, key: str) -> Iterator[list[str]]:
        graph = self.program.graphs[key]
        if not self.plan.saves:
            forward = forward_function(self.plan, graph, ())
            self.saved[key] = (forward, ())
            yield forward.lines
            return
        backward = self.program.backwards[key]
        forward = forward_function(self.plan, graph, backward.saved)
        reverse, lost = backward_function(self.plan, backward, forward)
        if key == self.program.entry:
            lost += PublicWriter(self.dialect, self.plan, forward, lost).unsaved()
        if lost:  # sizes that no saved tensor carries are saved themselves
            forward = forward_function(self.plan, graph, backward.saved, lost)
        self.saved[key] = (forward, lost)
        yield self._saved_class(key, forward.fields, lost)
        yield forward.lines
        yield reverse

    def _saved_class(
        self, key: str, fields: Mapping[Value, str], sizes: Sequence[str]
    ) -> list[str]:
        graph = self.program.graphs[key]
        calls = {step.saved: step for step in graph.steps if isinstance(step, Call)}
        lines = [
            f"class {self.plan.classes[key]}(NamedTuple):",
            f'    """What `{self.plan.functions[key]}` keeps for its backward pass."""',
        ]
        if fields or sizes:
            lines.append("")
        for value, name in fields.items():
            if value.role == "saved":
                call = calls[value]
                kind = self.plan.classes[call.callee]
                lines.append(f"    {name}: {kind if call.count is None else f'list[{kind}]'}")
            else:
                optional = " | None" if value.role == "cache" and value.name == "keep" else ""
                lines.append(f"    {name}: Array{optional}  # {_shape(graph, value)}")
        return [*lines, *(f"    {spell_symbol(name)}: int" for name in sizes)]


def _wrapped(lines: Sequence[str]) -> list[str]:
    """A function whose head may be too long for a line."""
    head, *body = lines
    opening, rest = head.split("(", 1)
    arguments, closing = rest.rsplit(") -> ", 1)
    items = arguments.split(", ")
    return [*bracketed(f"{opening}(", items, f") -> {closing}"), *body]


def _spelled(graph: Graph, value: Value) -> str:
    type_ = TensorType(graph.shape(value), graph.types[value].range)
    return f"{value.name} {value.declared or type_}"


def _shape(graph: Graph, value: Value) -> str:
    shape = graph.sizes.fold_shape(graph.types[value].shape)
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
