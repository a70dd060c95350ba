"""Kernels in NumPy: ordinary functions whose text is copied into modules.

A module with kernels allocates one array of just under 32 MB after its imports and drops it. glibc
then keeps up to 64 MB of freed memory; without that, each training step fetched and cleared every
page again, a quarter of its time at D 32.
"""
