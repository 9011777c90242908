"""Doors to others' interfaces: ONNX Runtime, ``torch.compile``, OpenTelemetry, Prometheus."""
