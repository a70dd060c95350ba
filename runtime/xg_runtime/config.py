"""The configuration of a training run, and which of it a resumed run must repeat.

config = TrainConfig(steps=300, rate=1e-3)
optimizer_of(config), schedule_of(config)
facts_of(config, source, {"program": sha256})     the facts that a checkpoint records
differences(held, wanted)                         the reasons not to resume
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias, cast

from xg_runtime.batches import Source
from xg_runtime.checkpoint.manifest import Form, Json
from xg_runtime.optim import SGD, Adam, AdamW, Kind, Optimizer, Schedule

OptimizerName: TypeAlias = Literal["sgd", "adam", "adamw"]

# A resumed run may look and save more or less often: that changes no number.
_FREE: Final = ("evaluate_every", "checkpoint_every", "checkpoint_format", "tensorboard")


@dataclass(frozen=True)
class TrainConfig:
    """The options of a run; steps count from 1."""

    steps: int = 300
    rate: float = 1e-3  # the peak learning rate
    schedule: Kind = "cosine"
    warmup: int = 0
    final: float = 0.1  # of the rate, at the end of the decay
    optimizer: OptimizerName = "adamw"
    momentum: float = 0.9  # of sgd
    weight_decay: float = 0.01  # of adamw
    clip: float | None = 1.0  # limit of the global gradient norm
    dtype: Literal["float32", "float64"] = "float32"
    autocast: Literal["bfloat16"] | None = None  # the type of products
    seed: int = 0
    loss: str = "loss"  # the output that is made small
    evaluate_every: int = 50  # 0: never
    checkpoint_every: int = 100  # 0: only at the start and the end
    checkpoint_format: Form = "safetensors"
    tensorboard: bool = False  # its files of events beside the log


def optimizer_of(config: TrainConfig) -> Optimizer:
    """Return the optimizer that `config` names."""
    if config.optimizer == "sgd":
        return SGD(config.momentum)
    return Adam() if config.optimizer == "adam" else AdamW(weight_decay=config.weight_decay)


def schedule_of(config: TrainConfig) -> Schedule:
    """Return the learning rates of the run."""
    return Schedule(config.schedule, config.rate, config.steps, config.warmup, config.final)


def facts_of(config: TrainConfig, source: Source, facts: Mapping[str, object]) -> Json:
    """Return everything the losses depend on, as JSON would give it back.

    `facts` is the caller's part: what program it is, its sizes, the vocabulary.
    """
    options = {name: value for name, value in asdict(config).items() if name not in _FREE}
    if config.autocast is None:
        del options["autocast"]  # runs that began before there was such an option go on
    if config.schedule == "constant":
        del options["steps"]  # such a run may be made longer
    together = {**facts, "options": options, "data": source.describe()}
    return json.loads(json.dumps(together))


def differences(held: Json, wanted: Json) -> list[str]:
    """Return a line for each fact in which a checkpoint differs from the run that resumes."""
    there, here = _flat(held), _flat(wanted)
    return [
        f"{name} was {there.get(name, 'absent')} and is {here.get(name, 'absent')}"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]


def _flat(facts: Json) -> dict[str, str]:
    """Return the facts two levels deep as name and text."""
    flat: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            inner = cast(Json, value)
            flat |= {f"{name} {key}": json.dumps(part) for key, part in inner.items()}
        else:
            flat[name] = json.dumps(value)
    return flat
