"""Blocks written as ONNX and as programs of `torch.export`."""
