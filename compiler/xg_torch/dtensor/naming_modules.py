"""The modules of somebody's code by the parameters of a diagram, as a file of names has them."""

from __future__ import annotations

from argparse import Namespace

from xg.ir.graph import Program
from xg_runtime import names
from xg_runtime.errors import InputError
from xg_runtime.names import Names
from xg_torch.dtensor.layers import Layers
from xg_torch.dtensor.module_names import ModuleNames


def module_names(options: Namespace, program: Program) -> ModuleNames:
    """The names of the modules of a program's parameters, as `--map` or the diagram has them.

    Raises FileError, and InputError where a file of names does not fit.
    """
    return ModuleNames() if options.names is None else named_by(names.read(options.names), program)


def named_by(given: Names, program: Program) -> ModuleNames:
    """The names that a file gives; raises InputError for layers that torch cannot find by them."""
    modules: dict[str, str] = {}
    for line in given.lines:
        if "{" in line.tensor:
            raise InputError(
                f"{given.source}: {line.tensor} counts some layers, and torch's patterns all of "
                "them: *"
            )
        modules |= dict.fromkeys(line.params, line.tensor.rpartition(".")[0])
    for param, *_ in Layers.of(program).params:
        if param not in modules:
            raise InputError(f"{given.source} names {param} of {program.main.block} nowhere")
    held = {line.tensor: line.params for line in given.lines}
    second = {
        held[original][0]: copy.rpartition(".")[0]
        for copy, original in given.tied.items()
        if original in held
    }
    fused = {param for params in held.values() if len(params) > 1 for param in params}
    _refuse_strange(given)
    return ModuleNames(modules, second, frozenset(fused), given.keywords, is_given=True)


def _refuse_strange(given: Names) -> None:
    """Raise InputError for the keyword of what is no module, or that is no name itself."""
    for module, keyword in given.keywords.items():
        if not any(line.tensor.startswith(f"{module}.") for line in given.lines):
            raise InputError(f"{given.source}: [keywords] names {module}, which holds no tensor")
        if not keyword.isidentifier():
            raise InputError(f"{given.source}: {keyword!r} of {module} is no name of an argument")
