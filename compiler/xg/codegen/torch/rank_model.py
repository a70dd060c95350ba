"""The section that makes the program of one rank a `torch.nn.Module` of this rank's shards.

Its whole pass is one step of autograd around the public functions: what they send, gather ahead and
sum late stays as the plan says, and all ranks begin the same collectives in the same order.
"""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.bundles import holds
from xg.codegen.emit.frozen import frozen_patterns, learns_function
from xg.codegen.emit.line_breaks import bracketed, dictionary, indented, wrapped
from xg.codegen.emit.module import ModuleWriter, Sections
from xg.codegen.emit.names import Names, safe, spell_symbol
from xg.codegen.torch.templates import SETTLE, around
from xg.ir.graph import Graph

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
        *around(writer.plan.frees_saved, several=False),
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
        *indented(wrapped(title)),
        "",
        *indented([*head, *indented(body)]),
        "",
        *indented(_forward(writer, entry)),
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
        *indented(bracketed("return untraced(", given, ")", 12)),
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
    return [*head, *indented([*body, *([line] if line else [])])]
