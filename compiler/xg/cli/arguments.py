"""Arguments that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.quantities import positive
from xg.frontend import setting_text
from xg.syntax.spelling import ascii_name

if TYPE_CHECKING:
    from xg.frontend.typed import Settings

FILE_HELP = "an .xg file, or a shipped diagram by its name; - is standard input"


def add_file(parser: ArgumentParser, *, plans: bool = True) -> None:
    """One file, and what of it is compiled."""
    parser.add_argument("file", metavar="FILE", type=Diagram, help=FILE_HELP)
    add_choice(parser, plans=plans)


def add_files(parser: ArgumentParser) -> None:
    """Several files, and what of them is compiled."""
    parser.set_defaults(stdin_filename=None)
    parser.add_argument("files", metavar="FILE", type=Diagram, nargs="+", help=FILE_HELP)
    add_choice(parser)


def add_stdin_filename(parser: ArgumentParser) -> None:
    """Add the name of a text from standard input."""
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        help="what standard input is called, in errors and outputs; it uses files beside NAME, "
        "which need not be there",
    )


def add_choice(parser: ArgumentParser, *, plans: bool = True) -> None:
    """Which block, under which plan unless it is for one device, with which sizes and options."""
    parser.set_defaults(plan=None)
    parser.add_argument("--block", type=ascii_name, metavar="NAME", help="the block to compile")
    if plans:
        parser.add_argument(
            "--plan", metavar="NAME", help="a parallel plan, or a product of such: 'DP × TP'"
        )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help=f"number a dim{' or a mesh axis' if plans else ''}, or choose an option; may be "
        "given several times",
    )


def add_names(parser: ArgumentParser) -> None:
    """Where it is written what a checkpoint's names mean."""
    parser.add_argument(
        "--names",
        metavar="MAPPING",
        type=Path,
        help="what the checkpoint's tensors are; default: NAME.names.toml beside the diagram",
    )


def add_kernels(parser: ArgumentParser) -> None:
    """Which form of the code."""
    parser.add_argument(
        "--kernels", action="store_true", help="fused code: faster, and further from the figure"
    )


def add_ranks(parser: ArgumentParser) -> None:
    """Where the ranks of a plan are, and how long they wait for each other."""
    ranks = parser.add_argument_group("ranks, with --plan")
    ranks.add_argument(
        "--on",
        choices=("simulated", "processes"),
        help="all in one process, or a process for each, with torch; default: simulated",
    )
    ranks.add_argument(
        "--timeout",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="that one rank may keep the others waiting; default: 60",
    )


class Diagram(str):
    """An .xg file or a shipped diagram. These types of words say what the Tab key completes."""

    __slots__ = ()


class Shipped(str):
    """A shipped diagram by its name."""

    __slots__ = ()


class XgFile(str):
    """An .xg file."""

    __slots__ = ()


class FileOrName(str):
    """A file of any kind, or something else."""

    __slots__ = ()


def setting(text: str) -> tuple[str, str | int]:
    """`D=64`, `norm=post`."""
    try:
        return setting_text.setting(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def settings_of(options: Namespace) -> Settings:
    """The settings of `--set`; the last one of a name counts."""
    return dict(options.settings)
