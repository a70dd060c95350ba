"""The command line of the example: `train` and `classify`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final

from examples.sentiment import classifying, training
from xg import DiagnosticError
from xg_runtime.errors import XgRuntimeError

COMMANDS: Final = {"train": training, "classify": classifying}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    overview = ArgumentParser(prog="sentiment", description="A classifier of reviews.")
    overview.add_argument("command", choices=COMMANDS, help="each has a --help of its own")
    module = COMMANDS[overview.parse_args(words[:1]).command]
    parser = ArgumentParser(prog=f"sentiment {words[0]}", description=module.__doc__)
    module.add_arguments(parser)
    options = parser.parse_intermixed_args(words[1:])
    try:
        return module.run(options)
    except DiagnosticError as error:
        print(error, file=sys.stderr)
        return 1
    except XgRuntimeError as error:
        print(f"sentiment: {error}", file=sys.stderr)
        return error.exit_code
