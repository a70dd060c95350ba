"""A loop with the graph that calls it, while steps move from the one to the other."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Call, Graph, Loop, Value
from xg.ir.tensor import TensorType

ELEMENTWISE: Final = frozenset(
    {"⊕", "⊙", "ReLU", "GELU", "SiLU", "sigmoid", "tanh", "SwiGLU", "GLU"}
)


@dataclass(slots=True)
class LoopInCaller:
    """A call over an axis; `types` and `foreign` are the caller's and grow."""

    call: Call
    loop: Loop
    callee: Graph
    types: dict[Value, TensorType]
    foreign: dict[str, Value]

    def params(self) -> frozenset[Value]:
        """The parameters of the callee."""
        return frozenset(param.value for param in self.callee.params)

    def param(self, value: Value) -> Value:
        """A parameter of the callee, as the caller reads it."""
        path = f"{self.call.path}.{value.name}"
        if path not in self.foreign:
            self.foreign[path] = Value(path, "param", value.span, frozen=value.frozen)
        self.types[self.foreign[path]] = self.callee.types[value]
        return self.foreign[path]
