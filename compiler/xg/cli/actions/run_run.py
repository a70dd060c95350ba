"""`xg run`: a diagram on arrays from files."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.commands.run import HALF
from xg.cli.compiling import refuse_backend
from xg.cli.computing import compute, kept
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.input_arrays import InputArrays, refuse_open_parameters
from xg.codegen.backend import default, find
from xg_runtime import arrays
from xg_runtime.arrays import ENDINGS
from xg_runtime.errors import FileError


def run(options: Namespace, console: Console) -> int:
    """Read, compute, write."""
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
    for path in (options.out, options.save_params):
        if path is not None and path.suffix not in ENDINGS:
            raise FileError(f"{path}: arrays are kept in files that end in {', '.join(ENDINGS)}")
