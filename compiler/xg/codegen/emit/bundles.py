"""Parameters that fused code gathers in bundles: a layer's at once, the next layer's ahead of time.

Those that a plan holds are gathered once for all passes of a step. A parameter that several places
read, or that a loop reads in every round, is gathered by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import Final

from xg.codegen.emit.later import is_in_parts
from xg.codegen.emit.line_breaks import indented
from xg.codegen.emit.locate import locate
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.param_table import Row, Symbols, named_lines
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.text import Text
from xg.codegen.emit.writer import PassWriter
from xg.ir.graph import Apply, Graph, Program, Step
from xg.ir.prim import Expr
from xg.ir.walk import reached

Shared = Container[tuple[str, str]]
FUNCTIONS: Final = {  # by what they list
    "forward": ("_gathers", "Mesh axis and axis of every parameter that is gathered."),
    "backward": ("_gathers_again", "Those of the parameters that a backward pass gathers."),
    "held": ("_held", "Those that are gathered once for all passes of a step."),
}


def bundles(program: Program, shared: Shared) -> bool:
    """Whether a program of ranks gathers parameters that can be bundled."""
    looped = any(call.loop for graph in program.graphs.values() for call in graph.calls)
    return not looped and any(
        next(gathered(graph, graph.steps, shared), None) for graph in program.graphs.values()
    )


def holds(program: Program) -> bool:
    """Whether a plan holds what parameters are gathered to for all passes of a step."""
    return any("hold" in graph.memory.values() for graph in program.graphs.values())


def gathered(graph: Graph, steps: Iterable[Step], shared: Shared) -> Iterator[tuple[Apply, Expr]]:
    """The steps of a pass that gather a parameter of a graph, each with what it is."""
    params = {param.value: str(param.value.name) for param in graph.params}
    gathers: list[tuple[Apply, Expr]] = []
    for step in steps:
        if not isinstance(step, Apply) or step.op.family != "collective":
            continue
        name = params.get(step.inputs[0])
        if name is None or (graph.key, name) in shared or (graph.key, "*") in shared:
            continue
        (gather,) = step.body(graph.types).outputs
        if gather.prim == "all_gather":
            gathers.append((step, gather))
    times = Counter(step.inputs[0] for step, _ in gathers)
    yield from (pair for pair in gathers if times[pair[0].inputs[0]] == 1)


def spell_gathered(writer: PassWriter, steps: Iterable[Step]) -> None:
    """Let a function ask for bundled parameters by their names, and read no shards of them."""
    if not writer.plan.bundles:
        return
    statements = writer.statements
    for step, _ in gathered(writer.graph, steps, writer.plan.shared):
        name = writer.below(str(step.inputs[0].name))
        statements.direct[step] = Text(f"params.whole({name})")
        statements.uses[step.inputs[0]] -= 1


def gathered_params(plan: ModulePlan, *, reverse: bool) -> str:
    """The parameters of a pass, as the public functions give them to those of the entry block."""
    if not plan.bundles:
        return "params"
    listed, order = ("_gathers_again", ", last_first=True") if reverse else ("_gathers", "")
    held = ", held=_held()" if holds(plan.program) else ""
    return f"Gathered(params, {listed}(){held}{order})"


def no_gradients(plan: ModulePlan) -> str:
    """The line that begins the gradients; their sums over ranks may be put off."""
    held = "held=_held()" if plan.bundles and holds(plan.program) else ""
    kind, none = ("Sums[Array]", f"Sums({held})") if plan.defers_sums else ("Params", "{}")
    if not is_in_parts(plan.program):
        return f"grads: {kind} = {none}"
    return f"grads: {kind} = {none} if earlier is None else earlier"


def gather_functions(plan: ModulePlan) -> list[list[str]]:
    """The functions that list the parameters that each pass gathers, if any are bundled."""
    if not plan.bundles:
        return []
    sizes, functions = plan.program.main.sizes, list[list[str]]()
    for listed, (name, doc) in FUNCTIONS.items():
        if listed == "held" and not holds(plan.program):
            continue
        scope = Scope(sizes)
        lines = _gather_lines(plan.program, plan.shared, scope, listed)
        located = locate(scope.needed, [], sizes, sizes.defaults, plan.program.main.span)
        plan.constants.update(located.constants)
        body = [f'"""{doc}"""', *located.lines, *lines]
        functions.append([f"def {name}() -> dict[str, tuple[str, int]]:", *indented(body)])
    return functions


def _gather_lines(program: Program, shared: Shared, scope: Scope, listed: str) -> list[str]:
    """Lines that return the parameters that one pass gathers, by name, or those that are held."""
    reverse = listed == "backward"
    again = _run_again(program) if reverse else frozenset(program.graphs)

    def rows(graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
        steps = (*program.backwards[graph.key].steps,) if reverse else ()
        steps += graph.steps if graph.key in again else ()
        return [
            (str(step.inputs[0].name), f'("{gather.attr("over")}", {gather.attr("axis")})')
            for step, gather in gathered(graph, steps, shared)
            if listed != "held" or graph.memory.get(str(step.inputs[0].name)) == "hold"
        ]

    return named_lines(program, scope, rows, "dict[str, tuple[str, int]]")


def _run_again(program: Program) -> frozenset[str]:
    """The graphs whose forward pass a backward pass runs again."""
    keys: set[str] = set()
    for backward in program.backwards.values():
        for call in backward.calls:
            if call.again:
                keys.update(reached(program.graphs, call.callee))
    return frozenset(keys)
