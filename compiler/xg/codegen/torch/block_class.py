"""A block as a `torch.nn.Module` of its own class: its parameters, the blocks in it, one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xg.codegen.emit.line_breaks import bracketed, indented, wrapped
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import safe
from xg.codegen.emit.ranges import WIDEN
from xg.codegen.emit.statements import place_of
from xg.codegen.emit.support import private
from xg.codegen.emit.text import WIDTH
from xg.codegen.torch.members import is_attribute
from xg.codegen.torch.step import returned_type, variables
from xg.codegen.torch.templates import SETTING
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Call, Graph, Value

EXTRA_REPR = ["def extra_repr(self) -> str:", "    return _shapes(self)"]


@dataclass(frozen=True, slots=True)
class BlockModule:
    """Writes the class of one block, called `modules[key]`; `steps` are those of autograd.

    Its parameters and the blocks in it are those of `held`.
    """

    plan: ModulePlan
    graph: Graph
    held: Graph
    modules: Mapping[str, str]
    steps: Mapping[str, str]

    def lines(self) -> list[str]:
        """The class."""
        key, title = self.graph.key, safe(self.graph.title)
        return [
            f"class {self.modules[key]}(torch.nn.Module):",
            *indented(
                wrapped(f'"""{title} ({place_of([self.graph.span])}) with its parameters."""')
            ),
            "",
            "    def __init__(self, params: Params, at: str) -> None:",
            "        super().__init__()",
            "        self._at = at",
            *indented(list(self._filled()), 8),
            *self._run(),
            *members(self.held),
        ]

    def _filled(self) -> Iterator[str]:
        for param in self.held.params:
            yield from set_param(self.held, param.value, f'f"{{at}}.{param.value.name}"')
        for call in self.held.named_calls():
            path = f"{{at}}.{call.path}"
            row = f'path) for path in _paths(params, f"{path}"' if call.count is not None else ""
            if row:
                self.plan.helpers["paths"] = None
            yield from set_child(self.held, call, self.modules[call.callee], path, row)

    def _run(self) -> list[str]:
        """How the block is run; a kernel of its caller computes all rounds of a recurrence."""
        if self.graph.key in self.plan.recurrences:
            return []
        return ["", *indented(self._forward())]

    def _forward(self) -> list[str]:
        graph = self.graph
        inputs, sizes = variables(graph.inputs, graph), self.plan.passed(graph)
        seeded = graph.key in self.plan.random
        names = [
            "self",
            *(f"{name}: Array" for name in inputs),
            *(f"{n}: {kind}" for n, kind in sizes.items()),
        ]
        names += ["*", "seed: Seed = None"] if seeded else []
        head = bracketed("def forward(", names, f") -> {returned_type(len(graph.outputs))}:", 4)
        function = self.plan.functions[graph.key]
        if graph.key not in self.steps:
            doc = f'"""Run `{function}`, through which no gradient goes."""'
            plain = self._plain_call(inputs, sizes, seeded)
            return [*head, *indented([doc, *self._widened(inputs), *plain])]
        args = ["self._at", "tuple(weights)", *(["seed"] if seeded else []), *sizes, *inputs]
        call = f"return {self.steps[graph.key]}.apply("
        body = [
            f'"""Run `{function}` as one step of autograd."""',
            *self._widened(inputs),
            "weights = _weights(self, self._at)",
            *bracketed(call, [*args, "*weights.values()"], ")", 8),
        ]
        return [*head, *indented(body)]

    def _widened(self, inputs: Sequence[str]) -> Iterator[str]:
        """Lines that widen integers: a caller may run the block on its own."""
        for name, value in zip(inputs, self.graph.inputs, strict=True):
            if not self.graph.types[value].is_float:
                self.plan.operators.support[WIDEN] = None
                items = [name, f'"{value.name or name}"', "None"]
                yield from bracketed(f"{name} = {private(WIDEN)}(", items, ")", 8)

    def _plain_call(self, inputs: list[str], sizes: Iterable[str], seeded: bool) -> list[str]:
        """The function itself, of a block without gradients."""
        results = variables(self.graph.outputs, self.graph)
        args = ["_weights(self, self._at)", "self._at", *inputs, *sizes]
        args += ["seed=seed"] if seeded else []
        head = f"{', '.join([*results, '_'])} = {self.plan.functions[self.graph.key]}("
        return [*unrecorded(self.graph, head, args), f"return {', '.join(results)}"]


def unrecorded(graph: Graph, head: str, args: Sequence[str]) -> list[str]:
    """A call of a function without gradients: autograd records none through what it is given."""
    if not any(graph.types[value].is_float for value in graph.inputs):
        return bracketed(head, args, ")", 8)
    return ["with torch.no_grad():", *indented(bracketed(head, args, ")", 12))]


# ---- what a module holds ------------------------------------------------------------------------


def members(graph: Graph) -> list[str]:
    """The methods that all modules have, as lines of the class."""
    setting = SETTING.rstrip().splitlines() if _is_ambiguous(graph) else []
    return ["", *indented(EXTRA_REPR), *(["", *setting] if setting else [])]


def set_param(graph: Graph, value: Value, key: str) -> list[str]:
    """Lines of ``__init__`` that make a parameter of an array."""
    name = str(value.name)
    place = f"self.{name}" if holds(graph, name) else f'self._parameters["{name}"]'
    frozen = ["requires_grad=False"] if value.frozen else []
    return bracketed(f"{place} = torch.nn.Parameter(", [f"params[{key}]", *frozen], ")", 8)


def set_child(graph: Graph, call: Call, kind: str, path: str, row: str) -> list[str]:
    """Lines of ``__init__`` that make the module of a call, or those of a `row` of paths."""
    place = f"self.{call.path}" if holds(graph, call.path) else f'self._modules["{call.path}"]'
    if not row:
        text = f'f"{path}"' if "{" in path else f'"{path}"'
        return bracketed(f"{place} = {kind}(", ["params", text], ")", 8)
    listing = f"[{kind}(params, {row})]"
    if len(listing) + 12 <= WIDTH:
        return bracketed(f"{place} = torch.nn.ModuleList(", [listing], ")", 8)
    one, loop = listing[1:-1].split(" for ")
    lines = ["[", f"    {one}", f"    for {loop}", "]"]
    return [f"{place} = torch.nn.ModuleList(", *indented(lines), ")"]


def holds(graph: Graph, path: str) -> bool:
    """Whether ``self.PATH`` says it, and does not mean a parameter and a call at once."""
    ambiguous = _params(graph) & _calls(graph)
    return is_attribute(path) and path.split(".")[0] not in ambiguous


def _is_ambiguous(graph: Graph) -> bool:
    """Whether a name means two things that torch would set."""
    params, calls = _params(graph), _calls(graph)
    return "training" in params | calls or not params.isdisjoint(calls)


def _params(graph: Graph) -> set[str]:
    return {str(param.value.name) for param in graph.params}


def _calls(graph: Graph) -> set[str]:
    return {call.path for call in graph.named_calls()}
