"""The exported program itself, run by torch: its aten calls in order, in float64.

Only operators of torch's own `aten` are called, by name, with numbers that were read as data. Other
contents of a file (pickles, expressions) stay closed. Dropout is off.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from xg.ir.dim import Dim
from xg_torch.importing.archive import Array
from xg_torch.importing.exported import (
    Argument,
    AtenCall,
    DType,
    Exported,
    Ref,
    Unread,
    needed_calls,
)

if TYPE_CHECKING:
    from torch import Tensor

WHERE = ("layout", "memory_format", "pin_memory", "non_blocking")  # change no number


class NotReplayed(Exception):
    """Why the program could not be run here."""


def has_torch() -> bool:
    """Whether the program can be run."""
    return find_spec("torch") is not None


def replay(
    exported: Exported,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
) -> list[Tensor]:
    """The outputs of the program; `tensors` are inputs, parameters and constants by name.

    Raises NotReplayed where a call does not fit these sizes, or is none of torch's own.
    """
    values: dict[str, Any] = dict(tensors)
    with double_by_default():
        for call in needed_calls(exported):
            results = _run(call, values, sizes)
            values.update(zip(call.outputs, results, strict=False))
    return [_output(values, each) for each in exported.outputs]


def _output(values: Mapping[str, Any], argument: Argument) -> Tensor:
    if not isinstance(argument, Ref):
        raise NotReplayed("an output is no tensor")
    return values[argument.name]


def tensor(array: Array) -> Tensor:
    """An array as torch has it; numbers with a point are float64."""
    import torch

    result = torch.tensor(array)
    return result.double() if result.is_floating_point() else result


@contextmanager
def double_by_default() -> Generator[None]:
    """Let torch make float64 where no element type is named."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _run(call: AtenCall, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Sequence[Any]:
    operator = _operator(call.target)
    args = {
        name: _argument(argument, values, sizes)
        for name, argument in call.args.items()
        if name not in (*WHERE, "device")
    }
    args |= {name: False for name in ("train", "training") if name in call.args}
    args |= {name: "cpu" for name in ("device",) if name in call.args}
    if "dropout_p" in args:
        args["dropout_p"] = 0.0
    if operator.__name__.startswith("embedding."):
        args.pop("padding_idx", None)  # it stops a gradient, which the diagram says in a note
    try:
        result = operator(**args)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise NotReplayed(f"{call.target}: {error}") from error
    results = result if isinstance(result, list | tuple) else [result]
    return [_double(each) for each in results]


def _operator(target: str) -> Any:  # noqa: ANN401 - torch makes its operators as it is asked
    import torch

    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
    if packet is None or overload not in packet.overloads():
        raise NotReplayed(f"{target} is no operator of torch")
    return getattr(packet, overload)


def _double(value: Any) -> Any:  # noqa: ANN401 - what an operator gives
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def _argument(argument: Argument, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:  # noqa: ANN401
    match argument:
        case Ref(name):
            if name not in values:
                raise NotReplayed(f"{name} is not there")
            return values[name]
        case DType(number):
            return _dtype(number)
        case Dim():
            return int(argument.evaluate(sizes))
        case tuple():
            return [_argument(item, values, sizes) for item in argument]
        case Unread(kind):
            raise NotReplayed(f"an argument is {kind}")
        case _:
            return argument


def _dtype(number: int) -> Any:  # noqa: ANN401 - a torch.dtype
    import torch

    integers = {1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64}
    if number == 12:
        return torch.bool
    return integers.get(number, torch.float64)
