"""Every sample of every operator as a file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ops.sample import SIZES, B, Sample, settle
from ops.samples import SAMPLES

from xg import ops
from xg.ir.dim import Dim
from xg.ir.op import Op
from xg.ir.tensor import TensorType
from xg.ir.use import Axis, AxisGroup, AxisMap, Tensor
from xg.passes.infer import apply_types


def operator_programs() -> Iterator[tuple[str, str]]:
    """The text of each, and the part of it that is the operator's use."""
    for glyph, samples in SAMPLES.items():
        op = ops.table()[glyph]
        if not op.derived:
            yield from (_program(op, sample) for sample in samples if _can_be_written(sample))


def _program(op: Op, sample: Sample) -> tuple[str, str]:
    own = {each.name for each in op.own if isinstance(each, Tensor)}
    params = {name: type_ for name, type_ in sample.operands.items() if name in own}
    data = {name: type_ for name, type_ in sample.operands.items() if name not in own}
    types = apply_types(op, sample.types, settle(op, sample))
    visible = types[: len(op.outputs) or len(sample.targets)]
    outputs = {f"Y_{place}": type_ for place, type_ in enumerate(visible)}
    use = _use(op, sample, list(data), list(params))
    beside = TensorType(sample.peer or (B,))
    line = f"X_9 -> ⊙<-({use}) : Y_0" if sample.peer else f"{use} : {', '.join(outputs)}"
    lines = [
        f"dim {', '.join(['B', *_sizes(sample, outputs)])}",
        f"block F({_typed({**data, 'X_9': beside})}) -> {_typed({**outputs, 'Y_9': beside})} {{",
        *([f"    param {_typed(params)}"] if params else []),
        f"    {line}",
        "    X_9 -> tanh : Y_9",
        "}\n",
    ]
    return "\n".join(lines), use


def _use(op: Op, sample: Sample, data: list[str], params: list[str]) -> str:
    """The operator's node with what comes before and into it."""
    first, others = (data, []) if op.variadic else (data[:1], data[1:])
    own = {name: name for name in params} | {
        name: str(value) for name, value in sample.own.items() if name in _given(op)
    }
    arguments = f"({', '.join(f'{name}={value}' for name, value in own.items())})" if own else ""
    arrow = "<=" if op.glyph == "•" else "<-"
    node = op.glyph + _brackets(sample.axes) + arguments + "".join(arrow + each for each in others)
    return f"{', '.join(first)} -> {node}" if first else node


def _can_be_written(sample: Sample) -> bool:
    """Brackets around nothing cannot."""
    return sample.axes is None or bool(sample.axes.source)


def _given(op: Op) -> set[str]:
    return {own.name for own in op.own}


def _brackets(axes: AxisMap | None) -> str:
    if axes is None:
        return ""
    target = "" if axes.target is None else f" -> {_side(axes.target)}"
    return f"[{_side(axes.source)}{target}]"


def _side(groups: tuple[AxisGroup, ...]) -> str:
    spelled = [[_axis(axis) for axis in group] for group in groups]
    return ", ".join(f"({', '.join(each)})" if len(each) > 1 else each[0] for each in spelled)


def _axis(axis: Axis) -> str:
    return (axis.name or "1") + (f"={axis.size}" if axis.size else "")


def _typed(types: Mapping[str, TensorType]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())


def _sizes(sample: Sample, outputs: Mapping[str, TensorType]) -> list[str]:
    """The dims that a sample mentions; B has no number."""
    types = [*sample.types, *outputs.values(), TensorType(sample.peer or ())]
    dims = [dim for type_ in types for dim in (*type_.shape, type_.range) if dim]
    dims += [value for value in sample.own.values() if isinstance(value, Dim)]
    used = {name for dim in dims for name in dim.symbols()} - {"B"}
    return [f"{name} = {size}" for name, size in SIZES.items() if name in used]
