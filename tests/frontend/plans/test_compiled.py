"""The facts that `xg.compile` gives about a parallel program."""

from __future__ import annotations

from pathlib import Path

import xg

MLP = """
dim B, S, D = 12, D_ff = 4*D
mesh N_D = 2, N_T = 3

block MLP(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, D_ff], W_down [D_ff, D]

    X -> •<=W_up -> GELU -> •<=W_down : Y
}

plan DP of MLP { X [B/N_D, S, D] }
plan TP of MLP {
    W_up   [D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}
"""


def compiled(tmp_path: Path, plan: str | None) -> xg.Program:
    file = tmp_path / "mlp.xg"
    file.write_text(MLP, encoding="utf-8")
    return xg.compile(file, plan=plan)


def test_tensors_are_told_as_a_rank_has_them(tmp_path: Path) -> None:
    program = compiled(tmp_path, "DP × TP")
    assert program.params["W_up"].placement == "[D, D_ff/N_T]"
    assert program.params["W_up"].shape == (12, 16)
    assert program.inputs["X"].placement == "[B/N_D, S, D]"
    assert program.outputs["Y"].shape == ("B/N_D", "S", 12)


def test_on_one_device_nothing_is_placed(tmp_path: Path) -> None:
    program = compiled(tmp_path, None)
    assert program.params["W_up"].placement is None
    assert program.params["W_up"].shape == (12, 48)


def test_sums_are_begun_early_and_awaited_where_they_are_read(tmp_path: Path) -> None:
    program = compiled(tmp_path, "TP")
    readable, fast = (program.source("numpy", kernels=kernels) for kernels in (False, True))
    assert 'dX = all_reduce(dX_i, "N_T")' in readable
    lines = fast.splitlines()
    begun = next(i for i, line in enumerate(lines) if "start_all_reduce(" in line)
    awaited = next(i for i, line in enumerate(lines) if ".wait()" in line)
    assert any("dW_up" in line for line in lines[begun + 1 : awaited])


def test_the_program_of_one_device_is_the_one_without_a_plan(tmp_path: Path) -> None:
    """It loads, runs, draws and counts, and so do the programs of a pipeline's stages."""
    alone, one = compiled(tmp_path, None), compiled(tmp_path, "DP × TP").on_one_device
    for backend in ("numpy", "torch"):
        assert one.source(backend) == alone.source(backend)
        assert one.source(backend, kernels=True) == alone.source(backend, kernels=True)
    for view in ("forward", "backward", "overview"):
        assert one.render(view) == alone.render(view)
    assert one.cost().total == alone.cost().total
    assert (one.mesh, one.stages, one.schedule) == ({}, (), None)
    assert one.params == alone.params
    assert one.on_one_device is one


def test_the_program_of_one_device_of_a_pipeline() -> None:
    file = Path(__file__).parents[3] / "diagrams/models/transformer.xg"
    many = xg.compile(file, plan="PP")
    assert many.stages
    for each in (many, *many.stages):
        assert each.on_one_device.source() == xg.compile(file).source()
