"""Every package that xg needs has a lower bound, above the releases with published holes."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lowest import requirements

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
HOLES = {  # package: the first release without them
    "onnx": (1, 21),  # CVE-2026-27489, -28500, -34445, -34446, -34447: files outside a model
    "torch": (2, 6),  # CVE-2025-32434: torch.load runs code even with weights_only
}


def test_every_requirement_has_a_lower_bound() -> None:
    pinned = dict(each.split("==") for each in requirements([*PROJECT["optional-dependencies"]]))
    for name, least in HOLES.items():
        assert tuple(map(int, pinned[name].split("."))) >= least
    assert {"lark", "numpy", "onnxscript", "tokenizers", "pygls"} <= pinned.keys()
