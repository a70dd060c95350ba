"""What all functions of one module agree on: names, where randomness is drawn, what is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xg.emit.spelling import Spelling
from xg.emit.statements import Functions
from xg.graph import Call, Graph, Program
from xg.prim import topological


@dataclass(slots=True)
class Plan:
    """What the functions of a module have to agree on.

    `functions` and `classes` name each graph's functions; `random` are the graphs that draw random
    numbers; `shared` are parameters (graph, name) that more than one place has a gradient for.
    """

    program: Program
    spelling: Spelling
    operators: Functions
    functions: Mapping[str, str]
    classes: Mapping[str, str]
    random: frozenset[str]
    shared: frozenset[tuple[str, str]]
    constants: dict[str, int] = field(default_factory=dict[str, int])
    helpers: dict[str, None] = field(default_factory=dict[str, None])

    def has_path(self, graph: Graph) -> bool:
        """Whether a graph's functions are told where their parameters are: all but the entry's."""
        return graph.key != self.program.entry


def draws_random(program: Program) -> frozenset[str]:
    """The graphs in which, or below which, a random number is drawn."""
    found: set[str] = set()
    for key, graph in program.graphs.items():  # callees stand first
        for step in graph.steps:
            if isinstance(step, Call):
                if step.callee in found:
                    found.add(key)
            else:
                body = step.op.body([graph.types[v] for v in step.inputs], step.attrs)
                if any(expr.prim == "dropout_keep" for expr in topological(body.outputs)):
                    found.add(key)
    return frozenset(found)


def shared_params(program: Program) -> frozenset[tuple[str, str]]:
    """Parameters whose gradient comes from several places: tied ones, and those of shared calls."""
    shared: set[tuple[str, str]] = set()
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        calls: dict[str, str] = {}
        whole = (key, "*") in shared
        for step in graph.steps:
            if isinstance(step, Call):
                if step.path in calls or whole:
                    shared.add((step.callee, "*"))
                calls[step.path] = step.callee
        for value in graph.foreign:
            path, _, name = str(value.name).partition(".")
            shared.update([(key, str(value.name)), (calls[path], name)])
    return frozenset(shared)
