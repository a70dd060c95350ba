"""Executable documents: the numbers that an example prints, held against what they should be."""
