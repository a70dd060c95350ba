"""Gradients that are zero for a reason: the reason, derived from the graph, or nothing."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Apply, Call, Graph, Program, Value
from xg.ir.parameters import param_specs
from xg.verify.perturbation import Perturbation, propagate

Changes = dict[Value, Perturbation]
Path = tuple[str, ...]
ANYHOW = frozenset[int]()


def why_zero(graph: Graph, value: Value) -> str | None:
    """The reason why no output of a graph depends on a parameter or an input, to first order.

    None if that cannot be shown: then a gradient that is zero is an error. Calls are not looked
    into: what goes into one may change all that comes out.
    """
    return _Walk({}).why(graph, (str(value.name),), {value: Perturbation(value, ANYHOW)})


def why_zero_through_calls(program: Program, path: str) -> str | None:
    """`why_zero` of a parameter or an input by its path, followed through every call."""
    names = tuple(path.split("."))
    last = frozenset(_last_rounds(program, names))
    return _Walk(program.graphs, last).why(program.main, names, {})


def _last_rounds(program: Program, path: Path) -> Iterator[Path]:
    """The ends of a parameter's path that begin with the number of its row's last round."""
    paths = {path for path, *_ in param_specs(program)}
    for place, name in enumerate(path):
        after = (*path[:place], str(int(name) + 1), *path[place + 1 :]) if name.isdigit() else ()
        if after and ".".join(after) not in paths:
            yield path[place:]


class _Walk:
    """Follows a change through steps, and into the calls of graphs that it knows."""

    def __init__(self, graphs: Mapping[str, Graph], last: Container[Path] = ()) -> None:
        self.graphs = graphs
        self.last = last
        self.ends: dict[str, None] = {}  # why the change does not go on where it ends
        self.begins: set[object] = set()

    def why(self, graph: Graph, path: Path, changes: Changes) -> str | None:
        """The reason, if no output of the graph changes."""
        reached = self._through_graph(graph, changes, path)
        if any(output in reached for output in graph.outputs):
            return None
        return "; ".join(self.ends) or "it is not used"

    def _through_graph(self, graph: Graph, changes: Changes, path: Path) -> Changes:
        """Every value of a graph that changes, by its inputs and by what `path` leads to."""
        changed = dict(changes)
        named = [*graph.inputs, *(param.value for param in graph.params)]
        begins = [value for value in named if path == (value.name,)]
        self.begins.update(begins)
        changed |= {value: Perturbation(value, ANYHOW) for value in begins}
        for step in graph.steps:
            inside = isinstance(step, Call) and path[:1] == (step.path,) and len(path) > 1
            if not inside and not any(each in changed for each in step.inputs):
                continue
            if isinstance(step, Call):
                changed |= self._through_call(step, changed, path[1:] if inside else ())
                continue
            reached = _through(step, graph, changed)
            changed |= reached
            if not reached:
                self.ends[_said(step, graph, changed)] = None
        return changed

    def _through_call(self, call: Call, changed: Changes, path: Path) -> Changes:
        """The outputs of a call that change; in a row, after its round and all that follow it."""
        callee = self.graphs.get(call.callee)
        if callee is None:
            return {each: Perturbation(each, ANYHOW) for each in call.outputs}
        last = path in self.last
        if call.count is not None and path:
            path = path[1:]  # of the other rounds it does not matter which it is
        inputs = zip(callee.inputs, call.inputs, strict=True)
        ports = {port: changed[value] for port, value in inputs if value in changed}
        if call.loop is not None:
            results = self._over(callee, call.loop.states, ports, path)
        else:
            results = self._outputs(callee, ports, path)
        if call.count is not None and (ports or not last):
            results = self._rounds(callee, ports, results, inside=bool(path))
        given = {change.source for change in ports.values()} | self.begins
        pairs = zip(call.outputs, results, strict=True)
        return {value: _of_call(call, change, given) for value, change in pairs if change}

    def _outputs(self, callee: Graph, ports: Changes, path: Path) -> list[Perturbation | None]:
        reached = self._through_graph(callee, ports, path)
        return [reached.get(output) for output in callee.outputs]

    def _over(
        self, callee: Graph, states: int, ports: Changes, path: Path
    ) -> list[Perturbation | None]:
        """The outputs of a loop that change; a state that does so changes in all rounds behind."""
        carried = callee.inputs[len(callee.inputs) - states :]
        ports = {port: Perturbation(port, ANYHOW) for port in ports}
        while True:
            results = self._outputs(callee, ports, path)
            ends = results[len(results) - states :]
            new = {port for port, end in zip(carried, ends, strict=True) if end} - {*ports}
            if not new:
                break
            ports |= {port: Perturbation(port, ANYHOW) for port in new}
        outputs = zip(callee.outputs, results, strict=True)
        return [Perturbation(output, ANYHOW) if change else None for output, change in outputs]

    def _rounds(
        self,
        callee: Graph,
        ports: Changes,
        results: list[Perturbation | None],
        *,
        inside: bool,
    ) -> list[Perturbation | None]:
        """Return the outputs of a repeat that change, for any number of rounds.

        The change begins in the operands, or `inside` a round that is not the last one.
        """
        every_round = ports.keys() - {callee.inputs[0]}
        if not every_round and not any(results):
            return results  # it ends in the round where it begins
        first = [change for change in (*results, ports.get(callee.inputs[0])) if change]
        if not first:
            return results
        uniform = frozenset[int].intersection(*(change.uniform for change in first))
        while True:
            round_ = _Round(callee)
            state = {callee.inputs[0]: Perturbation(round_, uniform)}
            (after,) = self._outputs(callee, ports | state, ())
            if after is None and inside and not every_round:
                return [None]  # the next round stops what it carries
            narrower = uniform & after.uniform if after else uniform
            if narrower == uniform:
                return [Perturbation(round_, uniform)]
            uniform = narrower  # fewer axes each time


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """A change of the value that goes round, equal to no other."""

    callee: Graph


def _of_call(call: Call, change: Perturbation, given: Container[object]) -> Perturbation:
    """A change that a call makes: another call of the same block makes another.

    One that comes out as it was given, or as the parameter itself, is the same in all calls.
    """
    if change.source in given:
        return change
    return replace(change, source=(id(call), change.source))


def _through(step: Apply, graph: Graph, changes: Mapping[Value, Perturbation]) -> Changes:
    """The outputs of an operator that change, without its caches."""
    body = step.body(graph.types)
    pairs = zip(body.operands, step.inputs, strict=True)
    operands = {str(expr.name): changes[each] for expr, each in pairs if each in changes}
    results = zip(step.outputs, propagate(body.outputs, operands), strict=True)
    return {each: change for each, change in results if change and each.role != "cache"}


def _said(step: Apply, graph: Graph, changed: Changes) -> str:
    """Why a change ends here: any change would, or only one that is equal in rows or operands."""
    where = f"{step.op.glyph} in line {step.span.line}"
    shifts = {value: changed[value] for value in step.inputs if value in changed}
    if not _through(step, graph, {value: Perturbation(value, ANYHOW) for value in shifts}):
        return f"{where} has no slope"
    if any(change.part for change in shifts.values()):
        return f"it changes a part that {where} leaves out"
    if len(shifts) > 1:
        return f"it shifts operands of {where} equally, which cancels in their difference"
    rows = "channels" if step.op.name == "batch_norm" else "rows"
    return f"it shifts whole {rows} alike, which {where} does not see"
