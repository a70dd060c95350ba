"""The passes, in order: resolve, infer, differentiate, and the clean-ups between them.

A pass takes data and gives data; no pass knows another.
"""
