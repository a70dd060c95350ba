"""Failures on one rank because of another; the launcher finds out which one."""

from __future__ import annotations

from xg_runtime.errors import RunError


class CollectiveFailed(RunError):
    """A collective that could not end because another rank is gone, hangs, or never came."""


def failure_of(error: Exception, call: str, number: int, timeout: float) -> Exception:
    """The failure that torch's error means, if it is about other ranks; otherwise itself."""
    text = str(error).lower()
    where = f"in collective {number + 1}, {call}"
    if "timed out" in text or "timeout" in text:
        return CollectiveFailed(f"{where}: other ranks did not come within {timeout:g} s")
    if "connection" in text or "closed" in text or "broken pipe" in text or "reset" in text:
        return CollectiveFailed(f"{where}: another rank is gone")
    return error
