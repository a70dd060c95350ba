"""What a proof of gradients needs to know of a program: sizes to try it at, and true zeros."""
