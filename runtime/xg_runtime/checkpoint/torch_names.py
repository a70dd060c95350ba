"""The names that the state of a run has in a checkpoint of torch.

    model.W                              a parameter
    optimizer.state.W.exp_avg            a slot, here m/W of Adam
    optimizer.param_groups.0.lr          the options of torch's optimizer, as its own state has them
    train.step, train.facts              the steps done; the facts of the run, as JSON
    manifest                             the name of our manifest, which then has to be there

They are what `{"model": …, "optimizer": …, "train": …}` becomes of torch's `get_state_dict`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from xg_runtime.checkpoint.manifest import NAME, Json
from xg_runtime.checkpoint.parts import ShardLayout
from xg_runtime.checkpoint.state import Checkpoint
from xg_runtime.optim import Adam
from xg_runtime.schedule import Schedule

Path = tuple[str | int, ...]  # of keys, through dictionaries and lists

STEP, FACTS, MANIFEST = "train.step", "train.facts", "manifest"
SLOTS: Final = {"m": "exp_avg", "v": "exp_avg_sq", "velocity": "momentum_buffer"}
_OURS: Final = {theirs: ours for ours, theirs in SLOTS.items()}


def path_of(name: str) -> Path:
    """Return where the parameter or slot of a name is.

    >>> path_of("layers.0.W"), path_of("m/W")
    (('model', 'layers.0.W'), ('optimizer', 'state', 'W', 'exp_avg'))
    """
    kind, is_slot, param = name.partition("/")
    return ("optimizer", "state", param, SLOTS[kind]) if is_slot else ("model", name)


def name_of(key: str) -> str | None:
    """Return the parameter or slot of a key; None for everything else.

    >>> name_of("model.layers.0.W"), name_of("optimizer.state.W.exp_avg"), name_of("train.step")
    ('layers.0.W', 'm/W', None)
    """
    part, _, rest = key.partition(".")
    if part == "model":
        return rest
    param, _, kind = rest.removeprefix("state.").rpartition(".")
    is_slot = part == "optimizer" and rest.startswith("state.") and kind in _OURS
    return f"{_OURS[kind]}/{param}" if is_slot else None


def key_of(path: Path) -> str:
    """Return the key of a path."""
    return ".".join(map(str, path))


def values(
    state: Checkpoint, params: Mapping[str, ShardLayout], slots: Mapping[str, ShardLayout]
) -> Iterator[tuple[Path, object]]:
    """Yield all that is no part of a tensor, by its path: it is whole, and the same on all ranks.

    `params` and `slots` are those of all ranks.
    """
    yield ("train", "step"), state.step
    yield ("train", "facts"), json.dumps(state.facts)
    yield (MANIFEST,), NAME
    learned = [name.partition("/")[2] for name in slots]
    for name in dict.fromkeys(learned):
        if f"m/{name}" in slots:
            step = torch.tensor(float(state.step), dtype=torch.float32)  # as torch counts
            yield ("optimizer", "state", name, "step"), step
    shapes = {name: params[name].shape for name in dict.fromkeys(learned or params)}
    for number, group in enumerate(_groups(state, shapes)):
        for option, value in group.items():
            yield ("optimizer", "param_groups", number, option), value


def _groups(state: Checkpoint, shapes: Mapping[str, Sequence[int]]) -> Iterator[Json]:
    """The groups of torch's optimizer: matrices, which decay, and the rest, or all parameters."""
    options = state.facts.get("options")
    if not options:  # nothing says how it was trained
        return
    if not (options["optimizer"] == "adamw" and options["weight_decay"]):
        yield _group(options, state.step, list(shapes), 0.0)
        return
    for decays in (True, False):
        names = [name for name, shape in shapes.items() if (len(shape) >= 2) == decays]
        if names:
            decay = options["weight_decay"] if decays else 0.0
            yield _group(options, state.step, names, decay)


def _group(options: Json, step: int, names: list[str], decay: float) -> Json:
    """A group of torch's optimizer, with the rate of the next step."""
    kind, peak, steps = options["schedule"], options["rate"], options.get("steps", 0)
    rate = Schedule(kind, peak, steps, options["warmup"], options["final"]).rate(step)
    whole = [torch.zeros(0)]
    if options["optimizer"] == "sgd":
        optimizer: Any = torch.optim.SGD(whole, rate, options["momentum"])
    else:
        kind = torch.optim.AdamW if options["optimizer"] == "adamw" else torch.optim.Adam
        optimizer = kind(whole, rate, (Adam.beta1, Adam.beta2), Adam.epsilon, decay)
    (group,) = optimizer.state_dict()["param_groups"]
    return group | {"params": names}
