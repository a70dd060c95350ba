"""Costs as formulas: FLOPs, bytes, traffic, recomputation, machines.

Costs are counted from the primitives of both passes, so a new operator has its costs at once.
Nothing is fitted: the estimate orders plans, everybody can redo it by hand, and a fitted model
would look like a promise. Weights for exp or tanh would only hold for one machine.
"""
