"""Readable torch: forward and backward in plain tensor operations, and a module around them."""
