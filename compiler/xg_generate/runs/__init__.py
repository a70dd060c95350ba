"""The folder of a training run: its configuration, and the model loaded again."""
