"""Doors for programs written for something else: ONNX Runtime, ``torch.compile``."""
