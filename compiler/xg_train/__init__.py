"""Training: data, the loop, and the demo."""
