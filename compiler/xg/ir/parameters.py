"""The parameters and states of a program: every one with its path through the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim
from xg.ir.errors import UnboundSize
from xg.ir.graph import Call, Graph, Param, Program
from xg.ir.instances import inside
from xg.ir.moving import moving
from xg.ir.tensor import TensorType
from xg.ir.walk import callers_first

PREPARED: Final = "prepared"  # the glyph of a step that computes from parameters alone


@dataclass(frozen=True, slots=True)
class CallSite:
    """A graph where it is called: the path of its call, and its symbols in the entry's sizes."""

    graph: Graph
    path: str
    symbols: Mapping[str, Dim]

    def enter(self, call: Call, graphs: Mapping[str, Graph]) -> CallSite:
        """The site of one of its calls; of a row of calls, without the number of the round."""
        callee = graphs[call.callee]
        symbols = inside(call, self.graph, callee, self.symbols)
        return CallSite(callee, join(self.path, call.path), symbols)


def entry(program: Program) -> CallSite:
    """The site that no call leads to."""
    return CallSite(program.main, "", {})


def param_specs(program: Program) -> Iterator[tuple[str, Param, Graph, Mapping[str, Dim]]]:
    """Every parameter with its path, in file order; rows of calls are counted by the numbers."""
    for site in _sites(program, lambda graph: graph.named_calls()):
        for param in site.graph.params:
            yield join(site.path, str(param.value.name)), param, site.graph, site.symbols


def param_patterns(program: Program) -> frozenset[str]:
    """The paths of the parameters, those of all rounds of a row as one."""

    def below(site: CallSite) -> Iterator[CallSite]:
        return (site.enter(call, program.graphs) for call in site.graph.named_calls())

    sites = callers_first(entry(program), below)
    return frozenset(join(s.path, str(p.value.name)) for s in sites for p in s.graph.params)


def frozen_paths(program: Program) -> frozenset[str]:
    """The paths of the parameters of which no gradient is taken."""
    specs = param_specs(program)
    return frozenset(path for path, param, *_ in specs if param.value.frozen)


def how_many_params(program: Program) -> str:
    """The number of its parameters, or ? where that of a row of calls is not given yet."""
    try:
        return str(sum(1 for _ in param_specs(program)))
    except DiagnosticError:
        return "?"


def moving_paths(program: Program) -> Counter[str]:
    """How many steps move each running statistic, those of calls that are made again too."""
    sites = _sites(program, lambda graph: graph.calls)
    return Counter(join(s.path, str(each.param.name)) for s in sites for each in moving(s.graph))


def state_shapes(program: Program) -> Iterator[tuple[str, TensorType]]:
    """Every state with its path, in the sizes of the entry; rows of calls are counted."""
    for site in _sites(program, lambda graph: graph.calls):
        for state in site.graph.states:
            type_ = site.graph.sizes.expand_type(site.graph.types[state.past])
            yield join(site.path, state.name), type_.substitute(site.symbols)


def _sites(program: Program, calls: Callable[[Graph], Iterable[Call]]) -> Iterator[CallSite]:
    """Every graph wherever it is called, each round of a row by itself, callers first."""
    numbers = program.main.sizes.bind(program.numbers)

    def below(site: CallSite) -> Iterator[CallSite]:
        for call in calls(site.graph):
            inner = site.enter(call, program.graphs)
            count = call.count and call.count.substitute(site.symbols)
            for name in count.symbols() if count else ():
                if name not in numbers:
                    raise DiagnosticError.of(UnboundSize(call.span, name, "called so often"))
            rounds = count and range(call.first, call.first + count.evaluate(numbers))
            names = [""] if rounds is None else [f".{n}" for n in rounds]
            yield from (replace(inner, path=f"{inner.path}{each}") for each in names)

    return callers_first(entry(program), below)


def join(path: str, name: str) -> str:
    """A path below another; the top has the empty path."""
    return f"{path}.{name}" if path else name
