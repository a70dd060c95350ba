"""Examples of a file: values recomputed, claims judged."""
