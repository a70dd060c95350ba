"""Write tables of parameters and states by path, and gather parameters in bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from xg.codegen.emit.lifetimes import is_in_parts
from xg.codegen.emit.module_plan import ModulePlan, PassWriter
from xg.codegen.emit.spelling import Scope, locate
from xg.codegen.emit.text import Text, broken, indent_lines, tuple_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.collectives import collective_of
from xg.ir.dim import Dim, Scalar, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Start, Step, Value
from xg.ir.moves import collective
from xg.ir.prim import Expr
from xg.ir.tensor import Shape
from xg.ir.walk import callers_first, having, inside, reachable_keys
from xg.sharding.local import cuts_of_value

Symbols = Mapping[str, Dim]
Key = Callable[[str], str]  # the text of the path of a name, where a row is
Row = tuple[str, str | Callable[[Key], str]]  # a name, and what is said of it as text
Rows = Callable[[Graph, Symbols, Scope], list[Row]]


def table_lines(program: IRProgram, scope: Scope) -> list[str]:
    """Lines that return a dictionary from the name of a parameter to shape and start.

    The parameters of a graph come before those of its calls.
    """
    present = having(program, lambda graph: bool(graph.params))
    return _return_lines(_groups(program, scope, _params, present), table_type(program))


def table_type(program: IRProgram) -> str:
    """The name of the type of the table, by what parameters start as."""
    return "StartTable" if "uniform" in param_starts(program) else "ParamTable"


def param_starts(program: IRProgram) -> list[str]:
    """The kinds of starts that parameters have: ``ones``, ``zeros``, ``uniform``, ``normal``."""
    starts = {
        p.start
        for key in reachable_keys(program.graphs, program.entry)
        for p in program.graphs[key].params
    }
    words = [word for word in ("ones", "zeros") if word in starts]
    words += ["uniform"] if any(isinstance(start, tuple) for start in starts) else []
    return words + (["normal"] if any(isinstance(start, Scalar) for start in starts) else [])


def state_lines(program: IRProgram, scope: Scope) -> list[str]:
    """Lines that return a dictionary from the name of a state to shape and kind."""
    present = having(program, lambda graph: bool(graph.states))
    return _return_lines(_groups(program, scope, _states, present), "CacheTable")


def cut_lines(program: IRProgram, scope: Scope) -> list[str]:
    """Lines that return a dictionary from the name of what is cut to its cuts.

    Parameters by their paths; of the entry also inputs and outputs.
    """
    main = program.main
    named = [(str(value.name), value) for value in main.inputs]
    named += zip(main.output_names, main.outputs, strict=True)
    pairs = [(name, _cuts(program, main, value, {})) for name, value in named]

    def rows(graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
        params = [p.value for p in graph.params]
        pairs = [(str(value.name), _cuts(program, graph, value, symbols)) for value in params]
        return [(name, text) for name, text in pairs if text != "()"]

    present = having(program, lambda graph: bool(rows(graph, {}, scope)))
    own = _Group(0, "", [f'"{name}": {text},' for name, text in pairs if text != "()"])
    groups = [own, *_groups(program, scope, rows, present)]
    return _return_lines(_merge_groups(groups), "dict[str, Cuts]")


def named_lines(program: IRProgram, scope: Scope, rows: Rows, kind: str) -> list[str]:
    """Lines that return a dictionary from paths to what is said of them."""
    present = having(program, lambda graph: bool(rows(graph, {}, scope)))
    return _return_lines(_groups(program, scope, rows, present), kind)


def _cuts(program: IRProgram, graph: Graph, value: Value, symbols: Symbols) -> str:
    """``((-1, "N_T"),)``: axes with the mesh axes that cut them, the outermost first."""
    cuts = cuts_of_value(program, graph, value, symbols)
    texts = [(f"{axis}", f'"{over}"', *map(str, length)) for axis, over, *length in cuts]
    return tuple_of([f"({', '.join(each)})" for each in texts])


@dataclass(slots=True)
class _Group:
    """Rows of a table at one loop depth; `loop` is the line that begins the innermost loop."""

    depth: int
    loop: str
    rows: list[str]


def _return_lines(groups: Sequence[_Group], kind: str) -> list[str]:
    """Lines that fill a table and return it; at once, where there is no loop."""
    groups = [group for group in groups if group.rows or group.loop]
    if not groups:
        return ["return {}"]
    if len(groups) == 1 and not groups[0].loop:
        return ["return {", *(f"    {row}" for row in groups[0].rows), "}"]
    lines = [f"table: {kind} = {{}}"] if groups[0].loop else []
    for group in groups:
        outer, indent = "    " * (group.depth - 1), "    " * group.depth
        lines += [f"{outer}{group.loop}"] if group.loop else []
        head = "table |= {" if lines else f"table: {kind} = {{"
        rows = [f"{indent}    {row}" for row in group.rows]
        lines += [f"{indent}{head}", *rows, f"{indent}}}"] if rows else []
    return [*lines, "return table"]


def _groups(program: IRProgram, scope: Scope, rows: Rows, present: frozenset[str]) -> list[_Group]:
    def below(level: _Level) -> Iterator[_Level]:
        calls = (call for call in _calls(level.graph) if call.callee in present)
        return (level.below(call, program, scope) for call in calls)

    levels = callers_first(_Level(program.main, "", 0, {}), below)
    return _merge_groups(
        [_Group(each.depth, each.loop, [*each.rows(scope, rows)]) for each in levels]
    )


def _merge_groups(groups: Sequence[_Group]) -> list[_Group]:
    """Neighbors in one loop as one group."""
    merged: list[_Group] = []
    for group in groups:
        if merged and not group.loop and merged[-1].depth == group.depth:
            merged[-1].rows += group.rows
        elif group.rows or group.loop:
            merged.append(_Group(group.depth, group.loop, [*group.rows]))
    return merged


def _calls(graph: Graph) -> list[Call]:
    """One call for each path and callee: later ones share its parameters, and its states."""
    last_first = {(call.path, call.callee): call for call in reversed(graph.calls)}
    return list(last_first.values())[::-1]


@dataclass(frozen=True, slots=True)
class _Level:
    """One use of a graph: where its parameters are, inside how many loops, and their sizes.

    `loop` is the line that begins the innermost loop, where this use is its body.
    """

    graph: Graph
    path: str
    depth: int
    symbols: Mapping[str, Dim]
    loop: str = ""

    def rows(self, scope: Scope, rows: Rows) -> Iterator[str]:
        """Lines of a dictionary display."""
        for name, text in rows(self.graph, self.symbols, scope):
            if isinstance(text, str):
                yield f"{_key(self.path, name)}: {text},"
            else:
                code = f"{_key(self.path, name)}: {text(partial(_key, self.path))}"
                *lines, last = broken(code, 4 * self.depth + 9)  # with a comma behind it
                yield from (*lines, f"{last},")

    def below(self, call: Call, program: IRProgram, scope: Scope) -> _Level:
        """The use of the callee of a call."""
        callee = program.graphs[call.callee]
        inner = inside(call, self.graph, callee, self.symbols)
        path = f"{self.path}.{call.path}" if self.path else call.path
        if call.count is None:
            return _Level(callee, path, self.depth, inner)
        counter = "ijklmn"[self.depth]
        rounds = scope.rounds(call.count.substitute(self.symbols), call.first)
        loop = f"for {counter} in {rounds}:"
        return _Level(callee, f"{path}.{{{counter}}}", self.depth + 1, inner, loop)


def _params(graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    return [
        (
            str(param.value.name),
            f"({_in_entry(param.type.shape, graph, symbols, scope)}, "
            f"{_start(param.start, graph, symbols, scope)})",
        )
        for param in graph.params
    ]


def _states(graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    types = [(state.name, graph.types[state.past]) for state in graph.states]
    return [
        (
            name,
            f"({_in_entry(type_.shape, graph, symbols, scope)}, "
            + ('"float")' if type_.is_float else '"int")'),
        )
        for name, type_ in types
    ]


def _in_entry(shape: Shape, graph: Graph, symbols: Symbols, scope: Scope) -> str:
    """The text of a shape in the symbols of the entry."""
    dims = (graph.sizes.expand(dim).substitute(symbols) for dim in shape)
    return tuple_of(scope.shape(tuple(dims)))


def _key(path: str, name: str) -> str:
    full = f"{path}.{name}" if path else name
    return f'f"{full}"' if "{" in full else f'"{full}"'


def _start(start: Start, graph: Graph, symbols: Mapping[str, Dim], scope: Scope) -> str:
    if isinstance(start, str):
        return f'"{start}"'
    if isinstance(start, tuple):
        return tuple_of([_start(bound, graph, symbols, scope) for bound in start])
    expanded = start.substitute({name: graph.sizes.expand(dim) for name, dim in _self(start)})
    return scope.number(expanded.substitute(symbols)).text


def _self(scalar: Scalar) -> Iterator[tuple[str, Dim]]:
    for name in scalar.symbols():
        yield name, symbol(name)


# Parameters that fused code gathers in bundles: a layer's at once, the next layer's ahead of time.
#
# Those that a plan holds are gathered once for all passes of a step. A parameter that several
# places read, or that a loop reads in every round, is gathered by itself.


Shared = Container[tuple[str, str]]
FUNCTIONS: Final = {  # by what they list
    "forward": ("_gathers", "Mesh axis and axis of every parameter that is gathered."),
    "backward": ("_gathers_again", "Those of the parameters that a backward pass gathers."),
    "held": ("_held", "Those that are gathered once for all passes of a step."),
}


def bundles(program: IRProgram, shared: Shared) -> bool:
    """Whether a program of ranks gathers parameters that can be bundled."""
    looped = any(call.loop for graph in program.graphs.values() for call in graph.calls)
    return not looped and any(
        next(gather_steps(graph, graph.steps, shared), None) for graph in program.graphs.values()
    )


def holds(program: IRProgram) -> bool:
    """Whether a plan holds what parameters are gathered to for all passes of a step."""
    return any("hold" in graph.memory.values() for graph in program.graphs.values())


def gather_steps(
    graph: Graph, steps: Iterable[Step], shared: Shared
) -> Iterator[tuple[Apply, Expr]]:
    """The steps of a pass that gather a parameter of a graph, each with what it is."""
    params = {param.value: str(param.value.name) for param in graph.params}
    gathers: list[tuple[Apply, Expr]] = []
    for step in steps:
        if not isinstance(step, Apply) or collective(step.op) is None:
            continue
        name = params.get(step.inputs[0])
        if name is None or (graph.key, name) in shared or (graph.key, "*") in shared:
            continue
        (gather,) = step.body(graph.types).outputs
        record = collective_of(gather)
        if record and record.gathers:
            gathers.append((step, gather))
    times = Counter(step.inputs[0] for step, _ in gathers)
    yield from (pair for pair in gathers if times[pair[0].inputs[0]] == 1)


def spell_gathers(writer: PassWriter, steps: Iterable[Step]) -> None:
    """Let a function ask for bundled parameters by their names, and read no shards of them."""
    if not writer.plan.bundles:
        return
    statements = writer.statements
    for step, _ in gather_steps(writer.graph, steps, writer.plan.shared):
        name = writer.below(str(step.inputs[0].name))
        statements.direct[step] = Text(f"params.whole({name})")
        statements.uses[step.inputs[0]] -= 1


def gathered_params(plan: ModulePlan, *, reverse: bool) -> str:
    """Return the text of the parameters that a public function passes to the entry block."""
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
        functions.append([f"def {name}() -> dict[str, tuple[str, int]]:", *indent_lines(body)])
    return functions


def _gather_lines(program: IRProgram, shared: Shared, scope: Scope, listed: str) -> list[str]:
    """Lines that return the parameters that one pass gathers, by name, or those that are held."""
    reverse = listed == "backward"
    again = _run_again(program) if reverse else frozenset(program.graphs)

    def rows(graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
        steps = (*program.backwards[graph.key].steps,) if reverse else ()
        steps += graph.steps if graph.key in again else ()
        return [
            (str(step.inputs[0].name), f'("{gather.attr("over")}", {gather.attr("axis")})')
            for step, gather in gather_steps(graph, steps, shared)
            if listed != "held" or graph.memory.get(str(step.inputs[0].name)) == "hold"
        ]

    return named_lines(program, scope, rows, "dict[str, tuple[str, int]]")


def _run_again(program: IRProgram) -> frozenset[str]:
    """The graphs whose forward pass a backward pass runs again."""
    keys: set[str] = set()
    for backward in program.backwards.values():
        for call in backward.calls:
            if call.again:
                keys.update(reachable_keys(program.graphs, call.callee))
    return frozenset(keys)
