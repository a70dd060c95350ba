"""`xg lock`: record what files mean, or tell what changed since the record."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import Diagram, Rule
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.terminal import counted

EXAMPLE = "xg new tiny_gpt\nxg lock tiny_gpt/tiny_gpt.xg"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and what to do with their lock."""
    parser.add_argument(
        "files",
        metavar="FILE",
        type=Diagram,
        nargs="+",
        help="an .xg file; the lock is xg.lock in its folder",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing, report what changed, and fail if something did",
    )
    parser.add_argument(
        "--diff", action="store_true", help="with --check, also print the changed lines"
    )


RULES: Final = (
    Rule("--diff", lambda options: options.check, "prints what --check found: --check --diff"),
)


def run(options: Namespace, console: Console) -> int:
    """Write the locks, or compare with them."""
    import numpy as np

    with np.errstate(all="ignore"):
        return _check(options, console) if options.check else _accept(options, console)


def _accept(options: Namespace, console: Console) -> int:
    from xg_testing.proofs import accept

    for path, blocks, changed in accept(_files(options)):
        console.say(f"{path}: {counted(blocks, 'block')}{'' if changed else ', as before'}")
    return FINE


def _check(options: Namespace, console: Console) -> int:
    from xg_testing.proofs import check_file

    changed = 0
    for file in _files(options):
        for each in check_file(file):
            shown = each if options.diff else replace(each, unified=())
            console.judge_lines(shown.lines())
            changed += not each.passed
    if changed:
        console.say()
        names = " ".join(options.files)
        console.say(f"{counted(changed, 'block')} CHANGED; to accept: xg lock {names}")
    return PROBLEM if changed else FINE


def _files(options: Namespace) -> list[Path]:
    return [Path(file) for file in dict.fromkeys(options.files)]
