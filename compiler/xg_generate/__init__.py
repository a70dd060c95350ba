"""Text written with a model: the step of a decoder, its caches, and runs loaded again."""
