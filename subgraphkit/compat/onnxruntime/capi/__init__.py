"""The package in which programs look for ONNX Runtime's exception classes."""
