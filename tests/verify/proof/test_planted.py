"""Common errors of parallel code, planted into the code of ranks: all are caught."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from xg.codegen.backend import load
from xg.driver import compile_project
from xg.frontend.project import read_project
from xg.verify.proof_sizes import case
from xg.verify.rank_comparison import RankComparison, RankRun
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter
from xg_runtime.errors import RankError

MODEL = read_project(Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg")
DROPOUT = 1


@dataclass(frozen=True)
class Planted:
    """The first `right` in the code of a plan's ranks becomes `wrong`."""

    plan: str
    name: str
    right: str
    wrong: str


PLANTED = [
    # collectives missing
    Planted("All", "no sum behind W_O", 'all_reduce(O @ W_O, "N_T")', "(O @ W_O)"),
    Planted("All", "no sum of dH", 'dH = all_reduce(dH_i, "N_T")', "dH = dH_i"),
    Planted("All", "no sum of dW_up", 'dW_up = all_reduce(dW_up_i, "N_D")', "dW_up = dW_up_i"),
    Planted("All", "no sum of dgamma", 'all_reduce(dgamma_1_i, "N_D")', "dgamma_1_i"),
    Planted("All", "no sum of dbeta", 'all_reduce(dbeta_2_i, "N_D")', "dbeta_2_i"),
    Planted("All", "loss of one replica", 'loss = all_reduce(loss_i, "N_D")', "loss = loss_i"),
    Planted("DP_SP", "gamma under SP", 'dgamma_1 = all_reduce(dgamma_1_i, "N_D*N_T")',
            'dgamma_1 = all_reduce(dgamma_1_i, "N_D")'),
    Planted("DP_SP", "bias under SP", 'db_down = all_reduce(db_down_i, "N_D*N_T")',
            'db_down = all_reduce(db_down_i, "N_D")'),
    Planted("DP_SP", "no gather in front", 'all_gather_ = all_gather(H, "N_T", -2)',
            "all_gather_ = np.concatenate([H] * N_T, -2)"),
    Planted("FSDP_TP", "parts of a weight", 'all_gather(W_Q, "N_D", -2)',
            "np.concatenate([W_Q] * N_D, -2)"),
    # collectives too many, or others
    Planted("All", "summed twice", 'all_reduce(U @ W_down, "N_T")',
            'all_reduce(all_reduce(U @ W_down, "N_T"), "N_T")'),
    Planted("All", "sum of what is whole", "M = dropout_1 + X",
            'M = dropout_1 + all_reduce(X, "N_T")'),
    Planted("All", "gradient summed twice", 'dW_O = all_reduce(dW_O_i, "N_D")',
            'dW_O = all_reduce(all_reduce(dW_O_i, "N_D"), "N_D")'),
    Planted("All", "mean for sum", 'all_reduce(O @ W_O, "N_T")',
            'all_reduce(O @ W_O / N_T, "N_T")'),
    Planted("All", "mean of a gradient", 'all_reduce(dW_up_i, "N_D")',
            'all_reduce(dW_up_i / N_D, "N_D")'),
    Planted("All", "the other axis", 'dW_up = all_reduce(dW_up_i, "N_D")',
            'dW_up = all_reduce(dW_up_i, "N_T")'),
    Planted("All", "the whole world", 'dW_up = all_reduce(dW_up_i, "N_D")',
            'dW_up = all_reduce(all_reduce(dW_up_i, "N_D"), "N_T")'),
    Planted("All", "the wrong group", 'all_reduce(U @ W_down, "N_T")',
            'all_reduce(U @ W_down, "N_D")'),
    Planted("DP_SP", "another axis cut", 'reduce_scatter(O @ W_O, "N_T", -2)',
            'shard_slice(all_reduce(O @ W_O, "N_T"), "N_T", -2)[:, ::-1]'),
    Planted("DP_SP", "a sum for a gather", 'd_AG = all_gather(dY, "N_T", -2)',
            'd_AG = np.concatenate([all_reduce(dY, "N_T")] * N_T, -2)'),
    # order and place
    Planted("All", "bias on every rank", 'all_reduce(U @ W_down, "N_T") + b_down',
            'all_reduce(U @ W_down + b_down, "N_T")'),
    Planted("All", "residual on every rank", 'all_reduce(O @ W_O, "N_T") + b_O',
            'all_reduce(O @ W_O + X, "N_T") + b_O - X'),
    Planted("All", "nonlinear of a term", 'all_reduce(U @ W_down, "N_T")',
            'all_reduce(gelu(U @ W_down), "N_T")'),
    Planted("All", "heads in another order",
            "(AS @ V).swapaxes(1, 2).reshape(B // N_D, S, D // N_T)",
            "(AS @ V)[:, ::-1].swapaxes(1, 2).reshape(B // N_D, S, D // N_T)"),
    Planted("All", "scale of a part", "1 / D_h**0.5", "1 / (D_h / N_T) ** 0.5"),
    # losses and tables
    Planted("All", "mean of local tokens", "(Z, t, B * S", "(Z, t, B // N_D * S"),
    Planted("All", "a local maximum", 'peak_2 = all_reduce_max(peak, "N_T")', "peak_2 = peak"),
    Planted("All", "a local sum of exponentials",
            'all_reduce(np.exp(shifted).sum(axis=-1, keepdims=True), "N_T")',
            "np.exp(shifted).sum(axis=-1, keepdims=True)"),
    Planted("All", "targets of other ranks", 'np.where(owns_index(t, "N_T", V // N_T), part_2, 0)',
            "part_2"),
    Planted("All", "rows of other ranks",
            'np.where(part, E[to_local_index(ids, "N_T", V // N_T)], 0)',
            'E[to_local_index(ids, "N_T", V // N_T)]'),
    Planted("All", "rows of another rank", 'owns_index(ids, "N_T", V // N_T)',
            'owns_index(ids - 1, "N_T", V // N_T)'),
    # masks
    Planted("All", "one mask for all replicas", 'mesh_places((-3, "N_D"))', "mesh_places()"),
    Planted("All", "a mask of each rank", 'mesh_places((-3, "N_D"))',
            'mesh_places((-3, "N_D"), (-1, "N_T"))'),
    Planted("All", "one mask for all heads", 'mesh_places((-4, "N_D"), (-3, "N_T"))',
            'mesh_places((-4, "N_D"))'),
    Planted("DP_SP", "one mask for all positions", 'mesh_places((-3, "N_D"), (-2, "N_T"))',
            'mesh_places((-3, "N_D"))'),
]  # fmt: skip


