"""Readable torch: forward and backward in plain tensor operations, and a module around them."""

from typing import Final

from xg.codegen.backend import Backend, Runs

BACKEND: Final = Backend(
    name="torch",
    title="torch",
    emit="xg.codegen.torch.module:emit",
    dialect="xg.codegen.torch.dialect:TORCH",
    runs=Runs(
        library="torch",
        extra="torch",
        arrays="xg_runtime.tensors:OnArrays",
        steps="xg_runtime.tensors:StepOnArrays",
        processes=True,
        half=True,
        devices=("cpu", "cuda"),
        autocast=True,
        has_device="xg_runtime.tensors:has_gpu",
        device_stepper="xg_runtime.tensor_stepper:TensorStepper",
    ),
    pipeline=("outlined",),
)
