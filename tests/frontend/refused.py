"""The errors and warnings of a text, whether the checker stops at them or not."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project


def refused(text: str) -> list[Diagnostic]:
    """Return the errors and warnings of a program."""
    try:
        return [*check_choices(parse_project(text.encode()))]
    except DiagnosticError as error:
        return [*error.diagnostics]
