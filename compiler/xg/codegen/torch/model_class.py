"""Write the section that makes a generated module a `torch.nn.Module`, with a class per block.

Each block that the entry calls, and each piece of the entry between them, is one step of autograd:
a `torch.autograd.Function` around the block's own forward and backward function. Nothing is traced
inside; between the steps autograd is at work, so optimizers, hooks, checkpointing, data-parallel
wrappers and `torch.compile` find what they expect. Blocks inside blocks are modules too: they hold
their parameters, and run as a step of their own where somebody calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Final

from xg.codegen.emit.argument_checks import FLOATS, WIDEN, check_lines, limit_lines, range_lines
from xg.codegen.emit.module import ModuleWriter, Sections
from xg.codegen.emit.module_plan import ModulePlan, size_variables
from xg.codegen.emit.names import Names, mentioned_names, safe, spell_symbol
from xg.codegen.emit.spelling import Scope, Source, locate, private
from xg.codegen.emit.statements import describe
from xg.codegen.emit.text import WIDTH, bracketed, dictionary, indent_lines, tuple_of, wrap_text
from xg.codegen.torch.dialect import PATHS, SETTING, SETTLE, SHAPES, WEIGHTS, around
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Backward, Call, Graph, IRProgram, Value
from xg.ir.labels import value_names
from xg.ir.size_checks import closure, symbols_of
from xg.ir.walk import reachable_keys

# Parameters and children go straight into torch's tables (`Named`), so that a diagram may name
# something `type`, `half` or `forward`. Other names in the module, with hooks that translate keys,
# would give `named_parameters` and `state_dict` two vocabularies. PEFT adapts these parameters by
# `target_parameters`: modules of `nn.Linear` would compute each product a second way.

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


# Lines of a model that refuse inputs of other shapes, by the names that the file gives them.


def input_sources(graph: Graph, given: str) -> list[Source]:
    """The inputs in the dict `given`; the number of axes is checked where one is read."""
    shapes = [(value, graph.types[value].shape) for value in graph.inputs]
    return [(f'_array({given}, "{value.name}", {len(shape)})', shape) for value, shape in shapes]


def shape_lines(
    graph: Graph, given: str, wanted: str, own: Sequence[Source], scope: Scope
) -> list[str]:
    """A check of all inputs whose sizes they carry themselves, or parameters of the model.

    `given` is the variable of the inputs, `wanted` that of their shapes, if the line is long.
    """
    items = [
        f'"{value.name}": {tuple_of(scope.shape(graph.types[value].shape))}'
        for value in _known(graph, own)
    ]
    more = "" if len(items) == len(graph.inputs) else f"*{given}"
    return check_lines("arrays", items, "{}", wanted, more, 8, given) if items else []


def _known(graph: Graph, own: Sequence[Source]) -> Iterator[Value]:
    sizes = graph.sizes
    shapes = [*(shape for _, shape in own), *(graph.types[value].shape for value in graph.inputs)]
    carried = symbols_of(shapes, sizes)
    for value in graph.inputs:
        shape = graph.types[value].shape
        symbols = {name for dim in shape for name in sizes.fold_exactly(dim).symbols()}
        names, defined = closure(symbols, carried, sizes)
        if {*carried, *defined}.issuperset(names):
            yield value


def model_section(writer: ModuleWriter, outlined: IRProgram) -> Sections:
    """`Model` and modules for all blocks, pieces of the entry and a step for every callee."""
    return _Section(writer, outlined.main).sections()


@dataclass(slots=True)
class _Section:
    writer: ModuleWriter
    entry: Graph  # of calls only
    modules: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's module
    steps: dict[str, str] = field(default_factory=dict[str, str])  # class of a callee's step

    def sections(self) -> Sections:
        """The classes of a reader's interest first, and what they call."""
        graphs, written = self.writer.program.graphs, {*self.writer.saved, *self.plan.recurrences}
        keys = self._callees()
        below = {key for each in keys for key in reachable_keys(graphs, each)}
        own = [key for key in graphs if key in below and key not in written]  # callees first
        pieces = {key: list(self.writer.block(key)) for key in own}
        for key in keys:
            self._name(key)
        public = [self._model()]
        steps: list[list[str]] = []
        for key in keys:
            steps += pieces.pop(key, [])
            if key in self.steps:
                backward = self.writer.program.backwards[key]
                steps.append(
                    AutogradStep(self.plan, graphs[key], backward, self.steps[key]).lines()
                )
            if key in self.modules:
                block = BlockModule(
                    self.plan, graphs[key], self._held(key), self.modules, self.steps
                )
                public.append(block.lines())
        steps = [*(line for inner in pieces.values() for line in inner), *steps]
        several = any(len(graphs[key].outputs) > 1 for key in self.steps)
        support = [SHAPES, *([WEIGHTS] if self.modules else [])]
        support += [PATHS] if "paths" in self.plan.helpers else []
        support += [SETTLE] if self.plan.moved and self.steps else []
        flat = not self.plan.frees_saved_values and all(map(self._saves_tensors, self.steps))
        support += around(self.plan.frees_saved_values, several, flat=flat) if self.steps else []
        return Sections(public, steps, [list(text.rstrip().splitlines()) for text in support])

    @property
    def plan(self) -> ModulePlan:
        return self.writer.plan

    def _saves_tensors(self, key: str) -> bool:
        """Whether a block saves tensors alone: no records of calls, sizes or seeds."""
        forward, sizes = self.writer.saved[key]
        records = any(value.role == "saved" for value in forward.fields)
        return not (records or sizes or key in self.plan.redrawn)

    def _calls(self) -> Iterator[Call]:
        yield from self.entry.calls

    def _callees(self) -> list[str]:
        """The graphs below the entry, callers first."""
        keys = list(dict.fromkeys(call.callee for call in self._calls()))
        for key in keys:  # grows on the way
            inner = dict.fromkeys(call.callee for call in self._held(key).named_calls())
            keys += [callee for callee in inner if callee not in keys]
        return keys

    def _held(self, key: str) -> Graph:
        """The graph whose parameters the module of a callee holds: of a loop, what it calls."""
        graphs = self.writer.program.graphs
        under = {call.path: graphs[call.callee] for call in graphs[key].named_calls()}
        return under.get("", graphs[key])

    def _name(self, key: str) -> None:
        """Names for the classes of one callee; without gradients or functions it has no step."""
        names = self.plan.operators.names
        base = self.plan.classes[key].removesuffix("Saved")
        backward = self.writer.program.backwards[key]
        derives = backward.gradients or backward.calls  # which may have parameters with gradients
        if key not in self.plan.recurrences and derives:
            self.steps[key] = names.fresh(f"{base}Step")
        if self.plan.has_path(self.writer.program.graphs[key]):
            self.modules[key] = names.fresh(base)

    # ---- the model ------------------------------------------------------------------------------

    def _model(self) -> list[str]:
        return [
            "class Model(torch.nn.Module):",
            *indent_lines(wrap_text(f'"""{safe(self.entry.title)} with its parameters."""')),
            "",
            *indent_lines(self._init()),
            "",
            *indent_lines(self._forward()),
            *members(self.entry),
        ]

    def _init(self) -> list[str]:
        scope, entry = Scope(self.entry.sizes), self.entry
        names: list[str] = []
        for param in self.writer.program.main.params:
            names += set_param(entry, param.value, f'"{param.value.name}"')
        for call in entry.named_calls():
            if call.path:
                count = scope.size(call.count).text if call.count is not None else ""
                row = f'f"{call.path}.{{i}}") for i in range({count}' if count else ""
                names += set_child(entry, call, self.modules[call.callee], call.path, row)
        params = self.writer.params
        needed = dict.fromkeys([*params.sizes, *scope.needed])
        chosen, _ = params.chosen_sizes(params.sizes)
        _, defined = params.chosen_sizes(scope.needed)
        params.chosen_sizes(needed)
        items = [item.split(":")[0] for item in params.dialect.types]
        items += [f"{name}={name}" for name in map(spell_symbol, chosen)]
        arguments = ["self", *params.init_arguments(chosen)]
        drawn = bracketed("params = init(", ["seed", *items], ")", 8) if names else []
        body = ["super().__init__()", *drawn, *defined, *names]
        return [*bracketed("def __init__(", arguments, ") -> None:", 4), *indent_lines(body)]

    def _own(self, name: str) -> str:
        """A parameter of the model, or of a module in it: ``self.E``, ``self.bert.E``."""
        if holds(self.entry, name):
            return f"self.{name}"
        *path, last = name.split(".")
        text, graph = "self", self.entry
        for part in path:
            calls = {call.path: call.callee for call in graph.named_calls()}
            text += f".{part}" if holds(graph, part) else f'._modules["{part}"]'
            graph = self._held(calls[part]) if part in calls else graph
        return f"{text}.{last}" if holds(graph, last) else f'{text}._parameters["{last}"]'

    def _forward(self) -> list[str]:
        entry = self.entry
        scope = Scope(entry.sizes)
        range_lines(self.plan, scope, [""] * len(entry.inputs), 8)  # the sizes that they mention
        self._whole_lines(scope)  # so do these
        shape_lines(entry, "", "", self._sources(own=True), scope)  # these mention sizes, too
        sizes = {spell_symbol(name) for name in scope.needed} | self.plan.passed_sizes(entry)
        names = Names(size_variables(entry) | sizes | {"seed"})
        inputs = {value: names.fresh(str(value.name)) for value in entry.inputs}
        given = names.fresh("inputs")
        wanted, own = names.fresh("shapes"), self._sources(own=True)
        checks = shape_lines(entry, given, wanted, own, scope)
        checks += self._float_line(given)
        checks += range_lines(self.plan, scope, list(inputs.values()), 8)
        checks += self._whole_lines(scope)
        texts = inputs | {p.value: self._own(str(p.value.name)) for p in entry.params}
        labels = value_names(self.plan.program, entry.key)
        code: list[str] = []
        for call in self._calls():
            args = [texts[value] for value in call.inputs]
            for value in call.outputs:
                texts[value] = names.fresh(labels.get(value) or "value")
            results = [texts[value] for value in call.outputs]
            code += self._call(call, args, results, scope)
        checks = [*self._size_lines(scope, given), *checks]
        pairs = zip(entry.output_names, entry.outputs, strict=True)
        outputs = [f'"{name}": {texts[value]}' for name, value in pairs]
        seeded = any(call.callee in self.plan.random for call in self._calls())
        parameters = ["self", *(f"{name}: Array" for name in inputs.values())]
        parameters += ["*", "seed: Seed = None"] if seeded else []
        head = bracketed("def forward(", parameters, ") -> dict[str, Array]:", 4)
        return [
            *head,
            *indent_lines(_docstring(seeded)),
            *indent_lines(_dict_of(given, inputs) if given in mentioned_names(checks) else []),
            *indent_lines(checks),
            *indent_lines(_drawn_seed(list(inputs.values())) if seeded else []),
            *indent_lines(self._type_lines(scope, inputs)),
            *indent_lines(code),
            *indent_lines(bracketed("return {", outputs, "}", 8)),
        ]

    def _float_line(self, given: str) -> list[str]:
        """The line that refuses inputs of another type than the first parameter."""
        graph = self.entry
        names = [f'"{value.name}"' for value in graph.inputs if graph.types[value].is_float]
        if not names:
            return []
        self.plan.operators.support[FLOATS] = None
        own = [str(param.value.name) for param in graph.params][:1]
        first = f'{{"{own[0]}": {self._own(own[0])}}}' if own else "dict(self.named_parameters())"
        return bracketed(f"{private(FLOATS)}(", [first, given, *names], ")", 8)

    def _call(
        self, call: Call, args: Sequence[str], results: Sequence[str], scope: Scope
    ) -> list[str]:
        """A piece, a module, or a row of modules."""
        sizes = [
            scope.size(call.sizes.get(name, symbol(name))).text
            for name in self.plan.arguments[call.callee]
        ]
        sizes += scope.types(self.plan.types.get(call.callee, ()))
        seeded = call.callee in self.plan.random
        left = ", ".join(results)
        if not call.path:
            return self._piece_call(call, list(args), sizes, left)
        passed = [*sizes, *(["seed=seed"] if seeded else [])]
        usual = holds(self.entry, call.path)
        module = f"self.{call.path}" if usual else "block" if call.count is None else "blocks"
        names = [] if usual else [f'{module}: Any = self._modules["{call.path}"]']
        if call.count is None:
            return [*names, *bracketed(f"{left} = {module}(", [*args, *passed], ")", 8)]
        rest = [results[0], *args[1:], *passed]
        return [
            *names,
            f"{left} = {args[0]}",
            f"for block in {module}:",
            *indent_lines(bracketed(f"{left} = block(", rest, ")", 12)),
        ]

    def _piece_call(self, call: Call, args: list[str], sizes: list[str], left: str) -> list[str]:
        graph = self.writer.program.graphs[call.callee]
        params = [str(param.value.name) for param in graph.params]
        seeded = call.callee in self.plan.random
        if call.callee not in self.steps:  # nothing in it has a gradient
            own_params = ", ".join(f'"{name}": {self._own(name)}' for name in params)
            function = self.plan.functions[call.callee]
            args = [f"{{{own_params}}}", *args, *sizes, *(["seed=seed"] if seeded else [])]
            return call_without_grad(graph, f"{left}, _ = {function}(", args)
        names = [f'"{name}"' for name in params]
        listed = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
        args = [listed, *(["seed"] if seeded else []), *sizes, *args, *map(self._own, params)]
        return bracketed(f"{left} = {self.steps[call.callee]}.apply(", args, ")", 8)

    def _type_lines(self, scope: Scope, inputs: Mapping[Value, str]) -> list[str]:
        """Lines that fetch float type and device, for callees without a tensor."""
        empty = "next(self.parameters())" if self.plan.has_params else self.plan.spelling.empty
        floats = [text for value, text in inputs.items() if self.entry.types[value].is_float]
        return scope.type_lines(floats, list(inputs.values()), empty)

    def _sources(self, *, own: bool) -> list[Source]:
        """Return the parameters of the model itself, or else the parameters of its modules."""
        values = [param.value for param in self.entry.params]
        return [
            (self._own(str(value.name)), self.entry.types[value].shape)
            for value in values
            if ("." not in str(value.name)) == own
        ]

    def _whole_lines(self, scope: Scope) -> list[str]:
        """Lines that refuse sizes of inputs, those that do not divide too; ``init`` saw others."""
        sources, whole = self._sources(own=True), self.writer.params.whole
        numbers = self.entry.sizes.defaults.keys() - whole.carried
        seen = symbols_of((shape for _, shape in sources), self.entry.sizes) | numbers
        sources += input_sources(self.entry, "")

        def is_open(*dims: Dim) -> bool:
            return not all(seen >= {*dim.symbols()} for dim in dims)

        limits = limit_lines(
            self.writer.program,
            scope,
            lambda each: is_open(each.smaller, each.larger),
            indent=8,
        )
        return [*limits, *whole.lines(sources, scope, is_open)]

    def _size_lines(self, scope: Scope, given: str) -> list[str]:
        """Sizes that steps take as numbers and shapes mention: inputs are to fit parameters."""
        sources = [*self._sources(own=True), *input_sources(self.entry, given)]
        sources += self._sources(own=False)
        inner = self.plan.sources.inner(self.entry).items()
        params = [(self._own(path), shape) for path, shape in inner]
        sizes, span = self.entry.sizes, self.entry.span
        defaults = sizes.defaults
        lines = locate(
            scope.needed, sources, sizes, defaults, span, inner=params, by_definition=True
        )
        self.plan.constants.update(lines.constants)
        if "_array" in mentioned_names(lines.lines):
            self.plan.helpers["array"] = None
        return lines.lines


def _dict_of(given: str, inputs: Mapping[Value, str]) -> list[str]:
    items = [f'"{value.name}": {text}' for value, text in inputs.items()]
    return dictionary(f"{given} = ", items, "", 8)


def _docstring(seeded: bool) -> list[str]:
    if seeded:
        return ['"""Outputs by name; in training, dropout draws a seed if none is given."""']
    return ['"""Outputs by name."""']


def _drawn_seed(inputs: Sequence[str]) -> list[str]:
    device = f", device={inputs[0]}.device" if inputs else ""
    return ["if seed is None and self.training:", f"    seed = torch.randint(2**62, (){device})"]
