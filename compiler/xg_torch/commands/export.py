"""`xg export`: a block with its parameters as a file that runs without xg."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import (
    Rule,
    add_file,
    add_kernels,
    add_names,
    gives,
    lacks,
    natural,
    settings_of,
)
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.codegen.backend import find
from xg.diagnostics.terminal import counted

if TYPE_CHECKING:
    from xg.driver import Program, TensorSpec

EXAMPLE = "xg export mlp --seed 0 -o mlp.onnx"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, its parameters, and where the model goes."""
    add_file(parser, plans=False)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="OUT",
        type=Path,
        required=True,
        help="write an .onnx file, or a .pt2 file of torch.export; dims without a number "
        "stay dynamic",
    )
    parser.add_argument(
        "--params",
        metavar="P",
        type=Path,
        help="the parameters: .safetensors, .npz, or a published checkpoint (a file, an "
        "index or a folder)",
    )
    add_names(parser)
    parser.add_argument(
        "--seed", type=natural, default=0, help="seed for parameters that no file gives; default: 0"
    )
    add_kernels(parser)


RULES: Final = (
    Rule("--seed", lacks("params"), "draws parameters, but --params gives all of them"),
    Rule("--names", gives("params"), "maps the tensors of a checkpoint: add --params FILE"),
)


def run(options: Namespace, console: Console) -> int:
    """Trace, write in memory, read that again, compare, and only then write the file."""
    from xg.cli.input_arrays import Published
    from xg.cli.opening import open_project
    from xg.driver import compile_project
    from xg_runtime import files
    from xg_torch.export import Export, refuse_ending

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
    console.say(f"{options.out}: {_describe(program)}, {agreement}")
    if params is None:
        console.say(f"note: the parameters are drawn from seed {options.seed}: --params names some")
    return FINE


def _describe(program: Program) -> str:
    """``MHA(X [B, S, 64]) -> Y [B, S, 64], 10 parameters``."""
    inputs, outputs = map(_list_tensors, (program.inputs, program.outputs))
    count = counted(len(program.params), "parameter")
    return f"{program.graphs.main.block}({inputs}) -> {outputs}, {count}"


def _list_tensors(tensors: dict[str, TensorSpec]) -> str:
    return ", ".join(f"{name} [{', '.join(map(str, t.shape))}]" for name, t in tensors.items())
