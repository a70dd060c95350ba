"""Models of PyTorch and ONNX beside diagrams: import, compare, export, plans of DTensor."""
