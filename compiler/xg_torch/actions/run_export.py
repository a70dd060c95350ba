"""`xg export`: a block with its parameters as a file that runs without xg."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.arguments import settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.input_arrays import Published
from xg.cli.opening import open_project
from xg.codegen.backend import find
from xg.diagnostics.wording import counted
from xg.driver import Program, TensorSpec, compile_project
from xg_runtime import files
from xg_torch.export.exporting import Export, refuse_ending


def run(options: Namespace, console: Console) -> int:
    """Trace, write in memory, read that again, compare, and only then write the file."""
    refuse_ending(options.out)
    find("torch").require()
    project = open_project(options.file)
    settings, params = settings_of(options), None
    if options.params:
        held = Published.read(project, options, options.params)
        program, params, settings = held.program, held.params, held.settings
    else:
        program = compile_project(project, options.block, settings)
    console.working(f"tracing {program.graphs.main.block}, and comparing {options.out}")
    export = Export.of(program, params, settings, options)
    data = export.written(options.out)
    agreement = export.compared(options.out, data)
    files.write(options.out, data)
    console.say(f"{options.out}: {_described(program)}, {agreement}")
    if params is None:
        console.say(f"note: the parameters are drawn from seed {options.seed}: --params names some")
    return FINE


def _described(program: Program) -> str:
    """``MHA(X [B, S, 64]) -> Y [B, S, 64], 10 parameters``."""
    inputs, outputs = map(_listed, (program.inputs, program.outputs))
    count = counted(len(program.params), "parameter")
    return f"{program.graphs.main.block}({inputs}) -> {outputs}, {count}"


def _listed(tensors: dict[str, TensorSpec]) -> str:
    return ", ".join(f"{name} [{', '.join(map(str, t.shape))}]" for name, t in tensors.items())
