"""The additions of xg_testing: `xg lock`, a pytest plugin, assertions for tests."""

from __future__ import annotations

from xg.packages import Package

PACKAGE = Package(
    "xg_testing",
    "regression tests in your repository: locks, a pytest plugin, assertions",
    commands={"lock": "record what files mean, or tell what changed since the record"},
    services={"lock": "xg_testing.proofs:accept"},
)
