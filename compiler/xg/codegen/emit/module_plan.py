"""Hold the decisions that all functions of one module share, and write what passes share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from xg.codegen.emit.dialect import Kernels
from xg.codegen.emit.names import Names, camel, mentioned_names, plain, spell_symbol
from xg.codegen.emit.spelling import Scope, Source, Spelling, locate, shape_text
from xg.codegen.emit.statements import Functions, Mark, Statements
from xg.codegen.emit.text import Text, add_comment, indent_lines
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Scalar, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.labels import snake, value_names
from xg.ir.prim import RANDOM
from xg.ir.size_checks import SizeSources, carried_symbols
from xg.ir.tensor import spell_shape
from xg.ir.walk import has_params, having, moves


@dataclass(slots=True)
class ModulePlan:
    """Decisions that the functions of a module share.

    `functions` and `classes` name each graph's functions; `random` are the graphs that draw random
    numbers, `redrawn` those whose backward pass draws them again; `shared` are parameters (graph,
    name) that more than one place has a gradient for.
    `sources` are the arrays that tell sizes without numbers.
    `above` are the symbols that a graph's callers know, `arguments` those of them that its function
    takes as numbers, `types` the float type and the device, where it has no tensor that has them.
    `stateful` are the graphs that keep something from step to step, or whose calls do. `top` are
    the graphs whose parameters go by their own names, without a path: the entry, and pieces of it.
    `moved` are the graphs with running statistics. `marks` say for the forward (False) and the
    backward function (True) of each graph which lines compute which steps. `gradients` are the
    names of all backward functions.
    `recurrences` are the graphs whose rounds a kernel computes at once. A module that `prepares`
    computes what depends on parameters alone before its steps. `has_params` says whether there is
    any parameter.
    """

    program: IRProgram
    spelling: Spelling
    operators: Functions
    functions: Mapping[str, str]
    classes: Mapping[str, str]
    random: frozenset[str]
    redrawn: frozenset[str]
    shared: frozenset[tuple[str, str]]
    sources: SizeSources
    above: Mapping[str, frozenset[str]]
    stateful: frozenset[str]
    top: frozenset[str]
    moved: frozenset[str] = frozenset()
    kernels: Kernels | None = None
    bundles: bool = False
    prepares: bool = False
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    types: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    constants: dict[str, int] = field(default_factory=dict[str, int])
    helpers: dict[str, None] = field(default_factory=dict[str, None])
    marks: dict[tuple[str, bool], tuple[Mark, ...]] = field(
        default_factory=dict[tuple[str, bool], tuple[Mark, ...]]
    )

    gradients: frozenset[str] = field(init=False)
    recurrences: frozenset[str] = field(init=False)
    has_params: bool = field(init=False)

    def __post_init__(self) -> None:
        """Name the backward functions, find recurrences and parameters, once for all functions."""
        graphs = self.program.graphs.items() if self.kernels else ()
        self.recurrences = frozenset(key for key, graph in graphs if _is_recurrence(graph))
        self.gradients = frozenset(f"d_{plain(name)}" for name in self.functions.values())
        self.has_params = has_params(self.program)

    @classmethod
    def start(
        cls,
        program: IRProgram,
        spelling: Spelling,
        pieces: frozenset[str] = frozenset(),
        *,
        kernels: Kernels | None = None,
        always: Kernels | None = None,
    ) -> ModulePlan:
        """The plan of a module in a backend's words, before any function is written.

        `pieces` are graphs that compute a part of the entry.
        """
        names = Names(map(spell_symbol, _symbols(program)), "function")
        names.reserve(kernels.helpers() if kernels else ())
        functions: dict[str, str] = {}
        classes: dict[str, str] = {}
        random, sources = having(program, draws_random), SizeSources.of(program)
        for key, graph in program.graphs.items():
            name = snake(graph.block)
            functions[key] = names.fresh(name)
            names.reserve([f"d_{functions[key]}", f"move_{functions[key]}"])
            number = plain(functions[key]).removeprefix(name).strip("_")
            classes[key] = names.fresh(f"{camel(graph.block)}{number}Saved")
        for key in program.graphs:  # the figure has these names: no function takes one
            names.reserve(value_names(program, key).values())
        return cls(
            program=program,
            spelling=spelling,
            operators=Functions(spelling, names, kernels, always, bool(program.backwards)),
            functions=functions,
            classes=classes,
            random=random,
            redrawn=draws_again(program, random),
            shared=shared_params(program),
            sources=sources,
            above=size_symbols_above(program, sources),
            stateful=having(program, lambda graph: bool(graph.states)),
            top=pieces | {program.entry},
            moved=moves(program) if program.backwards else frozenset(),
            kernels=kernels,
        )

    @property
    def params_kind(self) -> str:
        """The type of the parameters that functions of blocks take."""
        return "Gathered[Array]" if self.bundles else "Params"

    @property
    def saves(self) -> bool:
        """Whether forward functions keep something for backward ones."""
        return bool(self.program.backwards)

    @property
    def frees_saved_values(self) -> bool:
        """Whether a backward pass frees what was saved as it goes; then that is not a tuple."""
        return self.saves and self.kernels is not None and self.kernels.releasing

    @property
    def defers_sums(self) -> bool:
        """Whether gradients are summed over ranks while the backward pass continues."""
        return self.kernels is not None and bool(self.program.mesh)

    def passed_sizes(self, graph: Graph) -> frozenset[str]:
        """The variables of the sizes that a graph passes to its calls as numbers."""
        names = (name for call in graph.calls for name in self.arguments[call.callee])
        return frozenset(map(spell_symbol, names))

    def passed(self, graph: Graph) -> dict[str, str]:
        """Map a function's arguments after its operands to their kinds: sizes, then types."""
        sizes = {spell_symbol(name): "int" for name in self.arguments[graph.key]}
        kinds = {"dtype": "DType", "device": "Device"}
        return sizes | {name: kinds[name] for name in self.types.get(graph.key, ())}

    def has_path(self, graph: Graph) -> bool:
        """Whether a graph's functions take the path of their parameters."""
        return graph.key not in self.top


