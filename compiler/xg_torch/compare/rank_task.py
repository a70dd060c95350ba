"""One rank's share of `xg compare`."""

from __future__ import annotations

from typing import Any

from xg.cli.dispatch import parse
from xg.cli.opening import open_project
from xg_runtime.module import Arrays
from xg_runtime.ranks.task import Answer
from xg_torch.compare.module_ranks import observe_rank, seen_of_stage, stages_of


def compare(options: dict[str, Any], arrays: Arrays) -> Answer:
    """A rank's part of `xg compare`: the user's module, built and run on this rank."""
    del arrays
    words = parse("compare", options["words"])
    project = open_project(words.file)
    return (
        seen_of_stage(project, words) if stages_of(project, words) else observe_rank(project, words)
    )
