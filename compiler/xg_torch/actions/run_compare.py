"""`xg compare`: a torch module beside a diagram, on the same weights and inputs."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.cli.opening import open_project
from xg.frontend.project import Project
from xg_runtime import arrays
from xg_runtime.errors import InputError
from xg_torch.compare.comparison import ModuleAgreement, lines
from xg_torch.compare.counterpart import Counterpart, compare_module
from xg_torch.compare.dumped import compare_dumped, compare_files, files_of_ranks
from xg_torch.compare.foreign_module import built
from xg_torch.compare.module_ranks import compare_module_on_ranks


def run(options: Namespace, console: Console) -> int:
    """Run both, compare, and name the first difference."""
    project = open_project(options.file)
    if options.module is None and options.against is None:
        console.note("xg compare: with what? --module MODULE:BUILD, or --against ARRAYS")
        return USAGE
    found = _compared(project, options)
    if found is None:  # a rank of torchrun; the first one speaks for all
        return FINE
    if options.json:
        console.write(json_text(asdict(found) | {"agree": found.first is None}))
    else:
        console.judge_all(lines(found, options.module or str(options.against)))
    return FINE if found.first is None else PROBLEM


def _compared(project: Project, options: Namespace) -> ModuleAgreement | None:
    if options.against is not None:
        files = files_of_ranks(options.against)
        if files is not None:
            return compare_files(project, options, files)
        if options.plan is not None:
            raise InputError(
                "--plan is for arrays of several ranks: --against names their folder, or rank*.npz"
            )
        return compare_dumped(project, options)
    if options.plan is not None:
        return compare_module_on_ranks(project, options)
    given = arrays.read(options.inputs) if options.inputs else {}
    counterpart = Counterpart.of(
        project, options, built(options.module), given, draw=not options.as_is
    )
    return compare_module(counterpart, given, options.tolerance, options.seed, options.dropout)
