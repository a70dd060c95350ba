"""A task that never ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

from xg_runtime.module import Arrays
from xg_runtime.ranks.task import Answer, Json


def sleeps(options: Json, arrays: Arrays) -> Answer:
    """Say which process this is, and go on for ever."""
    Path(options["mark"]).write_text(str(os.getpid()), encoding="utf-8")
    while True:
        time.sleep(1)
