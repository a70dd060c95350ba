"""One call of an ONNX operator: its operands as tensors of torch, or as numbers that are known."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.onnx_node import OnnxNode
from xg_torch.importing.onnx_simplify import unrounded

if TYPE_CHECKING:
    from torch import Tensor

# Sizes and constants are NumPy's, of objects where a size is free; everything else is a tensor.
Value: TypeAlias = "Tensor | Array"
ENDLESS: Final = 2**31 - 1  # a slice that ends here or beyond has no end


class OnnxCall:
    """A node with its operands; `producers` are the nodes that made them."""

    def __init__(
        self, node: OnnxNode, args: Sequence[Value | None], producers: Sequence[OnnxNode | None]
    ) -> None:
        self.node, self.args, self.producers = node, args, producers
        self.read: set[str] = set()

    def has(self, place: int) -> bool:
        """Whether an operand is there."""
        return place < len(self.args) and self.args[place] is not None

    def known(self, *places: int) -> bool:
        """Whether operands are sizes or constants."""
        return all(isinstance(self.args[place], np.ndarray) for place in places)

    def x(self, place: int) -> Tensor:
        """An operand as a tensor."""
        if not self.has(place):
            raise Unspeakable(f"its operand {place + 1} is missing")
        return as_tensor(self.args[place])

    def number_or_x(self, place: int) -> Any:  # noqa: ANN401 - a number or a tensor
        """An operand as a plain number if it is one, else as a tensor."""
        value = self.args[place]
        others = [each for each in self.args if each is not value and each is not None]
        least = min((each.ndim for each in others), default=0)
        if isinstance(value, np.ndarray) and value.size == 1 and value.ndim <= least:
            return plain(value)
        return self.x(place)

    def host(self, place: int) -> Array:
        """An operand that must be known without running the model."""
        value = self.args[place] if self.has(place) else None
        if not isinstance(value, np.ndarray):
            raise Unspeakable("its sizes or axes depend on the numbers of an input")
        return value

    def ints(self, place: int) -> list[Any]:
        """Sizes or axes; free ones are torch's symbols."""
        return [each if _is_symbol(each) else int(each) for each in self.host(place).reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
        """An attribute of the node."""
        self.read.add(name)
        return self.node.attributes.get(name, default)

    def axes(self, place: int) -> list[int] | None:
        """Axes as an operand, or in older operator sets as an attribute; None where left out."""
        noted = self.attribute("axes")
        if noted is not None:
            return [int(each) for each in noted]
        return self.ints(place) if self.has(place) else None

    def expect(self, name: str, *allowed: object) -> None:
        """Refuse a node whose attribute is other than the language can say; raises Unspeakable."""
        found = self.attribute(name, allowed[0])
        if found not in allowed:
            raise Unspeakable(f"its {name} is {found}")

    def one_output(self) -> None:
        """Refuse further results; raises Unspeakable."""
        if len([name for name in self.node.outputs if name]) > 1:
            raise Unspeakable("more than its first result is used")


def as_tensor(value: Value | None) -> Tensor:
    """A tensor; raises Unspeakable for a free size, which is no number of the model."""
    import torch

    if not isinstance(value, np.ndarray):
        assert value is not None
        return value
    if value.dtype == object:
        if any(_is_symbol(each) for each in value.reshape(-1)):
            raise Unspeakable("it computes with a free size as with a number")
        value = value.astype(np.int64)
    return torch.tensor(value)


def plain(value: Array) -> Any:  # noqa: ANN401 - a number of Python, or a size
    """The one number of an array; one that was rounded to float32 as it was before."""
    (item,) = value.reshape(-1)
    if value.dtype == np.float32:
        return unrounded(float(item))
    return item.item() if isinstance(item, np.generic) else item


def _is_symbol(value: object) -> bool:
    return not isinstance(value, int | float | np.generic)
