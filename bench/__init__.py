"""Measurements of xg, each against something it should be near: `python -m bench`."""

import sys
from pathlib import Path

# What drives a browser and serves the playground is the tests' own.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
