"""Write a program as a torch module, and one rank's program as a model of its shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from xg.codegen.emit.allowlist import check_code
from xg.codegen.emit.module import ModuleWriter, Sections
from xg.codegen.emit.module import emit as emit_module
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import Names, safe, spell_symbol, write_with_stable_names
from xg.codegen.emit.parameters import holds
from xg.codegen.emit.public_params import frozen_patterns, learns_function
from xg.codegen.emit.text import bracketed, dictionary, indent_lines, wrap_text
from xg.codegen.torch.dialect import ARRIVED, SETTLE, TORCH, around
from xg.codegen.torch.model_class import model_section
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import Backward, Call, Graph, IRProgram

# The section that makes the program of one rank a `torch.nn.Module` of this rank's shards.
#
# Its whole pass is one step of autograd around the public functions: what they send, gather ahead
# and sum late stays as the plan says, and all ranks begin the same collectives in the same order.


_KEEP: Final = '''def _keep(model: torch.nn.Module, name: str, shard: Array) -> None:
    """Make a shard a parameter where its name says: a number is a place in a row."""
    block: Any = model
    path = name.split(".")
    for i, part in enumerate(path[:-1]):
        if part not in block._modules:
            row = path[i + 1].isdigit()
            block._modules[part] = torch.nn.ModuleList() if row else torch.nn.Module()
        block = block._modules[part]
    block._parameters[path[-1]] = torch.nn.Parameter(shard{learns})
'''

_RUN: Final = '''def _run(model: Any, inputs: Params, seed: Seed) -> dict[str, Array]:
    """Outputs by name, of one step of autograd."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    names = (tuple(inputs), tuple(weights))
    results = _Step.apply(names, seed, *inputs.values(), *weights.values())
    return dict(zip({outputs}, results, strict=True))
