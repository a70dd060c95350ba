"""Attention whose keys and values go round a ring of ranks, where a plan says so.

Attention is recognized as the fused operators of `--kernels` are: by a pattern of steps.
"""

from xg.passes.ring.ring_attention import ring

__all__ = ["ring"]
