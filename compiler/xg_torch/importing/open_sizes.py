"""Sizes that a call has to say: those that the inputs of the called block do not give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg_torch.importing.blocks import CallRun, ModelBlocks, ModuleInstance
from xg_torch.importing.dims import Dims

SIZE: Final = re.compile(r"[^\W\d]\w*")
SAID: Final = re.compile(r"\[[^\]]*\]|=\w+")  # a shape or an arrangement, and what a call gives


class OpenSizes:
    """Sizes of blocks by their definitions; blocks are written before those that call them."""

    def __init__(self, blocks: ModelBlocks, dims: Dims) -> None:
        self.dims = dims
        self.around = self._around(blocks.entry)
        self._mentioned: dict[int, Sequence[str]] = {}
        self._products: dict[int, Sequence[str]] = {}

    def given(self, caller: ModuleInstance, callee: ModuleInstance) -> str:
        """The sizes that a call has to say, as it says them.

        One that only products of the callee's inputs show, if the caller has it; and one that its
        text mentions, if inputs around it give another than the program's.
        """
        known = {*self._axes(caller), *self._in_products(caller)}
        around = self._axes(caller) | self.around[caller.definition]
        names = [name for name in self._in_products(callee) if name in known]
        names += [name for name in self._mentioned[callee.definition] if name in around]
        said = ", ".join(f"{name}={name}" for name in dict.fromkeys(names))
        return f"({said})" if said else ""

    def wrote(self, block: ModuleInstance, text: str) -> None:
        """Note the sizes that a block mentions, with those from which they follow."""
        formulas = dict(self.dims.declared)
        waiting = [name for said in SAID.findall(text) for name in SIZE.findall(said)]
        names: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name in formulas and name not in names:
                names[name] = None
                waiting += SIZE.findall(formulas[name])
        axes = self._axes(block)
        self._mentioned[block.definition] = [name for name in names if name not in axes]

    def _around(self, entry: ModuleInstance) -> Mapping[int, frozenset[str]]:
        """The sizes that inputs of the blocks around each block give."""
        around: dict[int, frozenset[str]] = {}
        waiting = [(entry, frozenset[str]())]
        while waiting:
            instance, names = waiting.pop()
            before = around.get(instance.definition, frozenset())
            around[instance.definition] = before | names
            own = names | self._axes(instance)
            waiting += [(each, own) for run in _calls(instance) for each in run.instances]
        return around

    def _axes(self, block: ModuleInstance) -> frozenset[str]:
        """The sizes that are axes of inputs, which give them a number."""
        return frozenset(str(self.dims[size]) for value in block.inputs for size in value.axes)

    def _in_products(self, block: ModuleInstance) -> Sequence[str]:
        """The sizes that inputs of a block, or those of its calls, show in products only."""
        found = self._products
        if block.definition not in found:
            shapes = [self.dims.shape(value) for value in block.inputs]
            names = [name for shape in shapes for name in SIZE.findall(shape)]
            for run in _calls(block):
                names += self._in_products(run.instances[0])
            axes = self._axes(block)
            found[block.definition] = [n for n in dict.fromkeys(names) if n not in axes]
        return found[block.definition]


def _calls(block: ModuleInstance) -> Iterator[CallRun]:
    return (item for item in block.items if isinstance(item, CallRun))
