"""The names of an example: inputs and parameters, edges, gradients."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.source import Span
from xg.frontend.examples.errors import (
    ClaimOfGiven,
    NoGradient,
    NoLoss,
    NoSuchEdge,
    RunsAgain,
    TwoMeanings,
)
from xg.ir.graph import Graph, Program, Value
from xg.ir.loss import loss_of, scalars
from xg.ir.parameters import CallSite, entry, join
from xg.ir.tensor import TensorType
from xg.passes.resolve.errors import Refused
from xg.syntax import ast


@dataclass(frozen=True, slots=True)
class ClaimTarget:
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


def edges_of(graph: Graph) -> dict[str, Value]:
    """The results of a graph's steps, by name; an output also under that of its port."""
    results = (v for step in graph.steps for v in step.outputs if v.role == "edge")
    named = {value.name: value for value in results if value.name is not None}
    ports = zip(graph.output_names, graph.outputs, strict=True)
    taken = {*graph.inputs, *graph.param_values()}
    return named | {n: value for n, value in ports if value not in taken and n not in named}


def target(program: Program, path: ast.Path) -> ClaimTarget:
    """The subject of a claim; raises Refused."""
    *calls, last = (segment.name for segment in path.segments)
    site = _site(program, tuple(calls), path)
    edges = edges_of(site.graph)
    taken = (*site.graph.inputs, *site.graph.param_values())
    values = {str(value.name): value for value in taken}
    primal = last.removeprefix("d") if last.startswith("d") else None
    of = edges.get(primal or "") or values.get(primal or "")
    if last in edges:
        if of is not None:
            raise Refused(TwoMeanings(path.span, last, last[1:], edges[last].span))
        return _target(site, path.name, edges[last], gradient=False)
    if last in values:
        raise Refused(ClaimOfGiven(path.span, path.name))
    if of is None:
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, tuple(edges)))
    return _gradient(program, _target(site, path.name, of, gradient=True), path.span)


def _target(site: CallSite, name: str, value: Value, *, gradient: bool) -> ClaimTarget:
    graph = site.graph
    type_ = graph.sizes.expand_type(graph.types[value]).substitute(site.symbols)
    spelled = str(TensorType(graph.shape(value)))
    return ClaimTarget(name, site.path, value, gradient, type_, spelled)


def _gradient(program: Program, found: ClaimTarget, span: Span) -> ClaimTarget:
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


def _site(program: Program, calls: tuple[str, ...], path: ast.Path) -> CallSite:
    """Where a path of calls leads; raises Refused."""
    site = _walk(program, calls)
    if site is None:
        names = tuple(call.path for call in program.main.named_calls())
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, names, "calls"))
    if again := _again(program, calls):
        raise Refused(RunsAgain(path.span, path.name, again))
    return site


def _walk(program: Program, calls: tuple[str, ...]) -> CallSite | None:
    site, rest = entry(program), list(calls)
    numbers = program.main.sizes.bind(program.numbers)
    while rest:
        call = next((c for c in site.graph.named_calls() if c.path == rest[0]), None)
        if call is None:
            return None
        site, rest = site.enter(call, program.graphs), rest[1:]
        if call.count is not None:
            count = call.count.substitute(site.symbols).evaluate(numbers)
            if not rest or not rest[0].isdecimal() or int(rest[0]) >= count:
                return None
            site = replace(site, path=join(site.path, str(int(rest[0]))))
            rest = rest[1:]
    return site


def _again(program: Program, calls: tuple[str, ...]) -> str:
    """The first call on the way that is made more than once, if any."""
    graph, way = program.main, ""
    for name in calls:
        same_path = [call for call in graph.calls if call.path == name]
        way = join(way, name)
        if len(same_path) > 1:
            return way
        if same_path:
            graph = program.graphs[same_path[0].callee]
    return ""
