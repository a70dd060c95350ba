"""The cost of a route, of which every edge takes the cheapest that it finds."""

from __future__ import annotations

from typing import Final

CORNER: Final = 10.0
CROSSING: Final = 24.0  # with another edge
LENGTH: Final = 0.05  # of each point
CLASH: Final = 1000.0  # of lying on something
HOPELESS: Final = 90.0  # a route that costs so much more than another is given up
