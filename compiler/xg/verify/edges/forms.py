"""The forms of a program: the module of each backend, with kernels and without, run on arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import cast

import numpy as np

from xg.codegen.backend import Backend, find, named
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import Program
from xg.verify.edges.point import Passes, Point


@dataclass(frozen=True)
class Form:
    """A loaded module, and what it is called in messages; torch's has a model for autograd too."""

    name: str
    backend: Backend
    module: ModuleType
    autograd: bool = False
    _typed: dict[str | None, Passes] = field(default_factory=dict[str | None, Passes], repr=False)

    def passes(self, point: Point) -> Passes:
        """Both passes on the arrays of a point, computed in its type of floats."""
        if self.autograd:
            model = named("xg.verify.edges.autograd_model:AutogradModel")
            graphs = point.program
            inputs = graphs.main.inputs
            frozen = frozenset(str(value.name) for value in inputs if value.frozen)
            return cast(Passes, model(self.module, graphs.all_numbers, frozen))
        if point.dtype not in self._typed:  # one object for all points: JAX compiles for each again
            passes = cast(Passes, self.backend.on_arrays(self.module, point.dtype))
            self._typed[point.dtype] = passes
        return self._typed[point.dtype]

    def has(self, dtype: str | None) -> bool:
        """Whether it computes in a type of floats."""
        if dtype is None or self.autograd:
            return dtype is None
        return dtype != "bfloat16" or self.backend.runs.half


def forms_of(program: Program, backends: Sequence[str]) -> Iterator[Form]:
    """Every form of a program in these backends: plain, with kernels if it has any, a Model."""
    for name in backends:
        backend = find(name)
        for kernels in (False, True) if backend.parts.kernels else (False,):
            module = program.load(name, kernels=kernels)
            title = f"{backend.title} with kernels" if kernels else backend.title
            yield Form(title, backend, module)
            if hasattr(module, "Model"):
                yield Form(f"{title}'s Model under autograd", backend, module, autograd=True)


def integer_types(below: int) -> list[str]:
    """The types that hold all integers below a number, the narrowest first."""
    held = [] if below > 2 else ["bool"]
    types = ("uint8", "int8", "int32", "int64")
    return held + [name for name in types if below - 1 <= np.iinfo(name).max]
