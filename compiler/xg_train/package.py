"""The additions of training to xg."""

from __future__ import annotations

from xg.packages import Package

PACKAGE = Package(
    "xg_train",
    "training on text or arrays, and the demo",
    commands={
        "train": "train a diagram on text or arrays",
        "demo": "show in about ten seconds what xg does: figures, code, proofs, training",
    },
)
