"""`xg run`: a diagram on arrays from files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import (
    Rule,
    add_backend,
    add_file,
    add_kernels,
    add_names,
    add_ranks,
    gives,
    lacks,
    natural,
    on_processes,
)
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.codegen.backend import backends, default, find
from xg.syntax.spelling import ascii_name

HALF = " or ".join(backend.name for backend in backends().values() if backend.runs.half)
EXAMPLE = (
    "python -c \"import numpy; numpy.savez('in.npz', X=numpy.ones((2, 3, 64)))\"\n"
    "xg run mlp --inputs in.npz -o out.npz --seed 0 --keep H,U"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A file, the arrays that go in and out, and how they are computed."""
    add_file(parser)
    parser.add_argument(
        "--inputs", metavar="IN", type=Path, required=True, help="an .npz file with the inputs"
    )
    parser.add_argument(
        "-o",
        dest="out",
        metavar="OUT",
        type=Path,
        required=True,
        help="write the outputs to this .npz file",
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
        "--save-params", metavar="P", type=Path, help="write the parameters that were used"
    )
    parser.add_argument(
        "--d-outputs",
        metavar="G",
        type=Path,
        help="an .npz file with the gradients of outputs; xg then writes gradients as d/NAME",
    )
    parser.add_argument(
        "--keep",
        type=edges,
        default=[],
        metavar="EDGE,...",
        help="also write these edges, named as in figures or code; with --d-outputs also "
        "gradients, such as d/H",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64", "bfloat16"),
        default="float32",
        help=f"type of floats; bfloat16 needs --backend {HALF}, and its results are written as "
        "float32; default: float32",
    )
    parser.add_argument(
        "--seed", type=natural, help="seed for parameters that no file gives; default: 0"
    )
    drawn = "turn dropout and random sources on, with this seed"
    parser.add_argument("--dropout", type=natural, metavar="SEED", help=drawn)
    add_backend(parser, device=True)
    add_kernels(parser)
    add_ranks(parser)


def edges(text: str) -> list[str]:
    """`H,layers.0.attn.P`, Greek or English."""
    return [ascii_name(name.strip()) for name in text.split(",") if name.strip()]


RULES: Final = (
    Rule("--seed", lacks("params"), "draws parameters, but --params gives all of them"),
    Rule("--timeout", on_processes, "is for ranks in processes: add --on processes"),
    Rule("--names", gives("params"), "maps the tensors of a checkpoint: add --params FILE"),
)


def run(options: Namespace, console: Console) -> int:
    """Read, compute, write."""
    from xg.cli.compiling import refuse_backend
    from xg.cli.computing import compute, kept
    from xg.cli.input_arrays import InputArrays, refuse_open_parameters
    from xg_runtime import arrays

    refuse_backend(options, "ranks" if options.plan else None)
    half = options.dtype == "bfloat16"
    backend = find(options.backend)
    if half and (not backend.runs.half or options.keep):
        title = backend.title if not backend.runs.half else default().title
        console.note(f"xg run: {title} has no bfloat16: --backend {HALF} has, without --keep")
        return USAGE
    _refuse_endings(options)
    is_chosen, options.seed = options.seed is not None, options.seed or 0
    input_arrays = InputArrays.read(options)
    for note in input_arrays.notes:
        console.note(note)
    if input_arrays.params is None:
        of, instead = input_arrays.program.on_one_device, ", or --params names a file with it"
        refuse_open_parameters(of, "it is drawn from a seed", instead)
    results, params = compute(input_arrays, options)
    if options.keep:
        results |= kept(input_arrays, params, options)
    arrays.write(options.out, results)
    if options.save_params:
        arrays.write(options.save_params, params)
    console.say(f"{options.out}: {', '.join(results)}")
    if input_arrays.params is None and input_arrays.program.params and not is_chosen:
        console.say("note: the parameters are drawn from seed 0: --params names some")
    return FINE


def _refuse_endings(options: Namespace) -> None:
    """Raise FileError for a file that could not be written, before anything is computed."""
    from xg_runtime.arrays import ENDINGS
    from xg_runtime.errors import FileError

    for path in (options.out, options.save_params):
        if path is not None and path.suffix not in ENDINGS:
            raise FileError(f"{path}: a file of arrays must end in {', '.join(ENDINGS)}")
