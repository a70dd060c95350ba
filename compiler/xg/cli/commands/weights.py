"""`xg weights`: checkpoints as they are published, read for a diagram and written back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.arguments import add_file, add_names, open_project, refuse_plan
from xg.cli.console import Console
from xg.cli.exits import FINE

if TYPE_CHECKING:
    from xg.cli.published import Published
    from xg.frontend.project import Project
    from xg_runtime.module import Arrays

EXAMPLE = "xg weights diagrams/models/gpt2.xg --from gpt2/ -o gpt2.safetensors"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, a checkpoint, and where its parameters go."""
    add_file(parser)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="CHECKPOINT",
        type=Path,
        required=True,
        help="a folder, a .safetensors file or the index of several, published or written by xg",
    )
    add_names(parser)
    parser.add_argument(
        "-o", dest="out", metavar="OUT", type=Path, help="parameters by the diagram's names"
    )
    parser.add_argument(
        "--to", metavar="FOLDER", type=Path, help="weights and config.json by published names"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="of what is written"
    )


def run(options: Namespace, console: Console) -> int:
    """Read, say what was found, write."""
    from xg.cli.input_arrays import expected
    from xg.cli.published import Published
    from xg_runtime import arrays, weights
    from xg_runtime.expect import fit

    refuse_plan(options)
    if options.out:
        arrays.check_ending(options.out)
    project = open_project(options.file)
    found = Published.read(project, options, options.source)
    wanted = expected(found.program.params)
    params = fit(found.params, wanted, dtype=options.dtype, source=found.source)
    for line in _report(found, params):
        console.say(line)
    if options.out:
        weights.write_params(options.out, params, found.settings)
        console.say(f"{options.out}: {len(params)} parameters, {options.dtype}")
    if options.to:
        console.say(_publish(options, project, found, params))
    return FINE


def _report(found: Published, params: Arrays) -> list[str]:
    main = found.program.graphs.main.block
    scalars = sum(array.size for array in params.values())
    chosen = [f"--set {name}={value}" for name, value in found.settings.items()]
    counted = f"{found.tensors} tensors are {len(params)} parameters of {main}, {scalars:,} numbers"
    return [f"{found.source}: {counted}", *([" ".join(chosen)] if chosen else [])]


def _publish(options: Namespace, project: Project, found: Published, params: Arrays) -> str:
    """Write a folder under published names; raises InputError and FileError."""
    from xg.cli.published import effective, names_for, numbers
    from xg_runtime import model_config, rename, weights
    from xg_runtime.errors import InputError

    names = names_for(options)
    if names is None:
        raise InputError(f"--to needs --names: nothing beside {options.file} tells its names")
    tensors = rename.to_checkpoint(names, params, numbers(found.program))
    settings = effective(project, found.program, found.settings, names.config.settings)
    config = model_config.config(names.config, settings)
    written = weights.write(options.to, tensors, config)
    return f"{options.to}: {len(tensors)} tensors in {', '.join(written)}"
