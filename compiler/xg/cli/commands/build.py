"""`xg build`: a picture, or every figure, page and module, written all or nothing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import (
    KINDS,
    OneOrMore,
    Rule,
    add_files,
    add_kernels,
    add_stdin_filename,
    length,
    natural,
)
from xg.cli.console import Console
from xg.codegen.backend import backends

EXAMPLE = "xg build mha -o mha.svg"
FIGURES: Final = frozenset({"svg", "pdf", "png", "tex", "dot"})


def add_arguments(parser: ArgumentParser) -> None:
    """Files, what is wanted of them, and where it goes."""
    add_files(parser)
    add_stdin_filename(parser)
    parser.add_argument(
        "-o",
        dest="folder",
        metavar="DIR",
        type=Path,
        help="write to this folder, or write one picture: figure.svg, .pdf, .png, .tex, .dot or "
        "page.html; - prints it. Default: FILE.svg in this folder; with --all or --only, out/",
    )
    parser.add_argument(
        "--pass",
        dest="view",
        choices=("forward", "backward", "overview"),
        help="which figure to draw; default: forward, or with --steps every one",
    )
    parser.add_argument("--no-title", action="store_true", help="leave the title out of figures")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="write every figure of every block in every format, the pages and the code",
    )
    chosen.add_argument(
        "--only",
        dest="kinds",
        type=OneOrMore(KINDS),
        metavar="KIND,...",
        help=f"write only these kinds: dot, svg, pdf, png, tex, html, {', '.join(backends())}",
    )
    _add_looks(parser)
    add_kernels(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file would change"
    )
    parser.add_argument("--watch", action="store_true", help="build again whenever a file is saved")


def _add_looks(parser: ArgumentParser) -> None:
    """Add the options that change figures alone."""
    parser.add_argument(
        "--width",
        metavar="3.3in",
        type=length,
        default=0.0,
        help="make figures at most this wide; units: in, cm, mm, pt",
    )
    parser.add_argument(
        "--height",
        metavar="9in",
        type=length,
        default=0.0,
        help="make figures at most this high; xg breaks longer ones into columns, and figures from "
        "left to right into rows",
    )
    parser.add_argument(
        "--compact",
        action="store_true",
        help="in backward figures, write gradients of parameters beside their products; xg does so "
        "by itself if --width leaves no room for more",
    )
    parser.add_argument(
        "--paper",
        choices=("a4", "letter"),
        help="split a long figure over PDF sheets of this size",
    )
    parser.add_argument(
        "--depth",
        metavar="N",
        type=natural,
        help="open the calls in overviews, N levels deep; default: repeated blocks that call "
        "others",
    )
    parser.add_argument(
        "--direction",
        choices=("down", "right"),
        default="down",
        help="draw from the top down or from left to right; default: down",
    )
    parser.add_argument(
        "--steps",
        action="store_true",
        help="write each figure as a series of pictures for slides, each with one more operation",
    )
    parser.add_argument(
        "--theme",
        choices=("auto", "light", "dark", "print"),
        default="auto",
        help="colors; in an SVG, auto follows the reader's light or dark mode; default: auto",
    )
    parser.add_argument(
        "--legend", action="store_true", help="add a legend that explains the glyphs"
    )


def _built(options: Namespace) -> frozenset[str]:
    """Return the kinds of files that a build makes; without other words, an SVG."""
    if options.kinds is not None:
        return frozenset(options.kinds)
    if options.every:
        return FIGURES | {*backends()}
    suffix = options.folder.suffix.removeprefix(".") if options.folder else ""
    return frozenset({suffix if suffix in {*FIGURES, "html"} else "svg"})


def _draws(options: Namespace) -> bool:
    return bool(_built(options) & FIGURES)


def _paints(options: Namespace) -> bool:
    return bool(_built(options) & (FIGURES - {"dot"}))


def _prints(options: Namespace) -> bool:
    is_pdf = _built(options) == frozenset({"pdf"})
    return is_pdf and not (options.width or options.height or options.steps)


def _draws_overview(options: Namespace) -> bool:
    return _draws_view(options, "overview") and options.plan is None


def _draws_backward(options: Namespace) -> bool:
    return _draws_view(options, "backward")


def _draws_view(options: Namespace, view: str) -> bool:
    is_one = options.view is not None or not (options.every or options.kinds or options.steps)
    return _draws(options) and (options.view == view or not is_one)


def _codes(options: Namespace) -> bool:
    return bool(_built(options) & {*backends()})


RULES: Final = (
    Rule(
        "--stdin-filename",
        lambda options: "-" in options.files,
        "names standard input: write - in place of FILE",
    ),
    Rule("--kernels", _codes, f"changes code: add --only {','.join(backends())}"),
    Rule("--theme", _draws, "colors figures: add --only svg"),
    Rule("--legend", _draws, "is a part of figures: add --only svg"),
    Rule("--no-title", _draws, "changes figures: add --only svg"),
    Rule("--depth", _draws_overview, "opens overviews of one device: add --pass overview"),
    Rule("--direction", _draws, "changes figures: add --only svg"),
    Rule("--width", _draws, "changes figures: add --only svg"),
    Rule("--height", _draws, "changes figures: add --only svg"),
    Rule("--compact", _draws_backward, "changes backward figures: add --pass backward"),
    Rule(
        "--paper",
        _prints,
        "fits a PDF to the paper: use -o figure.pdf, without --width, --height and --steps",
    ),
    Rule("--steps", _paints, "draws pictures: add --only svg"),
)


def run(options: Namespace, console: Console) -> int:
    """Write figures, pages and modules."""
    from xg.cli.outputs import build

    return build(options, console)