@cache
def ready(plan: str) -> tuple[RankComparison, RankRun, str]:
    """A trial with its run on one device, and the code of a rank."""
    chosen = case(MODEL, "LM", plan, {})
    many = compile_project(MODEL, "LM", chosen.settings, plan)
    one = many.on_one_device
    params, inputs = interpret.initial(one.graphs), invented.inputs(one.graphs, 0)
    outputs, _ = Interpreter(one.graphs, params, DROPOUT).forward(inputs)
    trial = RankComparison(many.graphs, params, inputs, invented.cotangents(outputs, 0), DROPOUT)
    return trial, trial.on_one_device(one.on_arrays()), many.source()


def is_caught(trial: RankComparison, alone: RankRun, source: str) -> bool:
    module = cast(Any, load(source, "planted"))
    try:
        return trial.differs(alone, trial.on_ranks(module))
    except RankError:
        return True


@pytest.mark.parametrize("plan", ["All", "DP_SP", "FSDP_TP"])
def test_what_nobody_touched_agrees(plan: str) -> None:
    assert not is_caught(*ready(plan))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_caught(planted: Planted) -> None:
    trial, alone, source = ready(planted.plan)
    assert planted.right in source
    assert is_caught(trial, alone, source.replace(planted.right, planted.wrong, 1))


def test_there_are_thirty() -> None:
    assert len({(each.plan, each.right, each.wrong) for each in PLANTED}) >= 30
