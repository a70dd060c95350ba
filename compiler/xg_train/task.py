"""The training task of a block: next tokens of a text, or rows of arrays."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.parameters import ignored, is_loss, scalars
from xg.ir.parameters import loss_of as loss_of_graph
from xg_runtime.errors import InputError
from xg_runtime.splitting import WHOLE, Split


@dataclass(frozen=True, slots=True)
class TextTask:
    """A block over tokens: ids and targets ``[B, S] in V``; `logits` is None if none comes out."""

    ids: str
    targets: str
    logits: str | None
    batch: Dim
    window: Dim
    vocabulary: Dim


def loss_of(program: IRProgram, wanted: str | None = None) -> str:
    """The output that training makes small: the one wanted, `loss`, or the only number."""
    main = program.main
    names = scalars(main)
    chosen = loss_of_graph(main) if wanted is None else wanted
    if chosen in names:
        return chosen
    if wanted is None and names:
        raise InputError(f"--loss must name an output to minimize: {', '.join(names)}")
    outputs = ", ".join(main.output_names)
    if wanted is not None:
        lacking = f"{wanted} is no output of {main.block} that is a single float"
        raise InputError(f"{lacking}: its outputs are {outputs}")
    raise InputError(
        f"{main.block} gives no loss to train on: its outputs are {outputs}; a loss is an output "
        "without axes, such as `loss []` of a chain that ends in `-> MSE<-t : loss`"
    )


def text_task(program: IRProgram) -> TextTask | None:
    """The task of a block with exactly two integer inputs of one shape, or None."""
    main = program.main
    if len(main.inputs) != 2:
        return None
    types = [main.types[value] for value in main.inputs]
    shape, range_ = types[0].shape, types[0].range
    if types[0] != types[1] or range_ is None or len(shape) != 2:
        return None
    ids, targets = main.inputs
    if _is_target(program, ids) and not _is_target(program, targets):
        ids, targets = targets, ids
    logits = _logits(program, targets)
    return TextTask(str(ids.name), str(targets.name), logits, *shape, range_)


def split_of(program: IRProgram, loss: str, rows: frozenset[str], count: int) -> Split:
    """How a batch is computed in parts; raises InputError where the loss is not one of its rows."""
    if count == 1:
        return WHOLE
    main = program.main
    value = dict(zip(main.output_names, main.outputs, strict=True))[loss]
    for step in main.steps:
        if is_loss(step) and value in step.outputs:
            targets = step.inputs[1]
            if len(step.inputs) == 2 and str(targets.name) in rows:
                is_mean = step.attrs["reduction"] == "mean"
                return Split(count, rows, is_mean, str(targets.name), ignored(program, targets))
    raise InputError(
        f"--accumulate needs a loss that compares outputs with targets: {loss} of {main.block} "
        "is something else"
    )


def _is_target(program: IRProgram, value: Value) -> bool:
    return _compared(program, value) is not None


def _compared(program: IRProgram, targets: Value) -> Value | None:
    """The value that the block's own loss compares with these targets."""
    loss = _loss(program, targets)
    return loss and loss.inputs[0]


def _loss(program: IRProgram, targets: Value) -> Apply | None:
    """The block's own loss of these targets."""
    for step in program.main.steps:
        if is_loss(step) and targets in step.inputs[1:]:
            return step
    return None


def _logits(program: IRProgram, targets: Value) -> str | None:
    compared = _compared(program, targets)
    return _output(program, compared) if compared is not None else None


def _output(program: IRProgram, wanted: Value) -> str | None:
    """The name under which a value leaves the block, or None."""
    main = program.main
    for name, value in zip(main.output_names, main.outputs, strict=True):
        if value is wanted:
            return name
    return None
