"""The callers of a backward pass keep no reference to what was saved, so that it can be freed."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import pytest

from xg_runtime import step as training
from xg_runtime.module import Module
from xg_runtime.ranks import current, simulate
from xg_runtime.ranks.pipeline import Link, Part, Pipeline, RankStage
from xg_runtime.stage_messages import scheduled_actions
from xg_runtime.tensors import OnArrays, TorchModule


class Saved:
    """Something to which there are weak references."""


class Stub:
    """A module whose backward pass notes whether it alone has what was saved."""

    def __init__(self) -> None:
        self.alone: list[bool] = []

    def forward(self, params: Any, inputs: Any, *, seed: int | None = None) -> Any:  # noqa: ANN401
        return {"loss": np.zeros(())}, Saved()

    def backward(self, params: Any, saved: Any, d_outputs: Any) -> dict[str, Any]:  # noqa: ANN401
        found = weakref.ref(saved)
        del saved
        self.alone.append(found() is None)
        return {}

    def backward_in_parts(
        self,
        params: Any,  # noqa: ANN401
        saved: Any,  # noqa: ANN401
        d_outputs: Any,  # noqa: ANN401
        *_: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        kept = [saved]
        del saved
        return self.backward(params, kept.pop(), d_outputs)


class Stage(Stub):
    """One of two stages, which notes when its gradients of parameters are left for later."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
        self.left: list[bool] = []
        self.computed = 0

    def forward(self, params: Any, inputs: Any, *, seed: int | None = None) -> Any:  # noqa: ANN401
        return {} if self.place else {"out": np.zeros(())}, Saved()

    def backward_in_parts(
        self,
        params: Any,  # noqa: ANN401
        saved: Any,  # noqa: ANN401
        d_outputs: Any,  # noqa: ANN401
        later: list[Any] | None = None,
        *_: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        self.left.append(later is not None)
        if later is None:
            self.weights()
        else:
            later.append(self.weights)
        return {"in": np.zeros(())} if self.place else {}

    def weights(self) -> None:
        """The part that may be left."""
        self.computed += 1


@pytest.mark.parametrize("parts", [1, 3])
def test_a_pipeline_hands_over(parts: int) -> None:
    stub = Stub()

    def step() -> None:
        stage = RankStage(cast(Module, stub), Link("N_P", 0, 1, 1), ())
        actions = scheduled_actions("1F1B", 1, parts, 1)[0]
        Pipeline((stage,)).step({}, [Part({}, {}, None)] * parts, actions)

    simulate({"N_P": 1}, step)
    assert stub.alone == [True] * parts


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_the_last_cell_sends_before_it_computes_gradients_of_parameters(schedule: str) -> None:
    stubs = [Stage(place) for place in range(2)]

    def step() -> None:
        place = current().rank("N_P")
        ends: Any = {"sends": "out"} if place == 0 else {"receives": "in"}
        stage = RankStage(cast(Module, stubs[place]), Link("N_P", place, 2, 2, **ends), ())
        actions = scheduled_actions(schedule, 2, 3, 1)[place]
        Pipeline((stage,)).step({}, [Part({}, {}, None)] * 3, actions)

    simulate({"N_P": 2}, step)
    assert stubs[0].left == [False, False, False]
    assert stubs[1].left == [False, False, True]
    assert [stub.computed for stub in stubs] == [3, 3]


def test_a_module_of_torch_hands_over() -> None:
    stub = Stub()
    kept = [Saved()]
    OnArrays(cast(TorchModule, stub)).backward({}, kept.pop(), {})
    kept.append(Saved())
    OnArrays(cast(TorchModule, stub)).backward_in_parts({}, kept.pop(), {}, None)
    OnArrays(cast(TorchModule, stub)).backward({}, own := Saved(), {})  # negative control
    assert stub.alone == [True, True, False]
    assert own


def test_a_step_of_training_hands_over() -> None:
    stub, part = Stub(), training.Part({}, 1.0, 0, nullcontext())
    given: Any = {"source": None, "optimizer": None, "schedule": None}
    stepper = training.Stepper(cast(Module, stub), **given, loss="loss", limit=None, seed=0)
    stepper._part({}, part, {}, 0)  # pyright: ignore[reportPrivateUsage]
    assert stub.alone == [True]
