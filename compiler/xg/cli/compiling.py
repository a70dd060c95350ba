"""Compile what the shared arguments ask for, or refuse it."""

from __future__ import annotations

from argparse import Namespace

from xg.cli.arguments import settings_of
from xg.cli.opening import open_project
from xg.codegen.backend import CPU, Form, find
from xg.driver import Program, compile_project
from xg_runtime.errors import InputError


def refuse_backend(options: Namespace, form: Form | None = None) -> None:
    """Raise DiagnosticError for what is not installed, or does not write a form."""
    backend = find(options.backend)
    backend.require_form(form)
    backend.require()
    backend.require_device(getattr(options, "device", CPU))
    if getattr(options, "autocast", None):
        backend.require_autocast()


def stage_of(program: Program, place: int | None) -> Program:
    """The program of one stage of a pipeline; the program itself where none is named.

    Raises InputError where there is no such stage.
    """
    if place is None:
        return program
    if not 0 <= place < len(program.stages):
        known = f"0 to {len(program.stages) - 1}" if program.stages else "none without a pipeline"
        raise InputError(f"no stage has the number {place}: the program has {known}")
    return program.stages[place]


def compile_request(options: Namespace) -> Program:
    """The program that FILE, --block and --set ask for."""
    project = open_project(options.file)
    return compile_project(project, options.block, settings_of(options), options.plan)
