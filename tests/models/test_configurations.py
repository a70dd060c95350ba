"""CLIP in what its configurations differ: scores, loss and every gradient as transformers has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from backends import with_calls
from models.families import Family, V, call_captions, captions, clip, contrastive
from models.test_published import misses
from models.witness import Witness
from tier import THOROUGH

SETTINGS: Final[Mapping[str, dict[str, Any]]] = {
    "patches of 2": {"patch": 2, "layers": 1},
    "one patch": {"patch": 8},
    "GELU": {"act": "gelu", "layers": 3},
    "by its end": {"end": V - 1},
    "an end that no text has": {"end": 0, "act": "gelu"},
    "an end amid some texts": {"end": 5, "layers": 4},
}
TRIED: Final = list(SETTINGS) if THOROUGH else ["one patch", "an end that no text has"]
BACKENDS: Final = with_calls() if THOROUGH else ["numpy"]


@pytest.fixture(scope="module", params=TRIED)
def clip_witness(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Witness:
    settings = SETTINGS[request.param]
    family = Family("clip", lambda: clip(**settings), captions, call_captions, contrastive)
    return Witness.of(family, tmp_path_factory.mktemp("clip"))


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_clip_agrees_in_every_configuration(
    clip_witness: Witness, backend: str, kernels: bool
) -> None:
    module = clip_witness.held.program.on_arrays(backend, kernels=kernels)
    assert misses(clip_witness, module, clip_witness.held.params) == {}
