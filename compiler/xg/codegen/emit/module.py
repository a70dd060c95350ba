"""A whole generated module: blocks, its public functions, operators, and what these call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from xg.codegen.emit import collectives
from xg.codegen.emit.allowlist import Allowlist, check_allowed
from xg.codegen.emit.backward import backward_function
from xg.codegen.emit.bundles import bundles
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.forward import Forward, forward_function
from xg.codegen.emit.header import header, section
from xg.codegen.emit.line_breaks import arguments, bracketed, indented
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.moved import move_function
from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.param_table import param_starts
from xg.codegen.emit.public import PublicWriter
from xg.codegen.emit.public_params import ParamsWriter
from xg.codegen.emit.recurrence import FIELDS
from xg.codegen.emit.scopes import write_with_stable_names
from xg.codegen.emit.sizes import shape_text
from xg.codegen.emit.stepping import StepWriter
from xg.codegen.emit.templates import HELPERS
from xg.codegen.emit.writer import may_be_none
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program, Value
from xg.ir.walk import reached


@dataclass(slots=True)
class Sections:
    """Parts that a backend adds to a module: public classes, code of autograd, support."""

    public: list[list[str]]
    steps: list[list[str]]
    support: list[list[str]]


Add = Callable[["ModuleWriter"], Sections]


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
        program,
        dialect,
        ModulePlan.start(program, dialect.spelling, kernels=by_hand, always=dialect.always),
    )
    return writer.source(), writer


class ModuleWriter:
    """Writes one module; a backend may add sections of its own behind the public functions."""

    def __init__(self, program: Program, dialect: Dialect, plan: ModulePlan) -> None:
        self.program = program
        self.dialect = dialect
        self.plan = plan
        plan.prepares = bool(dialect.ready and plan.kernels) and not plan.saves
        plan.bundles = plan.defers_sums and bundles(program, plan.shared)
        self.saved: dict[str, tuple[Forward, tuple[str, ...]]] = {}
        self.blocks: dict[str, list[list[str]]] = {}
        self.support = plan.kernels.support if plan.kernels else dialect.support
        self.params = ParamsWriter.start(dialect, plan)

    def source(self, add: Add | None = None) -> str:
        """The text, with marked names."""
        main = self.program.entry
        self.blocks = {
            key: list(self.block(key)) for key in reached(self.program.graphs, self.program.entry)
        }
        blocks = [part for block in self.blocks.values() for part in block]
        writer = PublicWriter if self.plan.saves else StepWriter
        public = writer(self.dialect, self.plan, self.params, *self.saved[main])
        functions = public.functions()
        added = add(self) if add else Sections([], [], [])
        support = [*public.support(), *self._helpers()]
        support += [part for part in added.support if part not in support]
        text = "\n\n\n".join(
            [
                *_joined(blocks),
                *self._section("public interface", [*functions, *added.public]),
                *self._section("steps of autograd", added.steps),
                *self._section("operators", self._operators()),
                *self._section("support", [*support, *self._support()]),
            ]
        )
        return f"{header(self.plan, self.dialect, text)}\n\n{text}\n"

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

    # ---- sections -------------------------------------------------------------------------------

    def _section(self, title: str, parts: Sequence[Sequence[str]]) -> list[str]:
        """Parts under a heading, if there are any."""
        return [section(title), *_joined(parts)] if parts else []

    def _operators(self) -> list[list[str]]:
        written = self.plan.operators.written.items()
        return [_wrapped(function.source(name)) for name, function in written]

    def _helpers(self) -> list[list[str]]:
        """Functions that are the same in every backend."""
        helpers = {"check": None, "shape": None, **self.plan.helpers}
        return [text.splitlines() for name, text in HELPERS.items() if name in helpers]

    def _support(self) -> list[list[str]]:
        """Functions of the backend's own that anything calls, and those that these call."""
        starts = param_starts(self.program) if self.plan.saves else []
        drawn = [law for law in ("normal", "uniform") if law in starts]
        types = ["check_float"] if starts else []
        needed = self.support.closure([*self.plan.operators.support, *types, *drawn])
        return [self.support.source(name).splitlines() for name in needed]

    # ---- blocks ---------------------------------------------------------------------------------

    def block(self, key: str) -> Iterator[list[str]]:
        """The saved values of a block, its forward and its backward function."""
        graph = self.program.graphs[key]
        if key in self.plan.recurrences:  # kernels compute all rounds at once: it has no functions
            self.plan.arguments[key] = ()
            if self.plan.saves:
                yield self._class(key, dict.fromkeys(FIELDS, "Array"), {})
            return
        if not self.plan.saves:
            forward = forward_function(self.plan, graph, ())
            self.saved[key] = (forward, ())
            yield forward.lines
            return
        backward = self.program.backwards[key]
        forward = forward_function(self.plan, graph, backward.saved)
        reverse, lost = backward_function(self.plan, backward, forward)
        if key == self.program.entry:
            lost += PublicWriter(self.dialect, self.plan, self.params, forward, lost).unsaved()
        if lost:  # sizes that no saved tensor carries are saved themselves
            forward = forward_function(self.plan, graph, backward.saved, lost)
        self.saved[key] = (forward, lost)
        yield self._saved_class(key, forward.fields, lost)
        yield forward.lines
        yield reverse
        if key in self.plan.moved:
            yield move_function(self.plan, graph, forward.fields)

    def _saved_class(
        self, key: str, fields: Mapping[Value, str], sizes: Sequence[str]
    ) -> list[str]:
        """The class of a block's saved values: a tuple, or an object if fields are freed."""
        graph = self.program.graphs[key]
        calls = {step.saved: step for step in graph.calls}
        kinds: dict[str, str] = {}
        shapes: dict[str, str] = {}
        for value, field in fields.items():
            if value.role == "saved":
                kind = self.plan.classes[calls[value].callee]
                one = calls[value].rounds is None or calls[value].callee in self.plan.recurrences
                kinds[field] = kind if one else f"list[{kind}]"
            else:
                kinds[field] = "Array | None" if may_be_none(value) else "Array"
                shapes[field] = f"  # {shape_text(graph.types[value].shape, graph.sizes)}"
        kinds |= {spell_symbol(size): "int" for size in sizes}
        kinds |= {"seed": self.plan.spelling.seed} if key in self.plan.redrawn else {}
        return self._class(key, kinds, shapes)

    def _class(self, key: str, kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
        name = self.plan.classes[key]
        function = self.plan.functions[key]
        base = "" if self.plan.frees_saved else "(NamedTuple)"
        return [
            f"class {name}{base}:",
            f'    """Values of `{function}` that `d_{function}` needs."""',
            *([""] if kinds else []),
            *indented((_object if self.plan.frees_saved else _tuple)(kinds, shapes)),
        ]


def _tuple(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    return [f"{name}: {kind}{shapes.get(name, '')}" for name, kind in kinds.items()]


def _object(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    """Names of fields, as a tuple of names has them, and a method that keeps its arguments."""
    if not kinds:
        return ["_fields = ()"]
    fields = [f'"{name}"' for name in kinds]
    if len(fields) == 1:
        fields = [f"{fields[0]},"]
    names = ["self", *_tuple(kinds, {})]
    assignments = [f"self.{name} = {name}{shapes.get(name, '')}" for name in kinds]
    return [
        *bracketed("_fields = (", fields, ")", 4),
        "",
        *bracketed("def __init__(", names, ") -> None:", 4),
        *indented(assignments),
    ]


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    return ["\n".join(lines) for lines in parts]


def _wrapped(lines: Sequence[str]) -> list[str]:
    """A function whose head may be too long for a line."""
    count = int(lines[0].startswith("@"))
    above, (head, *body) = lines[:count], lines[count:]
    opening, rest = head.split("(", 1)
    inside, closing = rest.rsplit(") -> ", 1)
    return [*above, *bracketed(f"{opening}(", arguments(inside), f") -> {closing}"), *body]
