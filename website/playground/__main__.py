"""Fetch the playground's Python runtime, if it is not there: `python -m website.playground`."""

from __future__ import annotations

import sys

from website.playground.runtime import RuntimeMissing, runtime

try:
    runtime()
except RuntimeMissing as missing:
    sys.stderr.write(f"the playground has no Python runtime: {missing}\n")
