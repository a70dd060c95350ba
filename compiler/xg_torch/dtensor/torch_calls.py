"""The calls of torch that divide a module as a plan divides a diagram, as a Python module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Graph, Program
from xg.ir.plan import INSIDE, ROUNDS, WHOLE
from xg_torch.dtensor.along import Along, Style
from xg_torch.dtensor.data_axes import ALONE, DataAxes, data_axes
from xg_torch.dtensor.layers import Layers
from xg_torch.dtensor.module_names import ModuleNames
from xg_torch.dtensor.own_rows import refuse_exchanges, refuse_inner_sums
from xg_torch.dtensor.refusal import Refusal
from xg_torch.dtensor.styles import Styles, styles_along

WIDTH = 100
STYLES = "torch.distributed.tensor.parallel"


@dataclass(frozen=True)
class Calls:
    """All that is written: the program, its axes of rows, and the styles along the other axis."""

    program: Program
    names: ModuleNames
    data: DataAxes
    styles: Styles | None

    @classmethod
    def of(cls, placed: Program, local: Program, names: ModuleNames) -> Calls:
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
        """The axes with their sizes, those of rows first."""
        sizes = {ALONE: 1, **self.program.mesh}
        axes = (*self.data.names, *([self.styles.axis] if self.styles else []))
        return {axis: sizes[axis] for axis in axes}


def _refuse_pads(placed: Program, refusal: Refusal) -> None:
    """Raise DiagnosticError where the plan pads a size."""
    for name in placed.lengths:
        instead = f"the calls are the same for every {name}: --set {name}=… to one that ranks share"
        raise refusal(placed.main.span, f"{name} is padded", instead)


def _kept(name: str, graph: Graph) -> str:
    """The words for what a plan says where it is kept: a value, or all that a block computes."""
    return graph.block if name in (WHOLE, INSIDE) else f"{name} of {graph.block}"


def source(placed: Program, local: Program, names: ModuleNames) -> str:
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
                yield from _parallelized(styles, calls.styles.axis)
        for copy, original in calls.styles.tied.items():
            yield f"    model.{copy}.weight = model.{original}.weight  # tied as before"
    if calls.data.names:
        yield from _sharded(calls)
    yield "    return model"


def _parallelized(styles: list[Style], axis: str) -> Iterator[str]:
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


def _sharded(calls: Calls) -> Iterator[str]:
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
