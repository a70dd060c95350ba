"""Lines that widen the integers of a caller, and refuse those outside `ids [B, S] in V`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.codegen.emit.line_breaks import bracketed
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import safe
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.support import private
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph, Value
from xg.ir.instances import instances
from xg.ir.known_sizes import closure
from xg.ir.loss import ignored
from xg.ir.size_constraints import reaches_of
from xg.ir.size_sources import carried_symbols

WIDEN = "integers"
CHECK = "check_width"


def ranges(plan: ModulePlan, graph: Graph) -> Iterator[tuple[Value, Dim | None]]:
    """The integer inputs of a block, with their range if arrays give it a number."""
    carried = carried_symbols(graph) | plan.sources.implied(graph)
    for value in graph.inputs:
        below = graph.types[value].range
        if below is None:
            continue
        names, defined = closure(graph.sizes.computed(below).symbols(), carried, graph.sizes)
        known = {*carried, *defined, *graph.sizes.defaults}
        yield value, below if known.issuperset(names) else None


def range_lines(plan: ModulePlan, scope: Scope, texts: Sequence[str], indent: int) -> list[str]:
    """A line for each integer input, by its variable; `texts` are those of all inputs."""
    graph = plan.program.main
    by_value = dict(zip(graph.inputs, texts, strict=True))
    lines: list[str] = []
    for value, below in ranges(plan, graph):
        plan.operators.support[WIDEN] = None
        limit = "None"
        if below is not None:
            length = plan.program.lengths.get(below.name or "")
            limit = scope.size(below).text if length is None else str(length)
        items = [by_value[value], f'"{value.name}"', limit]
        left_out = None if below is None else ignored(plan.program, value)
        items += [] if left_out is None else [str(left_out)]
        lines += bracketed(f"{by_value[value]} = {private(WIDEN)}(", items, ")", indent)
    return lines


def cache_lines(plan: ModulePlan) -> list[str]:
    """Lines that widen the integers of a cache, which may have been stored in a narrow type."""
    graphs = plan.program.graphs.values()
    if all(each.types[state.past].is_float for each in graphs for state in each.states):
        return []
    plan.operators.support[WIDEN] = None
    widened = f'{private(WIDEN)}(cache[name], name, None) if kind == "int" else cache[name]'
    rounds = "for name, (_, kind) in cached.items()"
    return ["cache = {", f"    name: {widened}", f"    {rounds}", "}"]


def width_lines(plan: ModulePlan, scope: Scope) -> Iterator[str]:
    """Lines that refuse integers which the narrowest type of the backend may not hold."""
    graph, seen = plan.program.main, set[Dim]()
    carried = carried_symbols(graph) | plan.sources.implied(graph)
    for each, symbols in instances(plan.program):
        for step in each.steps:
            bounds = reaches_of(each, step) if isinstance(step, Apply) else []
            for bound in bounds:
                reach = graph.sizes.expand(each.sizes.expand(bound).substitute(symbols))
                names, defined = closure(reach.symbols(), carried, graph.sizes)
                known = {*carried, *defined, *graph.sizes.defaults}
                narrow = reach.constant is not None and reach.constant < 2**31
                if narrow or reach in seen or not known.issuperset(names):
                    continue
                seen.add(reach)
                plan.operators.support[CHECK] = None
                assert isinstance(step, Apply)
                items = [scope.size(reach).text, f'"{safe(step.op.glyph)}"']
                yield from bracketed(f"{private(CHECK)}(", items, ")", 4)


def given_range_lines(plan: ModulePlan, scope: Scope) -> list[str]:
    """The same for inputs as they come from outside, in a dict."""
    texts = [f'inputs["{value.name}"]' for value in plan.program.main.inputs]
    lines = range_lines(plan, scope, texts, 4)
    return ["inputs = dict(inputs)", *lines] if lines else []
