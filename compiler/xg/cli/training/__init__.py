"""Training runs behind `xg train`: setup, data, the loop, and runs loaded again."""
