"""Kernels in torch: ordinary functions whose text is copied into modules."""
