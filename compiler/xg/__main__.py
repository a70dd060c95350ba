"""`python -m xg` is `xg`."""

from __future__ import annotations

import sys

from xg.cli import main

sys.exit(main())
