"""The additions of decoding to xg."""

from __future__ import annotations

from xg.packages import Package

PACKAGE = Package(
    "xg_generate",
    "the step of a decoder, and text written with it",
    commands={"generate": "write text with a published model or one that you trained"},
    services={
        "step": "xg_generate.decode_step:decode_step",
        "prologue": "xg_generate.decode_step:prologue",
    },
)
