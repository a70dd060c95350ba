"""A node of an ONNX graph as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xg.diagnostics.lazy_dataclass import dataclass
from xg_torch.importing.exported import ModuleScope


@dataclass(frozen=True)
class OnnxNode:
    """One node; `stack` are the modules around it, as far as the exporter noted them."""

    operator: str
    name: str
    inputs: tuple[str, ...]  # "" where one is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    stack: tuple[ModuleScope, ...]

    @property
    def place(self) -> str:
        """Where messages say that it is."""
        scope = self.stack[-1].path if self.stack else ""
        return scope or self.name or "the model"


class OnnxRefused(Exception):
    """Carries a node that the language cannot say, and why."""

    def __init__(self, node: OnnxNode, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason
