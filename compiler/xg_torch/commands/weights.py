"""`xg weights`: checkpoints as they are published, read for a diagram and written back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import Rule, add_file, add_names, gives
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.diagnostics.terminal import counted
from xg.frontend.project import Project

if TYPE_CHECKING:
    from xg.cli.input_arrays import Published
    from xg_runtime.tensorfile import Writable

EXAMPLE = (
    "xg new tiny_gpt\nxg train tiny_gpt/tiny_gpt.xg --steps 20\n"
    "xg weights tiny_gpt/tiny_gpt.xg --to published "
    "--from runs/tiny_gpt/checkpoints/step-00000020/params.safetensors"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A file, a checkpoint, and where its parameters go."""
    add_file(parser, plans=False)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="CHECKPOINT",
        type=Path,
        required=True,
        help="the checkpoint: a folder, a .safetensors file, or the index of several",
    )
    add_names(parser)
    parser.add_argument(
        "-o",
        dest="out",
        metavar="OUT",
        type=Path,
        help="write the parameters under the diagram's names",
    )
    parser.add_argument(
        "--to",
        metavar="FOLDER",
        type=Path,
        help="write weights and config.json under published names",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "float16", "bfloat16"),
        default="float32",
        metavar="TYPE",  # a usage line of 60 columns has no room for all four
        help="float32, float64, float16 or bfloat16, of what is written; checkpoints in bfloat16"
        " are kept as they are by bfloat16",
    )


RULES: Final = (
    Rule("--dtype", gives("out", "to"), "is the type to write: add -o FILE or --to FOLDER"),
)


def run(options: Namespace, console: Console) -> int:
    """Read, say what was found, write."""
    from xg.cli.input_arrays import Published, expected
    from xg.cli.opening import open_project
    from xg_runtime import arrays, weights
    from xg_runtime.run import fit_without_copy

    if options.out:
        arrays.check_ending(options.out)
    project = open_project(options.file)
    published = Published.of(project, options, weights.read(options.source, kept=True))
    expectations = expected(published.program.params)
    params = fit_without_copy(published.stored, expectations, source=published.source)
    console.say_lines(_report(published, params))
    for note in published.notes:
        console.say(f"note: {note}")
    if options.out:
        weights.write_params(options.out, params, published.settings, options.dtype)
        console.say(f"{options.out}: {counted(len(params), 'parameter')}, {options.dtype}")
    if options.to:
        console.say(_publish(options, project, published, params))
    return FINE


def _report(found: Published, params: Writable) -> list[str]:
    main = found.program.graphs.main.block
    scalars = sum(array.size for array in params.values())
    chosen = [f"--set {name}={value}" for name, value in found.settings.items()]
    params_of = f"{counted(len(params), 'parameter')} of {main}"
    fill = "fills" if found.tensors == 1 else "fill"
    numbers = f"{counted(found.tensors, 'tensor')} {fill} {params_of}, {scalars:,} numbers"
    return [f"{found.source}: {numbers}", *([" ".join(chosen)] if chosen else [])]


def _publish(options: Namespace, project: Project, found: Published, params: Writable) -> str:
    """Write a folder under published names; raises InputError and FileError."""
    from xg.cli.input_arrays import effective, names_for, of_block, size_numbers
    from xg.frontend.typed import settable
    from xg_runtime import model_config, rename, weights
    from xg_runtime.errors import InputError

    chosen = effective(project, found.program, found.settings, settable(project))
    names = names_for(options, project, settings=chosen, before=found.names)
    if names is None:
        raise InputError(
            f"--to needs a file of names, and there is none beside {options.file}: name it "
            "with --names"
        )
    names = of_block(names, project, found.program.graphs, found.settings)
    tensors = rename.later(names, params, size_numbers(found.program))
    config = model_config.config(names.config, chosen)
    written = weights.write(options.to, tensors, config, dtype=options.dtype)
    return f"{options.to}: {counted(len(tensors), 'tensor')} in {', '.join(written)}"
