"""Failures on one rank because of another; the launcher finds out which one."""

from __future__ import annotations

from xg_runtime.errors import RunError


class CollectiveFailed(RunError):
    """A collective that could not end because another rank is gone, hangs, or never came."""


def failure_of(error: Exception, call: str, number: int, timeout: float) -> Exception:
    """The failure that torch's error means, if it is about other ranks; otherwise itself."""
    said = peer_message(error, timeout)
    return CollectiveFailed(f"in collective {number + 1}, {call}: {said}") if said else error


def peer_message(error: Exception, timeout: float) -> str | None:
    """The part of other ranks in an error of torch, None if it is not about them."""
    text = str(error).lower()
    if "timed out" in text or "timeout" in text:
        return f"other ranks did not come within {timeout:g} s"
    if "connection" in text or "closed" in text or "broken pipe" in text or "reset" in text:
        return "another rank is gone"
    return None
