"""Numbers of parameters alone as text: computed where parameters are prepared, fetched by steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from xg.codegen.emit.function import OperatorFunction, operator_function
from xg.codegen.emit.line_breaks import bracketed, indented
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import spell_symbol
from xg.codegen.emit.param_table import Key, Row, Symbols, named_lines
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.statements import function_name
from xg.codegen.emit.text import call
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import unstopped
from xg.ir.graph import Apply, Graph, Value
from xg.ir.parameters import PREPARED


def prepared_steps(plan: ModulePlan, graph: Graph) -> Mapping[Apply, OperatorFunction]:
    """The steps of a graph that a module with `prepared` runs there, with their functions.

    A function that takes more than arrays stays in the step: there its sizes are known.
    """
    if not plan.prepares:
        return {}
    found: dict[Apply, OperatorFunction] = {}
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.glyph == PREPARED:
            body = unstopped(step.body(graph.types))
            args = step.op, body, step.attrs, graph.sizes, plan.spelling
            function = operator_function(*args)
            if not (function.sizes or function.own or function.dtype or function.device):
                found[step] = function
    return found


def prepared_values(plan: ModulePlan, graph: Graph) -> list[Value]:
    """The values that a step fetches among parameters."""
    return [step.outputs[0] for step in prepared_steps(plan, graph)]


@dataclass(frozen=True, slots=True)
class PreparedNumbers:
    """The functions of a module that list these numbers and compute them.

    `sizes` are the symbols that both need, which count rows of calls.
    """

    names: list[str]
    values: list[str]
    sizes: tuple[str, ...]

    @classmethod
    def of(cls, plan: ModulePlan) -> PreparedNumbers | None:
        """Those of a module; None where it has no such numbers."""
        if not any(prepared_steps(plan, graph) for graph in plan.program.graphs.values()):
            return None
        scope = Scope(plan.program.main.sizes)
        values = named_lines(plan.program, scope, partial(_values, plan), "Params")
        names = named_lines(plan.program, scope, partial(_names, plan), "dict[str, str]")
        sizes = tuple(scope.needed)
        kinds = [f"{spell_symbol(name)}: int" for name in sizes]
        more = ["*", *kinds] if kinds else []
        return cls(
            [
                *bracketed("def _number_names(", more, ") -> dict[str, str]:"),
                '    """Numbers that `prepared` adds, each with a parameter that it is of."""',
                *indented(names),
            ],
            [
                *bracketed("def _numbers(", ["params: Params", *more], ") -> Params:"),
                '    """Numbers that depend on parameters alone, which each step reads."""',
                *indented(values),
            ],
            sizes,
        )

    def given(self) -> list[str]:
        """The arguments of both."""
        return [f"{name}={name}" for name in map(spell_symbol, self.sizes)]


def _values(plan: ModulePlan, graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    """Each number with the call that computes it."""
    return [
        (str(step.outputs[0].name), partial(_call, plan, step, function))
        for step, function in prepared_steps(plan, graph).items()
    ]


def _call(plan: ModulePlan, step: Apply, function: OperatorFunction, key: Key) -> str:
    called = plan.operators.name(function_name(step.op.name), function)
    return call(called, *(f"params[{key(str(value.name))}]" for value in step.inputs)).text


def _names(plan: ModulePlan, graph: Graph, symbols: Symbols, scope: Scope) -> list[Row]:
    """Each number with the first of its parameters."""

    def first(step: Apply) -> Callable[[Key], str]:
        return lambda key: key(str(step.inputs[0].name))

    return [(str(step.outputs[0].name), first(step)) for step in prepared_steps(plan, graph)]
