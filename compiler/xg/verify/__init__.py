"""Proofs of gradients and plans: the sizes to try, and gradients that are truly zero."""
