"""The additions for PyTorch and ONNX to xg."""

from __future__ import annotations

from xg.packages import Package, PrintedForm

PACKAGE = Package(
    "xg_torch",
    "models of torch and ONNX: import, compare, export, plans for a module of yours",
    commands={
        "weights": "read a published checkpoint for a diagram, or write one",
        "compare": "run a PyTorch module beside a diagram, and find the first edge that differs",
        "import": "turn a PyTorch or ONNX model into a diagram, with its weights",
        "export": "write a block with its parameters as ONNX or as a torch.export program",
    },
    forms={
        "dtensor": PrintedForm(
            "the plan as DTensor calls that shard your own module",
            "xg_torch.dtensor.torch_calls:show",
        )
    },
    options={"show": "xg_torch.dtensor"},
    names={
        "Imported": "xg_torch.importing:Imported",
        "import_exported": "xg_torch.importing:import_exported",
        "trace": "xg_torch.importing:trace",
    },
)
