"""Declare the arguments that commands share, and read numbers, settings and threads from them."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.codegen.backend import CPU, backends, default
from xg.diagnostics.lazy_dataclass import dataclass
from xg.packages import offers
from xg.syntax.spelling import ascii_name

if TYPE_CHECKING:
    from xg.frontend.typed import Settings


# Numbers and lists among the words of a command line.


def natural(text: str) -> int:
    """0, 1, 2 …"""
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    if len(text) > 9:
        raise ArgumentTypeError("the largest number is 999999999")
    return int(text)


def positive(text: str) -> int:
    """1, 2, 3 …"""
    if text.startswith("-") or natural(text) == 0:
        raise ArgumentTypeError("at least 1")
    return int(text)


def port(text: str) -> int:
    """The number of a port."""
    if natural(text) > 65_535:
        raise ArgumentTypeError("the largest port is 65535")
    return int(text)


def amount(text: str) -> float:
    """A real number, at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return number


_UNITS = {"in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "pt": 1.0}


def length(text: str) -> float:
    """3.3in, 84mm: a length in points."""
    for unit, points in _UNITS.items():
        if text.endswith(unit):
            found = amount(text.removesuffix(unit)) * points
            if 20 <= found <= 10_000:
                return found
            raise ArgumentTypeError(f"{text!r} should be from 20pt to 10000pt")
    raise ArgumentTypeError(f"{text!r} is not a length such as 3.3in, 84mm, 8.4cm or 240pt")


class OneOrMore:
    """Parse known words separated by commas into a tuple, in the order of `known`."""

    def __init__(self, known: Sequence[str]) -> None:
        self.known = known

    def __call__(self, text: str) -> tuple[str, ...]:
        """`fd,torch`."""
        words = {word.strip() for word in text.split(",")}
        for word in sorted(words.difference(self.known)):
            raise ArgumentTypeError(f"{word!r} is not one of {', '.join(self.known)}")
        return tuple(word for word in self.known if word in words)


FILE_HELP = "an .xg file, the name of a shipped diagram, or - for standard input"


def add_file(parser: ArgumentParser, *, plans: bool = True, about: str = FILE_HELP) -> None:
    """One file, and what of it is compiled."""
    parser.add_argument("file", metavar="FILE", type=Diagram, help=about)
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
        help="the name of standard input in errors and outputs; `use` finds files beside "
        "NAME, which need not exist",
    )


def add_choice(parser: ArgumentParser, *, plans: bool = True) -> None:
    """Which block, under which plan unless it is for one device, with which sizes and options."""
    parser.set_defaults(plan=None)
    parser.add_argument("--block", type=ascii_name, metavar="NAME", help="the block to compile")
    if plans:
        parser.add_argument(
            "--plan", metavar="NAME", help="a parallel plan, or a product of plans: 'DP × TP'"
        )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help=f"set a dim{', a mesh axis' if plans else ''} or an option, such as D=64; repeat it "
        "to set several",
    )


def add_names(parser: ArgumentParser) -> None:
    """Where it is written what a checkpoint's names mean."""
    parser.add_argument(
        "--names",
        metavar="MAPPING",
        type=Path,
        help="a file that maps the checkpoint's tensors to parameters; default: "
        "NAME.names.toml beside the diagram",
    )


def add_kernels(parser: ArgumentParser) -> None:
    """Which form of the code."""
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="use fused kernels: faster code that follows the figure less closely",
    )


def add_ranks(parser: ArgumentParser) -> None:
    """Where the ranks of a plan are, and how long they wait for each other."""
    ranks = parser.add_argument_group("ranks, with --plan")
    ranks.add_argument(
        "--on",
        choices=("simulated", "processes"),
        help="simulate all ranks in one process, or start a torch process for each; default: "
        "simulated",
    )
    ranks.add_argument(
        "--timeout",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="how long a rank may keep the others waiting; default: 60",
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
        return parse_setting(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def settings_of(options: Namespace) -> Settings:
    """The settings of `--set`; the last one of a name counts."""
    return dict(options.settings)


# Options that say nothing beside the other words of a command: they are refused, not ignored.


Effect = Callable[[Namespace], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """An option, when it has an effect, and what it needs for one.

    The module with the arguments of a command has the `RULES` of its options.
    """

    option: str
    has_effect: Effect
    needs: str


def on_processes(options: Namespace) -> bool:
    """Whether ranks are processes."""
    return options.on == "processes"


def has_plan_name(options: Namespace) -> bool:
    """Whether one plan is named, which may have a pipeline: its action looks whether it has."""
    return options.plan not in (None, "*")


def gives(*names: str) -> Effect:
    """Where one of these options is given."""
    return lambda options: any(getattr(options, name) is not None for name in names)


def lacks(name: str) -> Effect:
    """Where an option is not given."""
    return lambda options: getattr(options, name) is None


def without_effect(name: str, rules: Iterable[Rule], options: Namespace) -> str | None:
    """The complaint about the first option of a command that has no effect, if any."""
    written = {word.partition("=")[0] for word in options.words}
    for rule in rules:
        if rule.option in written and not rule.has_effect(options):
            return f"xg {name}: {rule.option} {rule.needs}"
    return None


# The number of threads for NumPy's matrix products.
#
# One is the default. A small model gains little from a second thread, and where another program
# uses the same cores, threads that wait for each other make a step many times slower.


# What the libraries that NumPy may be built with read, once, when NumPy is imported.
_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def add_threads(parser: ArgumentParser) -> None:
    """The option for a command that computes."""
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads for matrix products; default: 1, or what the environment sets",
    )


def limit_threads(wanted: int | None) -> None:
    """Limit the threads of matrix products; call it before NumPy is imported."""
    if wanted is not None:
        os.environ.update(dict.fromkeys(_VARIABLES, str(wanted)))
    elif not any(name in os.environ for name in _VARIABLES):
        os.environ["OMP_NUM_THREADS"] = "1"


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


# Settings as users write them: `D=64`, `norm=post`.


def parse_settings(text: str) -> Settings:
    """`D=64 norm=post`; the last one of a name counts. ValueError says what is wrong."""
    return dict(map(parse_setting, shlex.split(text)))


def parse_setting(text: str) -> tuple[str, str | int]:
    """`D=64`, `norm=post`; ValueError says what is wrong."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{text!r} should be NAME=VALUE")
    return ascii_name(name.strip()), _number(value.strip())


def _number(text: str) -> str | int:
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        if len(digits) > 19:
            raise ValueError(f"{text[:20]}… is too large")
        return int(text)
    return text
