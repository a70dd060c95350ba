"""Tasks that ranks run in the tests, in a file so that processes can load them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from runtime.ranks.meaning import CASES, tensor

from xg_runtime.checkpoint import Checkpoint
from xg_runtime.checkpoint.on_ranks import save
from xg_runtime.errors import NonFiniteError
from xg_runtime.module import Arrays
from xg_runtime.ranks import (
    all_gather,
    all_reduce,
    all_to_all,
    current,
    number,
    rank,
    reduce_scatter,
    shard_slice,
    shift,
    size,
    start_all_reduce,
    start_reduce_scatter,
)
from xg_runtime.ranks.call import Incoming, Outgoing
from xg_runtime.ranks.task import Answer, Json, Task

X = np.ones((2, 3))


def task(name: str, options: Json | None = None, arrays: Arrays | None = None) -> Task:
    """A function of this file as a task."""
    return Task(f"{Path(__file__)}:{name}", options or {}, arrays or {}, {"plan": "none"})


def collectives(options: Json, arrays: Arrays) -> Answer:
    """Every collective over every axis, on arrays and on tensors, of several types."""
    found: Arrays = {}
    over = ""
    for over in current().sizes:
        for name, (called, _) in CASES.items():
            for kind in options["types"]:
                x = arrays[str(number())].astype(kind)
                found[f"{name} {over} {kind}"] = called(x, over)
                y: Any = tensor(x)
                found[f"{name} {over} {kind} torch"] = np.asarray(called(y, over))
    whole = "*".join(current().sizes)
    places = np.array([number(), number() ** 2])
    found["of all"], found["sum of all"] = all_gather(places, whole, -1), all_reduce(places, whole)
    found["of the one before"] = shift(places, whole)
    term = np.full((2, size(whole)), (1e16, 1.0, -1e16, 3.0)[number()])  # their order matters
    found["slices of the sum"] = reduce_scatter(term, whole, -1)
    scalar = np.float64(number())
    found["scalar"] = np.asarray(all_reduce(scalar, over))
    for kind in ("uint16", "uint32", "uint64", "bool"):
        some = np.array([number(), 3]).astype(kind)
        found[kind] = all_gather(some, over, -1)
        if kind != "bool":
            found[f"sum {kind}"] = all_reduce(some - some[1], over)
    found["empty"] = all_gather(np.zeros((2, 0)), over, -2)
    found["strided"] = all_reduce(np.broadcast_to(np.float64(number()), (2, 3)).T, over)
    return Answer(found, {"at": [current().rank(axis) for axis in current().sizes]})


def step(options: Json, arrays: Arrays) -> Answer:
    """Steps of an MLP under data and tensor parallelism, its gradients summed beside the rest."""
    X, T = (shard_slice(arrays[name], "N_D", -2) for name in ("X", "T"))
    one, two = shard_slice(arrays["W"], "N_T", -1), shard_slice(arrays["V"], "N_T", -2)
    losses: list[float] = []
    for _ in range(options["steps"]):
        with current().counters.during("forward"):
            U = np.tanh(X @ one)
            error = all_reduce(U @ two, "N_T") - T
            loss = all_reduce((error * error).sum(), "N_D") / (len(X) * size("N_D"))
        with current().counters.during("backward"):
            dY = 2 * error / (len(X) * size("N_D"))
            d_two = start_all_reduce(U.T @ dY, "N_D")
            d_one = start_reduce_scatter(X.T @ (dY @ two.T * (1 - U * U)), "N_D", -1)
            two = two - 0.1 * d_two.wait()
            one = one - 0.1 * all_gather(d_one.wait(), "N_D", -1)
        losses.append(float(loss))
    return Answer({"W": one, "V": two}, {"losses": losses})


def both(options: Json, arrays: Arrays) -> Answer:
    """All collectives, then the steps."""
    one, two = collectives(options, arrays), step(options, arrays)
    return Answer(one.arrays | two.arrays, one.facts | two.facts)


CALLS: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: all_reduce(X, "N_T"),
    "all_gather": lambda: all_gather(X, "N_D*N_T", -1),
    "reduce_scatter": lambda: start_reduce_scatter(X, "N_T", -2).wait(),
    "all_to_all": lambda: all_to_all(X, "N_T", -2, -1),
    "shift": lambda: shift(X, "N_T"),
}


def misstep(options: Json, arrays: Arrays) -> Answer:
    """Three collectives, then something that one rank should not do, then one more of a kind."""
    for _ in range(3):
        all_reduce(X, "N_T")
    if rank("N_T") == options["at"]:
        Path(options["mark"]).write_text(str(time.time()), encoding="utf-8")
        _misbehave(options["how"])
        if options["how"] == "leaves":
            return Answer()
    CALLS[options.get("call", "all_reduce")]()
    return Answer({"X": X})


def passes(options: Json, arrays: Arrays) -> Answer:
    """Two stages: the first sends a part, does something that it should not, and sends another."""
    mesh = current()
    mesh.diverge("N_P")
    first, again = (Outgoing(X, 1, "", opens) for opens in (True, False))
    if rank("N_P") == 0:
        mesh.exchange("N_P", [first], [])
        mesh.flush()
        Path(options["mark"]).write_text(str(time.time()), encoding="utf-8")
        _misbehave(options["how"])
        if options["how"] == "leaves":
            return Answer()
        mesh.exchange("N_P", [again], [])
    else:
        for opens in (True, False):
            mesh.exchange("N_P", [], [Incoming(0, "", opens)]).wait(0)
    mesh.flush()
    return Answer()


def stages(options: Json, arrays: Arrays) -> Answer:
    """A collective of all ranks, and one of every stage, then one in which rank 3 differs."""
    all_reduce(X, "N_P")
    current().diverge("N_P")
    if rank("N_P") == 0:
        all_gather(X, "N_T", -1)
        return Answer()
    all_reduce(X, "N_T")
    if rank("N_T") == 0:
        all_reduce(X, "N_T")
    else:
        all_reduce(X.astype(np.float32), "N_T")
    return Answer()


def saves(options: Json, arrays: Arrays) -> Answer:
    """Save a checkpoint together, and another one during which one rank is killed."""
    run, cuts = Path(options["run"]), {"W": (("N_T", -1),)}
    save(run, Checkpoint(1, {"W": X}, {}, {}), cuts)
    if rank("N_T") == 1:
        Path(options["mark"]).write_text(str(time.time()), encoding="utf-8")
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    save(run, Checkpoint(2, {"W": 2 * X}, {}, {}), cuts)
    return Answer()


def _misbehave(how: str) -> None:
    match how:
        case "sleeps":
            time.sleep(60)
        case "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise NonFiniteError("loss is nan", "loss", 7)
        case "errs":
            raise ZeroDivisionError("division by zero")
        case _:
            pass


def sums_of_a_stage(options: Json, arrays: Arrays) -> Answer:
    """The first stage sums over the other axes, as the second never does; then all do."""
    current().diverge("N_P")
    found: Arrays = {}
    if rank("N_P") == 0:
        found["stage"] = all_reduce(np.array([1.0 + number()]), "N_A*N_B")
    found["all"] = all_reduce(np.array([1.0 + number()]), "N_P*N_A*N_B")
    return Answer(found)
