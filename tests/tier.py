"""How much the tests try: what every commit needs, or with XG_THOROUGH=1 all that there is.

`./dev verify-all` runs every test with XG_THOROUGH=1. A test that tries less without it tries some
of each kind: fewer random programs, some elements of each gradient in place of all (ADR 0308).
"""

import os
from typing import Final

THOROUGH: Final = os.environ.get("XG_THOROUGH") == "1"
