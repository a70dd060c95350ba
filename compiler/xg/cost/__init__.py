"""Costs as formulas: FLOPs, bytes, traffic, recomputation, machines."""
