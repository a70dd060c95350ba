"""The axes of a mesh along which rows of a batch are divided, as `fully_shard` divides them.

Where every parameter rests in pieces it is torch's FSDP; where every one is whole, the gradients
are averaged. Both together, over two axes, are hybrid sharding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.placement import INVARIANT
from xg.ir.plan import Memory
from xg_torch.dtensor.layers import Layers
from xg_torch.dtensor.refusal import Refusal

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
