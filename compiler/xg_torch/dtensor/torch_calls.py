"""Write a plan as DTensor calls that shard the user's own module."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Literal

from xg.cli.compiling import compile_request
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.collectives import collective_of
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.placement import INSIDE, INVARIANT, ROUNDS, WHOLE, Memory
from xg_torch.dtensor.styles import (
    Along,
    Layers,
    LayerSite,
    ModuleNames,
    Refusal,
    Style,
    Styles,
    is_cast,
    is_move,
    module_names,
    styles_along,
)

# The axes of a mesh along which rows of a batch are divided, as `fully_shard` divides them.
#
# Where every parameter rests in pieces it is torch's FSDP; where every one is whole, the gradients
# are averaged. Both together, over two axes, are hybrid sharding.


Role = Literal["copies", "pieces"]
ALONE = "one"  # the axis of one rank that torch's replicas are sharded over


@dataclass(frozen=True)
class DataAxes:
    """The axis of copies and the axis of pieces; whether rows and the rest are gathered again."""

    copies: str | None = None
    pieces: str | None = None
    rows: tuple[tuple[str, bool], ...] = ()  # rows of calls, whether each is gathered again
    rest: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of the mesh that `fully_shard` takes."""
        if self.copies is None:
            return (self.pieces,) if self.pieces else ()
        return (self.copies, self.pieces or ALONE)


def data_axes(layers: Layers, refusal: Refusal) -> DataAxes:
    """Return the axes along which rows are divided; raises DiagnosticError for other divisions."""
    main, found = layers.program.main, dict[Role, str]()
    for axis, size in layers.program.mesh.items():
        cuts = [v for v in main.inputs if main.placements[v].get(axis, INVARIANT).kind == "S"]
        if size == 1 or not cuts:
            continue
        for value in cuts:
            if main.placements[value][axis].axis != -len(main.types[value].shape):
                raise refusal(
                    value.span,
                    f"{value.name} is cut along {axis}, and not by rows",
                    "context parallelism of torch is around a step, not a module's style",
                )
        role = _role(layers, axis, refusal)
        if role in found:
            raise refusal(
                main.span, f"{found[role]} and {axis} both divide rows", "one axis for both"
            )
        found[role] = axis
    pieces = found.get("pieces")
    if pieces is None:
        return DataAxes(found.get("copies"))
    rows = [
        (call.path, _is_gathered_again(layers, f"{call.path}.", refusal))
        for call in main.named_calls()
        if call.count is not None
    ]
    rest = _is_gathered_again(layers, "", refusal, [f"{path}." for path, _ in rows])
    return DataAxes(found.get("copies"), pieces, tuple(rows), rest)


def _role(layers: Layers, axis: str, refusal: Refusal) -> Role:
    """Whether every parameter is whole along an axis of rows, or every one in pieces."""
    whole: list[str] = []
    cut: list[str] = []
    for path, value, site in layers.params:
        state = site.graph.placements[value].get(axis, INVARIANT)
        request = site.graph.placement_requests.get(value, {}).get(axis)
        if state.kind == "S" and (request is None or request.use is None):
            raise refusal(
                value.span,
                f"{path} stays cut along {axis}, as the rows are",
                "over an axis of rows fully_shard gathers every parameter that it cuts",
            )
        (cut if state.kind == "S" else whole).append(path)
    if whole and cut:
        raise refusal(
            layers.program.main.span,
            f"over {axis} {cut[0]} is in pieces and {whole[0]} is whole",
            "fully_shard cuts every parameter: cut all, as `* [_/N, ..] -> [..]` does",
        )
    return "pieces" if cut else "copies"


def _is_gathered_again(
    layers: Layers, start: str, refusal: Refusal, other: Iterable[str] = ()
) -> bool:
    """Whether the parameters of a part are gathered once more for the backward pass."""
    kinds: dict[Memory | None, str] = {}
    for path, value, site in layers.params:
        if path.startswith(start) and not any(path.startswith(each) for each in other):
            kinds.setdefault(site.graph.memory.get(str(value.name)), path)
    if "hold" in kinds:
        raise refusal(
            layers.program.main.span,
            f"{kinds['hold']} is held for all microbatches of a step",
            "fully_shard gathers in each pass: `keep` is what it has",
        )
    again = {kind == "again" for kind in kinds}
    if len(again) > 1:
        raise refusal(
            layers.program.main.span,
            f"{' and '.join(kinds.values())} are gathered at different times",
            "fully_shard gathers a module's parameters together",
        )
    return again == {True}


# Whether ranks compute their own rows alone: torch then only averages gradients over them.


