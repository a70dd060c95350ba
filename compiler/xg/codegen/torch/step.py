"""A block as one step of autograd: a class around its forward and its backward function."""

from __future__ import annotations

from collections.abc import Sequence

from xg.codegen.emit.line_breaks import bracketed, indented, wrapped
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import Names
from xg.codegen.emit.text import WIDTH
from xg.codegen.emit.writer import size_variables
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, Graph, Value
from xg.ir.labels import names_by_label


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
            *indented(self._forward()),
            "",
            "    @staticmethod",
            *indented(self._backward()),
        ]

    @property
    def _path(self) -> bool:
        return self.plan.has_path(self.graph)

    @property
    def _seeded(self) -> bool:
        return self.graph.key in self.plan.random

    @property
    def _results(self) -> list[str]:
        return variables(self.graph.outputs, self.graph)

    def _forward(self) -> list[str]:
        inputs, sizes = variables(self.graph.inputs, self.graph), self.plan.passed(self.graph)
        names = ["ctx: Any", *(["at: str"] if self._path else []), "names: tuple[str, ...]"]
        names += ["seed: Seed"] if self._seeded else []
        names += [f"{n}: {kind}" for n, kind in sizes.items()] + [f"{n}: Array" for n in inputs]
        args = ["params", *(["at"] if self._path else []), *inputs, *sizes]
        args += ["seed=seed"] if self._seeded else []
        results, function = self._results, self.plan.functions[self.graph.key]
        left = ", ".join([*results, "saved"])
        returned = returned_type(len(results))
        again = "" if self._kernels() else ", ".join(inputs)  # what a recorded pass is run on
        remembered = ["ctx", "params", f"[{again}]", "saved"]
        remembered += results if len(results) > 1 else []
        return [
            *bracketed("def forward(", [*names, "*weights: Array"], f") -> {returned}:", 4),
            "    params = dict(zip(names, weights, strict=True))",
            *indented(bracketed(f"{left} = {function}(", args, ")", 8)),
            *indented(self._moved()),
            *indented(bracketed("_remember(", remembered, ")", 8)),
            *(["    ctx.at = at"] if self._path else []),
            *(["    ctx.seed = seed"] if self._seeded else []),
            *([f"    ctx.sizes = ({', '.join(sizes)},)"] if sizes else []),
            f"    return {', '.join(results)}",
        ]

    def _moved(self) -> list[str]:
        """Lines that move running statistics, in training."""
        if self.graph.key not in self.plan.moved:
            return []
        args = ["moved", *(["at"] if self._path else []), "saved"]
        move = bracketed(f"move_{self.plan.functions[self.graph.key]}(", args, ")", 12)
        lines = ["moved = dict(params)", *move, "_settle(params, moved)"]
        return ["if seed is not None:", *indented(lines)]

    def _backward(self) -> list[str]:
        graph, types = self.graph, self.graph.types
        names = Names()
        arriving = [names.fresh(f"d{name}") for name in self._results]
        floats = dict.fromkeys(v for v in graph.outputs if types[v].is_float)
        by_value = dict(zip(graph.outputs, arriving, strict=True))
        args = ["params", *(["ctx.at"] if self._path else []), "saved"]
        args += [*(by_value[value] for value in floats), "grads"]
        with_gradient = [v for v in graph.inputs if v in self.reverse.gradients]
        inputs = dict(zip(graph.inputs, variables(graph.inputs, graph), strict=True))
        gradient_names = {value: names.fresh(f"d{inputs[value]}") for value in with_gradient}
        left = f"{', '.join(gradient_names.values())} = " if gradient_names else ""
        head = f"{left}d_{self.plan.functions[graph.key]}("
        before = 1 + self._path + self._seeded + len(self.plan.passed(graph))
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
            *indented(self._recorded(), 8),
            *indented(bracketed(head, args, ")", 12), 8),
            *indented(_returned([*items, "*[grads.get(name) for name in params]"])),
        ]

    def _recorded(self) -> list[str]:
        """With ``create_graph=True`` the forward pass again, recorded by autograd as what follows.

        Kernels write into what they read, and autograd has no derivative of a fused one.
        """
        asked = "if torch.is_grad_enabled():  # create_graph=True"
        if kernels := self._kernels():
            text = f"create_graph=True: no second derivative of {', '.join(kernels)} in --kernels"
            *above, last = [text] if len(text) + 22 <= WIDTH else wrapped(text, 23)
            message = [*(f'    "{line} "' for line in above), f'    "{last}"']
            return [asked, *indented(["raise RuntimeError(", *message, ")"])]
        args = ["params", *(["ctx.at"] if self._path else []), "*inputs"]
        args += ["*ctx.sizes"] if self.plan.passed(self.graph) else []
        args += ["seed=ctx.seed"] if self._seeded else []
        run = bracketed(f"*_, saved = {self.plan.functions[self.graph.key]}(", args, ")", 16)
        return [asked, *indented(run)]

    def _kernels(self) -> list[str]:
        """The operators of the block and of those it calls that have kernels, by their names."""
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


def _returned(items: list[str]) -> list[str]:
    line = f"return {', '.join(items)}"
    if len(line) + 8 <= WIDTH:
        return [line]
    return ["return (", *(f"    {item}," for item in items), ")"]


def variables(values: Sequence[Value], graph: Graph) -> list[str]:
    """Variables for inputs or outputs of a block."""
    names = Names(size_variables(graph) | {"seed"})
    labels = names_by_label(graph)
    return [names.fresh(value.name or labels.get(value, "value")) for value in values]


def returned_type(count: int) -> str:
    """The type of so many results."""
    return "Array" if count == 1 else f"tuple[{', '.join(['Array'] * count)}]"
