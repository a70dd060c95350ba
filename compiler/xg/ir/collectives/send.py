"""From a stage of a pipeline to another one: a call with two ends, not of a whole group."""

from __future__ import annotations

from typing import Final

from xg.ir.placement import Collective, Price

COLLECTIVE: Final = Collective(name="send", glyph="send", price=Price(route="peer"))