def refuse_exchanges(layers: Layers, axis: str, refusal: Refusal) -> None:
    """Raise DiagnosticError where ranks along an axis of rows need more than their own."""
    for site in layers.sites:
        for step in site.graph.steps:
            if isinstance(step, Call) or not is_move(step) or is_cast(step):
                continue
            (value,) = step.inputs
            if axis not in step.attrs["over"].split("*") or site.param(value) is not None:
                continue
            if site.graph.types[value].shape:
                raise refusal(
                    value.span,
                    f"{value.name or 'a value'} of {site.graph.block} is exchanged along {axis}",
                    "along an axis of rows torch's calls send parameters and gradients alone",
                )
            if not _is_mean(site, value, axis):
                raise refusal(
                    value.span,
                    f"{value.name or 'a number'} is no mean of what ranks along {axis} have",
                    "fully_shard averages gradients, as the mean over rows needs it",
                )


def refuse_inner_sums(local: IRProgram, refusal: Refusal) -> None:
    """Raise DiagnosticError for an operator that sends something inside, unless it is a loss."""
    for graph in local.graphs.values():
        for step in graph.steps:
            if isinstance(step, Call) or is_move(step) or step.op.family == "loss":
                continue
            if any(map(collective_of, step.body(graph.types).order())):
                raise refusal(
                    step.span,
                    f"{step.op.glyph} of {graph.block} sums over ranks inside",
                    "torch divides what modules compute",
                )


def _is_mean(site: LayerSite, value: Value, axis: str) -> bool:
    """Whether terms of a sum over ranks are means of rows, each divided by all rows there are."""
    maker = site.makers.get(value)
    if not isinstance(maker, Apply):
        return False
    if maker.op.family == "loss":
        attrs = maker.attrs
        return attrs.get("reduction") == "mean" and attrs.get("ignore", "none") in (None, "none")
    if maker.op.family == "reduce":
        return maker.op.name == "mean"
    placements = site.graph.placements
    terms = [v for v in maker.inputs if placements[v].get(axis, INVARIANT).kind == "P"]
    return bool(terms) and all(_is_mean(site, term, axis) for term in terms)


WIDTH = 100
STYLES = "torch.distributed.tensor.parallel"


@dataclass(frozen=True)
class Calls:
    """All that is written: the program, its axes of rows, and the styles along the other axis."""

    program: IRProgram
    names: ModuleNames
    data: DataAxes
    styles: Styles | None

    @classmethod
    def of(cls, placed: IRProgram, local: IRProgram, names: ModuleNames) -> Calls:
        """Find the calls for a plan; raises DiagnosticError for what torch has no call for.

        `placed` is the program on global shapes with its moves, `local` what a rank runs.
        """
        assert placed.plan is not None
        layers, refusal = Layers.of(placed), Refusal(placed.plan.name)
        if any(ROUNDS in entry.path for entry in placed.plan.entries):
            raise refusal(
                placed.main.span,
                "it has the stages of a pipeline",
                "torch.distributed.pipelining runs stages: divide each by the plan without it",
            )
        _refuse_pads(placed, refusal)
        for graph in placed.graphs.values():
            params = {str(param.value.name) for param in graph.params}
            for name in (name for name in graph.memory if name not in params):
                raise refusal(
                    graph.span,
                    f"{_kept(name, graph)} is computed again, or goes round a ring",
                    "torch.utils.checkpoint computes a module again, around its call",
                )
        data = data_axes(layers, refusal)
        for axis in data.names:
            refuse_exchanges(layers, axis, refusal)
        refuse_inner_sums(local, refusal)
        sizes = {axis for axis, size in placed.mesh.items() if size > 1}
        rest = [axis for axis in placed.mesh if axis in sizes - {*data.names}]
        if len(rest) > 1:
            raise refusal(
                placed.main.span,
                f"{' and '.join(rest)} both divide the model",
                f"the styles of torch divide it along one axis: --set {rest[-1]}=1",
            )
        styles = None
        if rest:
            styles = styles_along(Along(layers, names, refusal, rest[0]))
        return cls(placed, names, data, styles)

    @property
    def mesh(self) -> Mapping[str, int]:
        """Return the mesh axes with their sizes, the axes of rows first."""
        sizes = {ALONE: 1, **self.program.mesh}
        axes = (*self.data.names, *([self.styles.axis] if self.styles else []))
        return {axis: sizes[axis] for axis in axes}


def _refuse_pads(placed: IRProgram, refusal: Refusal) -> None:
    """Raise DiagnosticError where the plan pads a size."""
    for name in placed.lengths:
        instead = f"the calls are the same for every {name}: --set {name}=… to one that ranks share"
        raise refusal(placed.main.span, f"{name} is padded", instead)


def _kept(name: str, graph: Graph) -> str:
    """The words for what a plan says where it is kept: a value, or all that a block computes."""
    return graph.block if name in (WHOLE, INSIDE) else f"{name} of {graph.block}"


def source(placed: IRProgram, local: IRProgram, names: ModuleNames) -> str:
    """Return the module; raises DiagnosticError for what torch has no call for."""
    calls = Calls.of(placed, local, names)
    parts = [*_head(calls), "", *_imports(calls), "", "", *_mesh(calls), "", "", *_body(calls)]
    return "\n".join(parts) + "\n"


