"""One rank's share of `xg train`."""

from __future__ import annotations

from typing import Any

from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.module import Arrays
from xg_runtime.ranks.task import Answer
from xg_train.commands.train import folder_of, train_in_folder
from xg_train.data import training_setup
from xg_train.loop import agreed_facts


def train(options: dict[str, Any], arrays: Arrays) -> Answer:
    """A rank's part of `xg train`: the same words, the same file and data, read again."""
    del arrays
    words = parse("train", options["words"])
    folder = folder_of(words)
    what = training_setup(words)
    if agreed_facts(what, words) != options["facts"]:
        raise InputError(f"{words.file} changed while the ranks started: run the command again")
    try:
        learned = train_in_folder(what, words, folder, Console(words.color))
    except NonFiniteError as error:
        return Answer(facts={"tensor": error.tensor, "reason": error.reason, "step": error.step})
    return Answer(facts={"interrupted": learned.interrupted})
