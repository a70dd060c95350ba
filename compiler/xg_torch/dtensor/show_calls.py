"""`xg show --as dtensor`: a plan as calls of torch."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.compiling import compile_one
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg_torch.dtensor.naming_modules import module_names
from xg_torch.dtensor.torch_calls import source


def show(options: Namespace, console: Console) -> int:
    """Print the calls of torch for a plan."""
    chosen = {
        "--pass": options.view is not None,
        "--after": options.after is not None,
        "--stage": options.stage is not None,
        "--kernels": options.kernels,
    }
    given = [word for word, is_given in chosen.items() if is_given]
    if given or options.plan is None:
        what = f"leave {given[0]} out" if given else "--plan NAME says which"
        console.note(f"xg show: --as dtensor is a plan for a module of yours: {what}")
        return USAGE
    program = compile_one(options)
    assert program.distributed is not None
    names = module_names(options, program.graphs)
    console.write(source(program.distributed, program.graphs, names))
    return FINE