def _head(calls: Calls) -> Iterator[str]:
    """The title of the module, and what it asks of the code that it divides."""
    main, plan = calls.program.main, calls.program.plan
    assert plan is not None
    yield f'"""Plan {plan.name} of {main.block} in {main.span.source.name}, as calls of torch.'
    yield ""
    yield '    model = parallelize(model, mesh("cuda"))'
    yield ""
    for line in _remarks(calls):
        yield from wrap(line, WIDTH)
    yield '"""'


def _remarks(calls: Calls) -> Iterator[str]:
    if calls.names.is_given:
        yield "Modules have the names of the file that was given."
    else:
        yield "A module is called after its parameter: `W` is an nn.Linear, its bias part of it."
    if calls.styles and calls.styles.cut:
        sizes = ", ".join(calls.styles.cut)
        yield f"Of these a rank has a part, which views inside should give as -1: {sizes}."
    if calls.styles and calls.styles.of_loss:
        yield "Logits are cut along classes: run both passes within torch's loss_parallel()."
    for note in calls.styles.notes if calls.styles else ():
        yield f"{note[0].upper()}{note[1:]}."
    if calls.data.names:
        rows = " and ".join(axis for axis in calls.data.names if axis != ALONE)
        yield f"Each rank computes the mean loss of its own rows, along {rows}."


def _imports(calls: Calls) -> Iterator[str]:
    yield "from torch import nn"
    yield "from torch.distributed.device_mesh import DeviceMesh, init_device_mesh"
    if calls.data.names:
        yield "from torch.distributed.fsdp import fully_shard"
    if calls.styles:
        styles = [*calls.styles.first, *calls.styles.behind]
        layouts = "".join(value for style in styles for value in style.arguments.values())
        used = [name for name in ("Replicate", "Shard") if name in layouts]
        if used:
            yield f"from torch.distributed.tensor import {', '.join(used)}"
        kinds = sorted({style.kind for style in styles})
        yield f"from {STYLES} import ("
        yield from (f"    {name}," for name in (*kinds, "parallelize_module"))
        yield ")"


def _mesh(calls: Calls) -> Iterator[str]:
    names, sizes = tuple(calls.mesh), tuple(calls.mesh.values())
    yield 'def mesh(device: str = "cpu") -> DeviceMesh:'
    yield '    """The mesh of the plan."""'
    shown = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    yield f"    return init_device_mesh(device, {sizes}, mesh_dim_names=({shown}))"


def _body(calls: Calls) -> Iterator[str]:
    yield "def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:"
    yield '    """Divide a model over the ranks of a mesh; it is changed and returned."""'
    if calls.styles:
        for styles in (calls.styles.first, calls.styles.behind):
            if styles:
                yield from _parallelize_calls(styles, calls.styles.axis)
        for copy, original in calls.styles.tied.items():
            yield f"    model.{copy}.weight = model.{original}.weight  # tied as before"
    if calls.data.names:
        yield from _shard_calls(calls)
    yield "    return model"


def _parallelize_calls(styles: list[Style], axis: str) -> Iterator[str]:
    yield "    parallelize_module("
    yield "        model,"
    yield f'        mesh["{axis}"],'
    yield "        {"
    for style in styles:
        given = [f"{name}={value}" for name, value in style.arguments.items()]
        line = f'            "{style.module}": {style.kind}({", ".join(given)}),'
        if len(line) <= WIDTH:
            yield line
            continue
        yield f'            "{style.module}": {style.kind}('
        yield from (f"                {each}," for each in given)
        yield "            ),"
    yield "        },"
    yield "    )"


def _shard_calls(calls: Calls) -> Iterator[str]:
    data = calls.data
    axes = ", ".join(f'"{name}"' for name in data.names)
    rows = dict(data.rows)
    paths = [call.path for call in calls.program.main.named_calls() if call.count is not None]
    yield f"    rows = mesh[{axes}]"
    for path in paths if data.pieces else ():
        params = [p for p, *_ in Layers.of(calls.program).params if p.startswith(f"{path}.")]
        module = (calls.names.of_call(f"{path}.*", params) or path).removesuffix(".*")
        yield f"    for layer in model.{module}:"
        yield f"        fully_shard(layer, mesh=rows, reshard_after_forward={rows[path]})"
    yield f"    fully_shard(model, mesh=rows, reshard_after_forward={data.rest})"


# `xg show --as dtensor`: a plan as calls of torch.


def show(options: Namespace, console: Console) -> int:
    """Print the calls of torch for a plan."""
    chosen = {
        "--pass": options.view is not None,
        "--after": options.after is not None,
        "--stage": options.stage is not None,
        "--kernels": options.kernels,
    }
    given = [word for word, is_given in chosen.items() if is_given]
    if given or options.plan is None:
        what = f"leave {given[0]} out" if given else "--plan NAME says which"
        console.note(f"xg show: --as dtensor is a plan for a module of yours: {what}")
        return USAGE
    program = compile_request(options)
    assert program.distributed is not None
    names = module_names(options, program.graphs)
    console.write(source(program.distributed, program.graphs, names))
    return FINE
