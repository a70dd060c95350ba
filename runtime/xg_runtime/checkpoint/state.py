"""The state of a training run, as a checkpoint holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xg_runtime.checkpoint.manifest import Json
from xg_runtime.module import Arrays


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps, and the facts a resumed run has to find unchanged.

    There is no generator state: every random number is a function of seed and step.
    """

    step: int
    params: Arrays = field(repr=False)
    slots: Arrays = field(repr=False)
    facts: Json  # program, options, data, vocabulary: JSON, by name
