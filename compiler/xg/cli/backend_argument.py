"""List the kinds of files for a diagram, and declare `--backend` and `--device`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from xg.codegen.backend import CPU, backends, default
from xg.packages import offers

# The kinds of files that are written for a diagram.


Kind = str  # a form of figures, the page, or a backend
KINDS: Final[tuple[Kind, ...]] = (
    *("dot", "svg", "pdf", "png", "tex"),
    *(("html",) if offers("explore") else ()),
    *backends(),
)
OTHERS: Final = tuple(backends())[1:]  # beside the default, which every proof runs


def add_backend(parser: ArgumentParser, *, device: bool = False) -> None:
    """The backend to run, and where a command can say that the device."""
    parser.add_argument(
        "--backend",
        choices=tuple(backends()),
        default=default().name,
        help=f"the library that computes; default: {default().name}",
    )
    if device:
        runs = {each.name: each.runs.devices for each in backends().values()}
        known = dict.fromkeys(device for devices in runs.values() for device in devices)
        others = [name for name, devices in runs.items() if len(devices) > 1]
        parser.add_argument(
            "--device",
            choices=tuple(known),
            default=CPU,
            help=f"where {' or '.join(others)} computes; cuda is a GPU; default: {CPU}",
        )


def where(options: Namespace) -> dict[str, str]:
    """The device of a module on arrays, and the type of its products, where they are not usual."""
    autocast = getattr(options, "autocast", None)
    device = {"device": options.device} if options.device != CPU else {}
    return device | ({"autocast": autocast} if autocast else {})
