"""Write a block as a `torch.nn.Module` of its own class, and as one step of autograd.

Parameters and children go straight into torch's tables (`Named`), so that a diagram may name
something `type`, `half` or `forward`. Other names in the module, with hooks that translate keys,
would give `named_parameters` and `state_dict` two vocabularies. PEFT adapts these parameters by
`target_parameters`: modules of `nn.Linear` would compute each product a second way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Final

from xg.codegen.emit.argument_checks import WIDEN
from xg.codegen.emit.module_plan import ModulePlan, size_variables
from xg.codegen.emit.names import Names, safe
from xg.codegen.emit.spelling import private
from xg.codegen.emit.statements import describe
from xg.codegen.emit.text import WIDTH, bracketed, indent_lines, wrap_text
from xg.codegen.torch.templates import SETTING
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, Graph, Value
from xg.ir.labels import value_names

# Names in a diagram that an attribute of a `torch.nn.Module` cannot go by.


# What every module has of itself. Torch is not imported to write code, and its newest version may
# not be the one that runs it; what begins with an underscore is no name in a diagram.
MEMBERS: Final = frozenset(
    {"T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children"}
    | {"compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward"}
    | {"get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu"}
    | {"load_state_dict", "modules", "mtia", "named_buffers", "named_children", "named_modules"}
    | {"named_parameters", "parameters", "register_backward_hook", "register_buffer"}
    | {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"}
    | {"register_full_backward_pre_hook", "register_load_state_dict_post_hook"}
    | {"register_load_state_dict_pre_hook", "register_module", "register_parameter"}
    | {"register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_"}
    | {"set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train"}
    | {"training", "type", "xpu", "zero_grad"}
)


def is_attribute(name: str) -> bool:
    """Whether ``self.NAME`` may be a parameter or a child, also one below (``bert.E``)."""
    return all(
        part.isidentifier() and not iskeyword(part) and part not in MEMBERS
        for part in name.split(".")
    )


# A block as one step of autograd: a class around its forward and its backward function.


@dataclass(frozen=True, slots=True)
class AutogradStep:
    """`forward` and `backward` of one callee, as autograd calls them."""

    plan: ModulePlan
    graph: Graph
    reverse: Backward
    name: str

    def lines(self) -> list[str]:
        """The class."""
        function = self.plan.functions[self.graph.key]
        return [
            f"class {self.name}(torch.autograd.Function):",
            f'    """`{function}` and `d_{function}` as one step of autograd."""',
            "",
            "    @staticmethod",
            *indent_lines(self._forward()),
            "",
            "    @staticmethod",
            *indent_lines(self._backward()),
        ]

    @property
    def _path(self) -> bool:
        return self.plan.has_path(self.graph)

    @property
    def _has_seed(self) -> bool:
        return self.graph.key in self.plan.random

    @property
    def _results(self) -> list[str]:
        return variables(self.graph.outputs, self.graph, self.plan)

    def _forward(self) -> list[str]:
        inputs, sizes = (
            variables(self.graph.inputs, self.graph, self.plan),
            self.plan.passed(self.graph),
        )
        names = ["ctx: Any", *(["at: str"] if self._path else []), "names: tuple[str, ...]"]
        names += ["seed: Seed"] if self._has_seed else []
        names += [f"{n}: {kind}" for n, kind in sizes.items()] + [f"{n}: Array" for n in inputs]
        args = ["params", *(["at"] if self._path else []), *inputs, *sizes]
        args += ["seed=seed"] if self._has_seed else []
        results, function = self._results, self.plan.functions[self.graph.key]
        left = ", ".join([*results, "saved"])
        returned = returned_type(len(results))
        again = "" if self._kernels() else ", ".join(inputs)  # what a recorded pass is run on
        remembered = ["ctx", "params", f"[{again}]", "saved"]
        remembered += results if len(results) > 1 else []
        return [
            *bracketed("def forward(", [*names, "*weights: Array"], f") -> {returned}:", 4),
            "    params = dict(zip(names, weights, strict=True))",
            *indent_lines(bracketed(f"{left} = {function}(", args, ")", 8)),
            *indent_lines(self._statistics_lines()),
            *indent_lines(bracketed("_remember(", remembered, ")", 8)),
            *(["    ctx.at = at"] if self._path else []),
            *(["    ctx.seed = seed"] if self._has_seed else []),
            *([f"    ctx.sizes = ({', '.join(sizes)},)"] if sizes else []),
            f"    return {', '.join(results)}",
        ]

    def _statistics_lines(self) -> list[str]:
        """Lines that move running statistics, in training."""
        if self.graph.key not in self.plan.moved:
            return []
        args = ["moved", *(["at"] if self._path else []), "saved"]
        move = bracketed(f"move_{self.plan.functions[self.graph.key]}(", args, ")", 12)
        lines = ["moved = dict(params)", *move, "_settle(params, moved)"]
        return ["if seed is not None:", *indent_lines(lines)]

    def _backward(self) -> list[str]:
        graph, types = self.graph, self.graph.types
        names = Names()
        arriving = [names.fresh(f"d{name}") for name in self._results]
        floats = dict.fromkeys(v for v in graph.outputs if types[v].is_float)
        by_value = dict(zip(graph.outputs, arriving, strict=True))
        args = ["params", *(["ctx.at"] if self._path else []), "saved"]
        args += [*(by_value[value] for value in floats), "grads"]
        with_gradient = [v for v in graph.inputs if v in self.reverse.gradients]
        inputs = dict(zip(graph.inputs, variables(graph.inputs, graph, self.plan), strict=True))
        gradient_names = {value: names.fresh(f"d{inputs[value]}") for value in with_gradient}
        left = f"{', '.join(gradient_names.values())} = " if gradient_names else ""
        head = f"{left}d_{self.plan.functions[graph.key]}("
        before = 1 + self._path + self._has_seed + len(self.plan.passed(graph))
        items = ["None"] * before + [gradient_names.get(value, "None") for value in graph.inputs]
        several = len(arriving) > 1
        kind, cotangents = "Array | None" if several else "Array", ", ".join(arriving)
        parameters = ["ctx: Any", *(f"{name}: {kind}" for name in arriving)]
        return [
            *bracketed("def backward(", parameters, ") -> tuple[Array | None, ...]:", 4),
            *([f"    {cotangents} = _arrived(ctx, {cotangents})"] if several else []),
            f"    params, {'_' if self._kernels() else 'inputs'}, saved = _recall(ctx)",
            "    grads: Params = {}",
            "    with _as_before(ctx):",
            *indent_lines(self._record_lines(), 8),
            *indent_lines(bracketed(head, args, ")", 12), 8),
            *indent_lines(_return_lines([*items, "*[grads.get(name) for name in params]"])),
        ]

    def _record_lines(self) -> list[str]:
        """With ``create_graph=True`` the forward pass again, recorded by autograd as what follows.

        Kernels write into what they read, and autograd has no derivative of a fused one.
        """
        asked = "if torch.is_grad_enabled():  # create_graph=True"
        if kernels := self._kernels():
            text = f"create_graph=True: no second derivative of {', '.join(kernels)} in --kernels"
            *above, last = [text] if len(text) + 22 <= WIDTH else wrap_text(text, 23)
            message = [*(f'    "{line} "' for line in above), f'    "{last}"']
            return [asked, *indent_lines(["raise RuntimeError(", *message, ")"])]
        args = ["params", *(["ctx.at"] if self._path else []), "*inputs"]
        args += ["*ctx.sizes"] if self.plan.passed(self.graph) else []
        args += ["seed=ctx.seed"] if self._has_seed else []
        run = bracketed(f"*_, saved = {self.plan.functions[self.graph.key]}(", args, ")", 16)
        return [asked, *indent_lines(run)]

    def _kernels(self) -> list[str]:
        """Return the operators with kernels in the block and in the blocks that it calls."""
        if self.plan.kernels is None:
            return []
        names: dict[str, None] = {}
        blocks = {self.graph.key: self.graph}
        while blocks:
            key, graph = blocks.popitem()
            if key in self.plan.recurrences:
                names["recurrence"] = None
            for step in graph.steps:
                if isinstance(step, Call):
                    blocks[step.callee] = self.plan.program.graphs[step.callee]
                elif self.plan.kernels.computes(step.op.name):
                    names[step.op.name] = None
        return list(names)


def _return_lines(items: list[str]) -> list[str]:
    line = f"return {', '.join(items)}"
    if len(line) + 8 <= WIDTH:
        return [line]
    return ["return (", *(f"    {item}," for item in items), ")"]


def variables(values: Sequence[Value], graph: Graph, plan: ModulePlan) -> list[str]:
    """Variables for inputs or outputs of a block."""
    names = Names(size_variables(graph) | {"seed"})
    labels = value_names(plan.program, graph.key)
    return [names.fresh(value.name or labels.get(value, "value")) for value in values]


def returned_type(count: int) -> str:
    """Return the return type of a function with this number of results."""
    return "Array" if count == 1 else f"tuple[{', '.join(['Array'] * count)}]"


EXTRA_REPR = ["def extra_repr(self) -> str:", "    return _shapes(self)"]


@dataclass(frozen=True, slots=True)
class BlockModule:
    """Write the class of one block, named `modules[key]`; `steps` has the autograd steps.

    Its parameters and the blocks in it are those of `held`.
    """

    plan: ModulePlan
    graph: Graph
    held: Graph
    modules: Mapping[str, str]
    steps: Mapping[str, str]

    def lines(self) -> list[str]:
        """The class."""
        key, title = self.graph.key, safe(describe(self.graph))
        return [
            f"class {self.modules[key]}(torch.nn.Module):",
            *indent_lines(wrap_text(f'"""{title}, with its parameters."""')),
            "",
            "    def __init__(self, params: Params, at: str) -> None:",
            "        super().__init__()",
            "        self._at = at",
            *indent_lines(list(self._init_lines()), 8),
            *self._run(),
            *members(self.held),
        ]

    def _init_lines(self) -> Iterator[str]:
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
        return ["", *indent_lines(self._forward())]

    def _forward(self) -> list[str]:
        graph = self.graph
        inputs, sizes = variables(graph.inputs, graph, self.plan), self.plan.passed(graph)
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
            return [*head, *indent_lines([doc, *self._widen_lines(inputs), *plain])]
        args = ["self._at", "tuple(weights)", *(["seed"] if seeded else []), *sizes, *inputs]
        call = f"return {self.steps[graph.key]}.apply("
        body = [
            f'"""Run `{function}` as one step of autograd."""',
            *self._widen_lines(inputs),
            "weights = _weights(self, self._at)",
            *bracketed(call, [*args, "*weights.values()"], ")", 8),
        ]
        return [*head, *indent_lines(body)]

    def _widen_lines(self, inputs: Sequence[str]) -> Iterator[str]:
        """Lines that widen integers: a caller may run the block on its own."""
        for name, value in zip(inputs, self.graph.inputs, strict=True):
            if not self.graph.types[value].is_float:
                self.plan.operators.support[WIDEN] = None
                items = [name, f'"{value.name or name}"', "None"]
                yield from bracketed(f"{name} = {private(WIDEN)}(", items, ")", 8)

    def _plain_call(self, inputs: list[str], sizes: Iterable[str], seeded: bool) -> list[str]:
        """The function itself, of a block without gradients."""
        results = variables(self.graph.outputs, self.graph, self.plan)
        args = ["_weights(self, self._at)", "self._at", *inputs, *sizes]
        args += ["seed=seed"] if seeded else []
        head = f"{', '.join([*results, '_'])} = {self.plan.functions[self.graph.key]}("
        return [*call_without_grad(self.graph, head, args), f"return {', '.join(results)}"]


def call_without_grad(graph: Graph, head: str, args: Sequence[str]) -> list[str]:
    """A call of a function without gradients: autograd records none through what it is given."""
    if not any(graph.types[value].is_float for value in graph.inputs):
        return bracketed(head, args, ")", 8)
    return ["with torch.no_grad():", *indent_lines(bracketed(head, args, ")", 12))]


# ---- what a module holds ------------------------------------------------------------------------


def members(graph: Graph) -> list[str]:
    """The methods that all modules have, as lines of the class."""
    setting = SETTING.rstrip().splitlines() if _is_ambiguous(graph) else []
    return ["", *indent_lines(EXTRA_REPR), *(["", *setting] if setting else [])]


def set_param(graph: Graph, value: Value, key: str) -> list[str]:
    """Lines of ``__init__`` that make a parameter of an array."""
    name = str(value.name)
    place = f"self.{name}" if holds(graph, name) else f'self._parameters["{name}"]'
    frozen = ["requires_grad=False"] if value.frozen else []
    return bracketed(f"{place} = torch.nn.Parameter(", [f"params[{key}]", *frozen], ")", 8)


def set_child(graph: Graph, call: Call, kind: str, path: str, row: str) -> list[str]:
    """Return lines of ``__init__`` that make a call's module, or a list of them for a `row`."""
    place = f"self.{call.path}" if holds(graph, call.path) else f'self._modules["{call.path}"]'
    if not row:
        text = f'f"{path}"' if "{" in path else f'"{path}"'
        return bracketed(f"{place} = {kind}(", ["params", text], ")", 8)
    listing = f"[{kind}(params, {row})]"
    if len(listing) + 12 <= WIDTH:
        return bracketed(f"{place} = torch.nn.ModuleList(", [listing], ")", 8)
    one, loop = listing[1:-1].split(" for ")
    lines = ["[", f"    {one}", f"    for {loop}", "]"]
    return [f"{place} = torch.nn.ModuleList(", *indent_lines(lines), ")"]


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
