"""Whether ranks compute their own rows alone: torch then only averages gradients over them."""

from __future__ import annotations

from xg.ir.graph import Apply, Call, Program, Value
from xg.ir.placement import INVARIANT
from xg_torch.dtensor.layers import Layers, LayerSite, is_move
from xg_torch.dtensor.refusal import Refusal

SENDING = {"all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all", "shift"}


def refuse_exchanges(layers: Layers, axis: str, refusal: Refusal) -> None:
    """Raise DiagnosticError where ranks along an axis of rows need more than their own."""
    for site in layers.sites:
        for step in site.graph.steps:
            if isinstance(step, Call) or not is_move(step) or step.op.name == "cast":
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


def refuse_inner_sums(local: Program, refusal: Refusal) -> None:
    """Raise DiagnosticError for an operator that sends something inside, unless it is a loss."""
    for graph in local.graphs.values():
        for step in graph.steps:
            if isinstance(step, Call) or is_move(step) or step.op.family == "loss":
                continue
            prims = {each.prim for each in step.body(graph.types).order()}
            if prims & SENDING:
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