def _is_recurrence(graph: Graph) -> bool:
    """Whether a graph is the one step of a linear recurrence."""
    return [s.op.name if isinstance(s, Apply) else "" for s in graph.steps] == ["recurrence"]


def _symbols(program: IRProgram) -> set[str]:
    """Every symbol of a size in any function of the module."""
    symbols: set[str] = set()
    for graph in program.graphs.values():
        symbols.update(graph.sizes.defaults, graph.sizes.definitions)
        dims = {dim for type_ in graph.types.values() for dim in type_.shape}
        symbols.update(name for dim in dims for name in dim.symbols())
    return symbols


def size_symbols_above(program: IRProgram, sources: SizeSources) -> dict[str, frozenset[str]]:
    """For every graph the symbols whose number its callers know, which no default may replace."""
    symbols: dict[str, frozenset[str]] = dict.fromkeys(program.graphs, frozenset())
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        names = symbols[key] | carried_symbols(graph) | sources.implied_symbols(graph)
        for call in graph.calls:
            callee = program.graphs[call.callee]
            own = set(callee.sizes.definitions) | _own_numbers(callee)
            symbols[call.callee] |= (names | call.sizes.keys()) - own
    return symbols


def _own_numbers(callee: Graph) -> frozenset[str]:
    """Symbols to which a callee gives a number of its own."""
    return callee.sizes.local & callee.sizes.defaults.keys()


def draws_random(graph: Graph) -> bool:
    """Whether a random number is drawn in a graph itself."""
    steps = (step for step in graph.steps if isinstance(step, Apply))
    return any(_draws(step, graph, ()) for step in steps)


def draws_again(program: IRProgram, random: frozenset[str]) -> frozenset[str]:
    """The graphs whose backward pass draws random numbers of the forward pass again."""
    return frozenset(
        key
        for key, backward in program.backwards.items()
        if any(step.again and _draws(step, backward, random) for step in backward.steps)
    )


def _draws(step: Step, graph: Graph, random: Container[str]) -> bool:
    """Whether a step draws random numbers, or calls one of the graphs that do."""
    if isinstance(step, Call):
        return step.callee in random
    body = step.body(graph.types)
    return any(expr.prim in RANDOM for expr in body.order())


def shared_params(program: IRProgram) -> frozenset[tuple[str, str]]:
    """Find parameters whose gradient has several sources: tied ones, and any in shared calls."""
    shared: set[tuple[str, str]] = set()
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        calls: dict[str, dict[str, None]] = {}  # ranks may run one call's block in several ways
        whole = (key, "*") in shared
        for call in graph.calls:
            ways = calls.setdefault(call.path, {})
            again = bool(call.path and ways)
            ways[call.callee] = None
            if again or whole or call.loop:
                shared.update((callee, "*") for callee in ways)
        for value in graph.foreign:
            path, _, name = str(value.name).partition(".")
            shared.add((key, str(value.name)))
            shared.update((callee, name) for callee in calls.get(path, ()))  # none: of a loop
    return frozenset(shared)


# The common parts of the forward and the backward function of a block.


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
        return [*head, *indent_lines([*before, *code])]

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
            lines += add_comment(f"{name} = params[{self.below(str(value.name))}]", comment)
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
        words, implied = mentioned_names(code), self.plan.sources.implied_symbols(self.graph)
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

    def spell_value(self, value: Value) -> str:
        """``X [B, S, D]``, as the file says it."""
        return f"{value.name or 'value'} {spell_shape(self.graph.shape(value))}"


def read_values(steps: Sequence[Step]) -> Iterator[Value]:
    """Every value that the code of steps reads, once per reading.

    A gradient of a loss has operands that its body does not mention.
    """
    for step in steps:
        if isinstance(step, Apply) and step.op.differentiates:
            yield from (step.inputs[place] for place in step.attrs["reads"])
        else:
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
        names.update(dim.symbols(), graph.sizes.fold_exactly(dim).symbols())
    for name in sorted(names & graph.sizes.definitions.keys()):
        names.update(graph.sizes.expand(symbol(name)).symbols())
    return {spell_symbol(name) for name in names}


def may_be_absent(value: Value) -> bool:
    """Whether a saved value is absent when dropout is off: its mask."""
    return value.role == "cache" and value.name == "keep"
