"""The sends of a pipeline, as formulas: what every stage sends in a step of M microbatches."""

from __future__ import annotations

from collections.abc import Iterator

from xg.cost.traffic import Pass, local_elements
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.graph import Graph, Program, Value
from xg.ir.parameters import param_specs


@dataclass(frozen=True, slots=True)
class Send:
    """A send of stage `source` to stage `target`: the stream, or a gradient that both hold.

    Of the stream once for each microbatch (`repeats`), of a shared gradient once for a step.
    """

    direction: Pass
    source: int
    target: int
    payload: Dim
    repeats: bool
    name: str


def sends(placed: Program) -> Iterator[Send]:
    """All that a rank of one stage sends over the axis of the pipeline."""
    stage, main = placed.stage, placed.main
    assert stage is not None
    if stage.sends is not None:
        size = local_size(main, main.outputs[0])
        yield Send("forward", stage.place, stage.place + 1, size, True, stage.sends)
    if stage.receives is not None:
        size = local_size(main, main.inputs[0])
        yield Send("backward", stage.place, stage.place - 1, size, True, stage.receives)
    sizes = dict(_held(placed))
    for name, places in stage.holders.items():
        others = [place for place in places if place != stage.place]
        yield from (Send("shared", stage.place, to, sizes[name], False, name) for to in others)


def local_size(graph: Graph, value: Value) -> Dim:
    """The elements of a rank's part of a value."""
    shape = tuple(map(graph.sizes.expand, graph.types[value].shape))
    return local_elements(shape, graph.placements.get(value, {}))


def _held(placed: Program) -> Iterator[tuple[str, Dim]]:
    """The parameters and inputs of a stage, with a rank's number of elements."""
    for path, param, graph, symbols in param_specs(placed):
        shape = tuple(graph.sizes.expand(dim).substitute(symbols) for dim in param.type.shape)
        yield path, local_elements(shape, graph.placements.get(param.value, {}))
    for value in placed.main.inputs:
        yield str(value.name), local_size(placed.main, value)
