"""Errors of packages beside the core (XG05xx)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Problem


class NoPackage(Problem):
    """A feature of a package that is not installed."""

    code = "XG0520"
    title = "this needs a package of xg that is not installed: none provides `{service}`"
    fix = "install xg again: its wheel has every package"
    service: str
