"""Decisions that all functions of one module share: names, random draws, shared parameters."""

from __future__ import annotations

from collections.abc import Container, Mapping

from xg.codegen.emit.kernel import Kernels
from xg.codegen.emit.names import Names, camel, plain, snake, spell_symbol
from xg.codegen.emit.spelling import Spelling
from xg.codegen.emit.statements import Functions, Mark
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Call, Graph, Program, Step
from xg.ir.moving import moves
from xg.ir.parameters import has_params
from xg.ir.prim import RANDOM
from xg.ir.size_sources import SizeSources, carried_symbols
from xg.ir.walk import having


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

    program: Program
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
        program: Program,
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
    def frees_saved(self) -> bool:
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
        """Arguments of a graph's function behind its operands, with kinds: sizes, then types."""
        sizes = {spell_symbol(name): "int" for name in self.arguments[graph.key]}
        kinds = {"dtype": "DType", "device": "Device"}
        return sizes | {name: kinds[name] for name in self.types.get(graph.key, ())}

    def has_path(self, graph: Graph) -> bool:
        """Whether a graph's functions take the path of their parameters."""
        return graph.key not in self.top


def _is_recurrence(graph: Graph) -> bool:
    """Whether a graph is the one step of a linear recurrence."""
    return [s.op.name if isinstance(s, Apply) else "" for s in graph.steps] == ["recurrence"]


def _symbols(program: Program) -> set[str]:
    """Every symbol of a size in any function of the module."""
    symbols: set[str] = set()
    for graph in program.graphs.values():
        symbols.update(graph.sizes.defaults, graph.sizes.definitions)
        dims = {dim for type_ in graph.types.values() for dim in type_.shape}
        symbols.update(name for dim in dims for name in dim.symbols())
    return symbols


def size_symbols_above(program: Program, sources: SizeSources) -> dict[str, frozenset[str]]:
    """For every graph the symbols whose number its callers know, which no default may replace."""
    symbols: dict[str, frozenset[str]] = dict.fromkeys(program.graphs, frozenset())
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        names = symbols[key] | carried_symbols(graph) | sources.implied(graph)
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


def draws_again(program: Program, random: frozenset[str]) -> frozenset[str]:
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


def shared_params(program: Program) -> frozenset[tuple[str, str]]:
    """Parameters whose gradient comes from several places: tied ones, and those of shared calls."""
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
