"""Readable NumPy: the words for every primitive, and the module around them."""
