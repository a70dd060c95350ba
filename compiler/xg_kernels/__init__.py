"""Kernels: fused operators, the passes that find them, and their code in NumPy and torch."""
