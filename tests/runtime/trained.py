"""A run of the bigram model as a process of its own, to be killed.

python trained.py FOLDER [--resume] [--kill-at STEP | --kill-while CALL NUMBER | --slow]
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xg_runtime.batches import TextSource, corpus_of
from xg_runtime.config import TrainConfig
from xg_runtime.module import Arrays
from xg_runtime.train import train

TEXT = b"the cat sat on the mat; the dog sat on the log. " * 30


@dataclass(frozen=True)
class Killing(TextSource):
    """A source that ends the process when a certain batch is asked for."""

    at: int = -1
    pause: float = 0.0

    def batch(self, step: int) -> Arrays:
        time.sleep(self.pause)
        if step == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(step)


def kill_at_call(name: str, number: int) -> None:
    """End the process just before the `number`-th call of os.NAME."""
    real: Callable[..., object] = getattr(os, name)
    left = number

    def counting(*arguments: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(os, name, counting)


def main() -> None:
    import bigram  # is beside this script, which is where Python looks first

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--kill-while", nargs=2)
    parser.add_argument("--slow", type=float, default=0.0)
    options = parser.parse_args()
    if options.kill_while:
        kill_at_call(options.kill_while[0], int(options.kill_while[1]))
    source = Killing(
        corpus_of(TEXT), 4, 16, validation_batches=2, at=options.kill_at, pause=options.slow
    )
    config = TrainConfig(
        steps=40, rate=1e-2, warmup=3, clip=0.5, evaluate_every=10, checkpoint_every=15
    )
    outcome = train(
        bigram, source, config, options.folder, resume="newest" if options.resume else None
    )
    sys.exit(0 if outcome.interrupted is None else f"interrupted by {outcome.interrupted}")


if __name__ == "__main__":
    main()
