"""`xg compare`: a torch module beside a diagram, on the same weights and inputs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import Rule, add_file, amount, lacks, natural, positive
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.diagnostics.lazy_dataclass import asdict
from xg.frontend.project import Project

if TYPE_CHECKING:
    from xg_torch.compare.comparison import ModuleAgreement

EXAMPLE = "xg new tiny_gpt\nxg compare tiny_gpt/tiny_gpt.xg --module tiny_gpt/model.py:build"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the file, the code or arrays to compare it with, and the options."""
    add_file(parser)
    code = parser.add_mutually_exclusive_group()
    code.add_argument(
        "--module",
        metavar="MODULE:BUILD",
        help="a function that returns a torch.nn.Module, in a module or a .py file; xg runs "
        "it, with --plan on every rank, in processes of its own or under torchrun",
    )
    code.add_argument(
        "--against",
        metavar="ARRAYS",
        type=Path,
        help="arrays that the code has written: inputs, weights, and edges by the diagram's names "
        "(layers.0.M, and d/layers.0.M for a gradient) or by those of modules; with --plan a "
        "folder with a file for each rank (rank0.npz, rank1.npz ...)",
    )
    _add_numbers(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _add_numbers(parser: ArgumentParser) -> None:
    """Names, inputs, weights, and how near is near enough."""
    parser.add_argument(
        "--map",
        "--names",
        dest="names",
        metavar="NAMES",
        type=Path,
        help="a file that maps the code's parameters to the diagram's; default: "
        "NAME.names.toml beside the diagram",
    )
    parser.add_argument(
        "--inputs",
        metavar="ARRAYS",
        type=Path,
        help="an .npz file with inputs; xg draws the others",
    )
    parser.add_argument(
        "--params", metavar="CHECKPOINT", type=Path, help="the weights for --against"
    )
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="keep the module's weights; by default xg moves them off zeros and ones, which "
        "hide errors",
    )
    parser.add_argument(
        "--tolerance",
        type=amount,
        default=1e-6,
        metavar="T",
        help="the largest relative difference, in float64; default: 1e-6",
    )
    _add_run(parser)


def _add_run(parser: ArgumentParser) -> None:
    """How a module is run: on which numbers, with dropout or not, and how long."""
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        metavar="N",
        help="seed for the inputs that xg draws; default: 0",
    )
    parser.add_argument(
        "--dropout",
        type=natural,
        metavar="SEED",
        help="compare in training mode: torch.nn.functional.dropout gets the diagram's masks "
        "of this seed; default: no dropout",
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="how long a rank may keep the others waiting, with --plan; default: 60",
    )


RULES: Final = (
    Rule(
        "--timeout",
        lambda options: options.plan is not None and options.module is not None,
        "is for a module on several ranks: add --module MODULE:BUILD --plan NAME",
    ),
    Rule("--params", lacks("module"), "is for --against; a module has its own weights"),
    Rule("--as-is", lacks("against"), "keeps the weights of a module: add --module MODULE:BUILD"),
    Rule(
        "--dropout",
        lambda options: options.against is None and options.plan is None,
        "gives masks to a module on one device: use --module MODULE:BUILD without --plan",
    ),
    Rule("--seed", lacks("against"), "draws inputs for a module: add --module MODULE:BUILD"),
)


def run(options: Namespace, console: Console) -> int:
    """Run both, compare, and name the first difference."""
    from xg.cli.opening import open_project
    from xg_torch.compare.comparison import lines

    project = open_project(options.file)
    if options.module is None and options.against is None:
        console.note(
            "xg compare: name what to compare with: --module MODULE:BUILD or --against ARRAYS"
        )
        return USAGE
    found = _run_comparison(project, options)
    if found is None:  # a rank of torchrun; the first one speaks for all
        return FINE
    if options.json:
        console.write(json_text(asdict(found) | {"agree": found.first is None}))
    else:
        console.judge_lines(lines(found, options.module or str(options.against)))
    return FINE if found.first is None else PROBLEM


def _run_comparison(project: Project, options: Namespace) -> ModuleAgreement | None:
    from xg_runtime import arrays
    from xg_runtime.errors import InputError
    from xg_torch.compare.comparison import Counterpart, compare_module
    from xg_torch.compare.dumped import compare_array_file, compare_files, files_of_ranks
    from xg_torch.compare.foreign_run import built
    from xg_torch.compare.module_ranks import compare_module_on_ranks

    if options.against is not None:
        files = files_of_ranks(options.against)
        if files is not None:
            return compare_files(project, options, files)
        if options.plan is not None:
            raise InputError(
                "--plan compares arrays of several ranks: name their folder, or rank*.npz, "
                "with --against"
            )
        return compare_array_file(project, options)
    if options.plan is not None:
        return compare_module_on_ranks(project, options)
    given = arrays.read(options.inputs) if options.inputs else {}
    counterpart = Counterpart.of(
        project, options, built(options.module), given, draw=not options.as_is
    )
    return compare_module(counterpart, given, options.tolerance, options.seed, options.dropout)
