"""Errors in what a plan wants to go round a ring (XG083x)."""

from __future__ import annotations

from typing import ClassVar

from xg.diagnostics.diagnostic import ProblemAt


class RingOfNothing(ProblemAt):
    """`ring` on a value that is not the keys or the values of attention."""

    code = "XG0831"
    title = "{name} cannot go round a ring: it is not the keys or the values of attention"
    label = "read by something else"
    fix = (
        "`ring` is for the keys and values of `• SM S DO •`, which all queries need",
        "to gather the value instead, end the line without a word",
    )
    name: str


class RingAxes(ProblemAt):
    """Keys and values that do not go around exactly one mesh axis."""

    code = "XG0832"
    title = "{both} must go round one mesh axis, but their lines say {many}"
    label = "here"
    fix = "write both as if they were gathered: `{both_names} [B, N_H, S_k, D_h] ring`"
    remedy: ClassVar = (
        "a line without a mesh axis applies to all axes: give its part of the plan the name of the "
        "plan that cuts the sequence, as `Ring` of LM and of Attention in transformer.xg"
    )
    names: tuple[str, ...]
    axes: tuple[str, ...]

    @property
    def both(self) -> str:
        """The values in a row."""
        return " and ".join(self.names)

    @property
    def both_names(self) -> str:
        """The values as a line of a plan lists them."""
        return ", ".join(self.names)

    def helps(self) -> tuple[str, ...]:
        return (self.remedy,) if len(self.axes) > 1 else super().helps()

    @property
    def many(self) -> str:
        """The axes in a row."""
        return " and ".join(self.axes) or "none"
