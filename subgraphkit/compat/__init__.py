"""Doors to what others wrote: ONNX Runtime, ``torch.compile``, OpenTelemetry, Prometheus."""
