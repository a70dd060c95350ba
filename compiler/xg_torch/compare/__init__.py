"""Code that others wrote beside a diagram: where the numbers of the two part, and why."""
