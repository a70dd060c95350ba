"""Executable documents: the numbers that an example prints, checked by computing them again."""
