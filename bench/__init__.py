"""Measurements of xg, each against something it should be near: `python -m bench`."""
