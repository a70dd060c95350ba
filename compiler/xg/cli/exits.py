"""Exit codes (the public contract)."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
PROBLEM: Final = 1  # the input has a problem, or a check failed
USAGE: Final = 2
BUG: Final = 3
RUN_FAILED: Final = 4  # a non-finite value, a damaged checkpoint
FILE_FAILED: Final = 5  # reading or writing failed
INTERRUPTED: Final = 130  # by Ctrl-C, as shells count

UNREADABLE: Final = "XG0601"  # a diagnostic of this code alone is no error in a file: FILE_FAILED