'''

_STEP: Final = '''class _Step(torch.autograd.Function):
    """`forward` and `backward` of this rank as one step of autograd."""

    @staticmethod
    def forward(
        ctx: Any, names: tuple[tuple[str, ...], ...], seed: Seed, *tensors: Array
    ) -> tuple[Array, ...]:
        given = dict(zip((*names[0], *names[1]), tensors, strict=True))
        inputs = {name: given.pop(name) for name in names[0]}
        params: Params = {held}
        outputs, saved = forward(params, inputs, seed=seed)
        results = tuple(outputs.values()){settle}
        _remember(ctx, given, [], saved, *results){keep}
        ctx.given = names[0]
        return results

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> tuple[Array | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("create_graph=True: no second derivative on ranks")
        given, _, *kept = _recall(ctx)
        params: Params = {again}
        pairs = zip({outputs}, cotangents, strict=True)
        arrived = {name: dy for name, dy in pairs if dy is not None}
        with _as_before(ctx):
            grads = backward(params, kept.pop(), arrived)
        return None, None, *[grads.get(name) for name in (*ctx.given, *given)]
'''


_SETTLED: Final = """
        if seed is not None:
            _settle(given, {**given, **moved(params, saved)})"""


def rank_model_section(writer: ModuleWriter) -> Sections:
    """`Model`, its step of autograd, and what they call."""
    program = writer.program
    entry = program.main
    names = [f'"{name}"' for name in entry.output_names]
    outputs = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
    held = writer.plan.bundles and holds(program)
    step = (
        _STEP.replace("{outputs}", outputs)
        .replace("{held}", "Held(given)" if held else "given")
        .replace("{keep}", "\n        ctx.wholes = params.wholes" if held else "")
        .replace("{settle}", _SETTLED if writer.plan.moved else "")
        .replace("{again}", "Held(given, ctx.wholes)" if held else "given")
    )
    frozen = bool(frozen_patterns(program))
    keep = _KEEP.replace("{learns}", ", requires_grad=_learns(name)" if frozen else "")
    learns = [learns_function(program)] if frozen else []
    support = [
        keep,
        *([SETTLE] if writer.plan.moved else []),
        *(
            part
            for part in around(writer.plan.frees_saved_values, several=True)
            if part is not ARRIVED
        ),
    ]
    return Sections(
        [_model(writer, entry)],
        [_RUN.replace("{outputs}", outputs).rstrip().splitlines(), step.rstrip().splitlines()],
        [*learns, *(text.rstrip().splitlines() for text in support)],
    )


def _model(writer: ModuleWriter, entry: Graph) -> list[str]:
    params = writer.params
    chosen, _ = params.chosen_sizes(params.sizes)
    items = ["seed", *(item.split(":")[0] for item in params.dialect.types)]
    items += [f"{name}={name}" for name in map(spell_symbol, chosen)]
    body = [
        "super().__init__()",
        *bracketed("shards = init(", items, ")", 8),
        "for name, shard in shards.items():",
        "    _keep(self, name, shard)",
    ]
    head = bracketed("def __init__(", ["self", *params.init_arguments(chosen)], ") -> None:", 4)
    title = f'"""{safe(entry.title)} with the shards of its parameters that this rank has."""'
    return [
        "class Model(torch.nn.Module):",
        *indent_lines(wrap_text(title)),
        "",
        *indent_lines([*head, *indent_lines(body)]),
        "",
        *indent_lines(_forward(writer, entry)),
    ]


def _forward(writer: ModuleWriter, entry: Graph) -> list[str]:
    names = Names({"self", "seed"})
    inputs = {str(value.name): names.fresh(str(value.name)) for value in entry.inputs}
    seeded = entry.key in writer.plan.random
    parameters = ["self", *(f"{name}: Array" for name in inputs.values())]
    parameters += ["*", "seed: Seed = None"] if seeded else []
    given = [*inputs.values(), *(["seed=seed"] if seeded else [])]
    body = [
        '"""Outputs by name, of this rank\'s shards of the inputs."""',
        "if torch.compiler.is_compiling():  # what ranks send is not traced",
        "    untraced: Any = torch.compiler.disable(self.forward)",
        *indent_lines(bracketed("return untraced(", given, ")", 12)),
    ]
    if seeded:
        device = f", device={next(iter(inputs.values()))}.device" if inputs else ""
        over = "*".join(writer.program.mesh)
        body += [
            "if seed is None and self.training:  # the same on all ranks",
            f"    seed = torch.randint(2**62, (){device})",
            f'    seed = all_reduce_max(seed, "{over}")',
        ]
    given = [f'"{name}": {text}' for name, text in inputs.items()]
    line = f"return _run(self, {{{', '.join(given)}}}, {'seed' if seeded else 'None'})"
    if len(line) > 80:
        line = ""
        body += dictionary("inputs = ", given, "", 8)
        body += [f"return _run(self, inputs, {'seed' if seeded else 'None'})"]
    head = bracketed("def forward(", parameters, ") -> dict[str, Array]:", 4)
    return [*head, *indent_lines([*body, *([line] if line else [])])]


G = TypeVar("G", bound=Graph)


def emit(program: IRProgram, outlined: IRProgram | None, *, kernels: bool = False) -> str:
    """The source of the module; `outlined` is the same program with an entry of calls only.

    Without it there is a `Model` on ranks alone. With `kernels` the graphs are fused ones.
    """
    if outlined is not None:
        source, writer = write_with_stable_names(lambda: marked(program, outlined, kernels=kernels))
    elif program.mesh and program.stage is None:
        source, writer = write_with_stable_names(lambda: _of_rank(program, kernels=kernels))
    else:
        return emit_module(program, TORCH, kernels=kernels)
    check_code(source, writer.vocabulary(source), _attributes(program))
    return source


def marked(
    program: IRProgram, outlined: IRProgram, *, kernels: bool = False
) -> tuple[str, ModuleWriter]:
    """The source of a module with a `Model`, its names marked, and what wrote it."""
    outlined = _with_own_keys(outlined, program)
    graphs = {**outlined.graphs, **program.graphs}
    backwards = {**outlined.backwards, **program.backwards}
    both = replace(program, graphs=graphs, backwards=backwards)
    calls = (step for step in outlined.main.steps if isinstance(step, Call))
    pieces = frozenset({outlined.entry, *(call.callee for call in calls if not call.path)})
    by_hand = TORCH.kernels if kernels else None
    writer = ModuleWriter(
        both,
        TORCH,
        ModulePlan.start(both, TORCH.spelling, pieces, kernels=by_hand, always=TORCH.always),
    )

    def section(writer: ModuleWriter) -> Sections:
        return model_section(writer, outlined)

    return writer.source(section), writer


def _with_own_keys(outlined: IRProgram, program: IRProgram) -> IRProgram:
    """The outlined program, with other keys for blocks whose backward pass is another one there.

    If `stop` hides a loop, the program has no backward pass that could collect its gradients. The
    pieces of the outlined one have: autograd decides there what is run.
    """
    keys = {
        key: f"{key}, outlined"
        for key, backward in outlined.backwards.items()
        if key in program.backwards and _axes(backward) != _axes(program.backwards[key])
    }
    if not keys:
        return outlined
    calls: dict[Call, Call] = {}

    def rename_calls(graph: G) -> G:
        for call in graph.calls:
            origin = calls.get(call.origin) if call.origin else None
            callee = keys.get(call.callee, call.callee)
            calls[call] = replace(call, callee=callee, origin=origin)
        steps = tuple(calls[step] if isinstance(step, Call) else step for step in graph.steps)
        return replace(graph, key=keys.get(graph.key, graph.key), steps=steps)

    graphs = {graph.key: graph for graph in map(rename_calls, outlined.graphs.values())}
    backwards = {
        backward.key: replace(backward, forward=graphs[backward.key])
        for backward in map(rename_calls, outlined.backwards.values())
    }
    return replace(outlined, graphs=graphs, backwards=backwards)


def _axes(backward: Backward) -> list[int | None]:
    """The axes of the values that a loop gives its caller of all rounds."""
    return [axis for _, axis in backward.rows]


def _of_rank(program: IRProgram, *, kernels: bool) -> tuple[str, ModuleWriter]:
    """The source of a rank's module with a `Model`, its names marked, and what wrote it."""
    by_hand = TORCH.kernels if kernels else None
    writer = ModuleWriter(
        program,
        TORCH,
        ModulePlan.start(program, TORCH.spelling, kernels=by_hand, always=TORCH.always),
    )
    return writer.source(rank_model_section), writer


def _attributes(program: IRProgram) -> Iterator[str]:
    """The attributes of modules: parameters, and a module for every call."""
    for graph in program.graphs.values():
        for value in graph.param_values():
            yield from str(value.name).split(".")
        yield from (call.path for call in graph.named_calls())
