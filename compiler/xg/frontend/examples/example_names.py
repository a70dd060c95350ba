"""The names of an example: inputs and parameters, edges, gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.frontend.examples.errors import (
    ClaimOfGiven,
    NoGradient,
    NoLoss,
    NoSuchEdge,
    RunsAgain,
    TwoMeanings,
)
from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph, Program, Value
from xg.ir.instances import inside
from xg.ir.loss import loss_of, scalars
from xg.ir.parameters import join
from xg.ir.tensor import TensorType
from xg.passes.resolve.errors import Refused
from xg.syntax import ast


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a claim: a value of the run of a call, or the gradient towards it.

    `type` is in the sizes of the entry, `spelled` is the shape as people read it. `path` is "" for
    the block itself. `primal` is the value itself, or for a gradient the one it belongs to.
    """

    name: str
    path: str
    primal: Value
    gradient: bool
    type: TensorType
    spelled: str

    @property
    def source(self) -> str:
        """The full name of the value itself: of dW_2 it is W_2."""
        return join(self.path, str(self.primal.name))


@dataclass(frozen=True, slots=True)
class Site:
    """The graph that runs under a path, and its symbols in the sizes of the entry."""

    graph: Graph
    path: str
    symbols: Mapping[str, Dim]

    def edges(self) -> dict[str, Value]:
        """The results of its steps, by name; an output also under that of its port."""
        made = (v for step in self.graph.steps for v in step.outputs if v.role == "edge")
        found = {value.name: value for value in made if value.name is not None}
        ports = zip(self.graph.output_names, self.graph.outputs, strict=True)
        taken = {*self.graph.inputs, *self.graph.param_values()}
        return found | {n: value for n, value in ports if value not in taken and n not in found}

    def given(self) -> dict[str, Value]:
        """Its inputs and parameters, by name."""
        values = (*self.graph.inputs, *self.graph.param_values())
        return {str(value.name): value for value in values}


def target(program: Program, path: ast.Path) -> Target:
    """The subject of a claim; raises Refused."""
    *calls, last = (segment.name for segment in path.segments)
    site = _site(program, tuple(calls), path)
    edges, given = site.edges(), site.given()
    primal = last.removeprefix("d") if last.startswith("d") else None
    of = edges.get(primal or "") or given.get(primal or "")
    if last in edges:
        if of is not None:
            raise Refused(TwoMeanings(path.span, last, edges[last].span))
        return _target(site, path.name, edges[last], gradient=False)
    if last in given:
        raise Refused(ClaimOfGiven(path.span, path.name))
    if of is None:
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, tuple(edges)))
    return _gradient(program, _target(site, path.name, of, gradient=True), path.span)


def _target(site: Site, name: str, value: Value, *, gradient: bool) -> Target:
    graph = site.graph
    type_ = graph.sizes.expand_type(graph.types[value]).substitute(site.symbols)
    spelled = str(TensorType(graph.shape(value)))
    return Target(name, site.path, value, gradient, type_, spelled)


def _gradient(program: Program, found: Target, span: Span) -> Target:
    """The target, if the loss has a gradient towards it; raises Refused."""
    main = program.main
    loss = loss_of(main)
    if loss is None:
        raise Refused(NoLoss(span, found.name, main.block, scalars(main)))
    graph = site_graph(program, found.path)
    if not found.type.is_float or found.primal not in program.backwards[graph.key].totals:
        raise Refused(NoGradient(span, found.name, found.source, loss))
    return found


def site_graph(program: Program, path: str) -> Graph:
    """The graph that runs under a path, which is known to exist."""
    site = _walk(program, tuple(path.split(".")) if path else ())
    assert site is not None
    return site.graph


def _site(program: Program, calls: tuple[str, ...], path: ast.Path) -> Site:
    """Where a path of calls leads; raises Refused."""
    site = _walk(program, calls)
    if site is None:
        known = tuple(call.path for call in program.main.named_calls())
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, known, "calls"))
    if again := _again(program, calls):
        raise Refused(RunsAgain(path.span, path.name, again))
    return site


def _walk(program: Program, calls: tuple[str, ...]) -> Site | None:
    site, rest = Site(program.main, "", {}), list(calls)
    numbers = program.main.sizes.bind(program.numbers)
    while rest:
        call = next((c for c in site.graph.named_calls() if c.path == rest[0]), None)
        if call is None:
            return None
        site, rest = _called(program, site, call), rest[1:]
        if call.count is not None:
            count = call.count.substitute(site.symbols).evaluate(numbers)
            if not rest or not rest[0].isdecimal() or int(rest[0]) >= count:
                return None
            site = Site(site.graph, join(site.path, str(int(rest[0]))), site.symbols)
            rest = rest[1:]
    return site


def _called(program: Program, site: Site, call: Call) -> Site:
    callee = program.graphs[call.callee]
    symbols = inside(call, site.graph, callee, site.symbols)
    return Site(callee, join(site.path, call.path), symbols)


def _again(program: Program, calls: tuple[str, ...]) -> str:
    """The first call on the way that is made more than once, if any."""
    graph, way = program.main, ""
    for name in calls:
        found = [step for step in _calls(graph) if step.path == name]
        way = join(way, name)
        if len(found) > 1:
            return way
        if found:
            graph = program.graphs[found[0].callee]
    return ""


def _calls(graph: Graph) -> Iterator[Call]:
    return (step for step in graph.steps if isinstance(step, Call))
