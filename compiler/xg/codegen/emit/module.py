"""A whole generated module: constants, blocks, public functions, operators, randomness."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from xg.codegen.emit import collectives
from xg.codegen.emit.allowlist import Allowlist, check_allowed
from xg.codegen.emit.backward import backward_function
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.forward import Forward, forward_function
from xg.codegen.emit.line_breaks import arguments, bracketed, indented
from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.plan import ModulePlan
from xg.codegen.emit.public import PublicWriter
from xg.codegen.emit.scopes import write_with_stable_names
from xg.codegen.emit.stepping import StepWriter
from xg.codegen.emit.templates import HELPERS
from xg.codegen.emit.writer import may_be_none, safe
from xg.ir.graph import Call, Graph, Program, Value
from xg.ir.tensor import TensorType

# What generated code may take from the standard library by its name.
STANDARD: Final = {
    "collections.abc": ("Iterator", "Mapping"),
    "contextlib": ("AbstractContextManager", "nullcontext"),
    "typing": ("Any", "NamedTuple"),
}

Section = Callable[["ModuleWriter", PublicWriter], list[list[str]]]


def emit(program: Program, dialect: Dialect, *, kernels: bool = False) -> str:
    """The source of the module; nothing in it is unknown."""
    source, writer = write_with_stable_names(lambda: marked(program, dialect, kernels=kernels))
    check_allowed(source, writer.vocabulary(source))
    return source


def marked(
    program: Program, dialect: Dialect, *, kernels: bool = False
) -> tuple[str, ModuleWriter]:
    """The source with marked names, and what wrote it."""
    by_hand = dialect.kernels if kernels else None
    writer = ModuleWriter(
        program, dialect, ModulePlan.start(program, dialect.spelling, kernels=by_hand)
    )
    return writer.source(), writer


class ModuleWriter:
    """Writes one module; a backend may add sections of its own behind the public functions."""

    def __init__(self, program: Program, dialect: Dialect, plan: ModulePlan) -> None:
        self.program = program
        self.dialect = dialect
        self.plan = plan
        self.saved: dict[str, tuple[Forward, tuple[str, ...]]] = {}
        self.blocks: dict[str, list[list[str]]] = {}
        self.support = plan.kernels.support if plan.kernels else dialect.support

    def source(self, section: Section | None = None) -> str:
        """The text, with marked names."""
        main = self.program.entry
        self.blocks = {key: list(self.block(key)) for key in self.reached(main)}
        parts = [part for block in self.blocks.values() for part in block]
        writer = PublicWriter if self.plan.saves else StepWriter
        public = writer(self.dialect, self.plan, *self.saved[main])
        parts += public.functions()
        parts += section(self, public) if section else []
        return self._assembled(["\n".join(lines) for lines in parts])

    def vocabulary(self, source: str) -> Allowlist:
        """That of the backend, and what ranks call."""
        vocabulary = self.dialect.vocabulary
        line = collectives.imports(source)
        if not line:
            return vocabulary
        return replace(
            vocabulary,
            imports=vocabulary.imports | {ast.unparse(ast.parse(line))},
            methods=vocabulary.methods | collectives.METHODS,
        )

    def _assembled(self, parts: Sequence[str]) -> str:
        """The parts, and before and behind them what they mention."""
        self.plan.helpers["check"] = None
        helpers = [text.rstrip() for name, text in HELPERS.items() if name in self.plan.helpers]
        operators = [
            "\n".join(_wrapped(function.source(name)))
            for name, function in self.plan.operators.written.items()
        ]
        drawn = ["normal"] if self.plan.saves else []
        needed = self.support.closure([*self.plan.operators.support, *drawn])
        support = [self.support.source(name) for name in needed]
        constants = "\n".join(
            f"{spell_symbol(name)} = {value}" for name, value in sorted(self.plan.constants.items())
        )
        code = "\n\n\n".join([*parts, *helpers, *operators, *support]) + "\n"
        prelude = self.dialect.prelude if self.plan.kernels else ""
        head = self._header(code) + prelude + (f"\n{constants}\n" if constants else "")
        return f"{head}\n\n{code}"

    def _header(self, code: str) -> str:
        graph = self.program.main
        file = graph.span.source.name.rsplit("/", 1)[-1]
        return self.dialect.header.format(
            standard=_standard(self.dialect.header + code),
            ranks=collectives.imports(code),
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

    # ---- blocks ---------------------------------------------------------------------------------

    def reached(self, entry: str) -> Sequence[str]:
        """A graph and all that it calls, callees first."""
        wanted = {entry}
        for key, graph in reversed(list(self.program.graphs.items())):
            if key in wanted:
                wanted.update(step.callee for step in graph.steps if isinstance(step, Call))
        return [key for key in self.program.graphs if key in wanted]

    def block(self, key: str) -> Iterator[list[str]]:
        """The saved values of a block, its forward and its backward function."""
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
        """The class of a block's saved values: a tuple, or an object if fields are freed."""
        graph, name = self.program.graphs[key], self.plan.classes[key]
        calls = {step.saved: step for step in graph.steps if isinstance(step, Call)}
        kinds: dict[str, str] = {}
        shapes: dict[str, str] = {}
        for value, field in fields.items():
            if value.role == "saved":
                kind = self.plan.classes[calls[value].callee]
                kinds[field] = kind if calls[value].count is None else f"list[{kind}]"
            else:
                kinds[field] = "Array | None" if may_be_none(value) else "Array"
                shapes[field] = f"  # {_shape(graph, value)}"
        kinds |= {spell_symbol(size): "int" for size in sizes}
        base = "" if self.plan.frees_saved else "(NamedTuple)"
        return [
            f"class {name}{base}:",
            f'    """What `{self.plan.functions[key]}` keeps for its backward pass."""',
            *([""] if kinds else []),
            *indented((_object if self.plan.frees_saved else _tuple)(kinds, shapes)),
        ]


def _tuple(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    return [f"{name}: {kind}{shapes.get(name, '')}" for name, kind in kinds.items()]


def _object(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    """A method that keeps its arguments."""
    given = ["self", *_tuple(kinds, {})]
    kept = [f"self.{name} = {name}{shapes.get(name, '')}" for name in kinds]
    return [*bracketed("def __init__(", given, ") -> None:", 4), *indented(kept)] if kinds else []


def _standard(code: str) -> str:
    """The imports of the standard library that the code mentions."""
    lines = ["import math"] if re.search(r"(?<![\w.])math\.", code) else []
    for module, names in STANDARD.items():
        found = [name for name in names if re.search(rf"\b{name}\b", code)]
        lines += [f"from {module} import {', '.join(found)}"] if found else []
    return "\n".join(lines)


def _wrapped(lines: Sequence[str]) -> list[str]:
    """A function whose head may be too long for a line."""
    head, *body = lines
    opening, rest = head.split("(", 1)
    inside, closing = rest.rsplit(") -> ", 1)
    return [*bracketed(f"{opening}(", arguments(inside), f") -> {closing}"), *body]


def _spelled(graph: Graph, value: Value) -> str:
    type_ = TensorType(graph.shape(value), graph.types[value].range)
    return f"{value.name} {value.declared or type_}"


def _shape(graph: Graph, value: Value) -> str:
    shape = graph.sizes.fold_shape(graph.types[value].shape)
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
