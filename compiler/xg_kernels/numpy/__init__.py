"""Kernels in NumPy: ordinary functions whose text is copied into modules."""
