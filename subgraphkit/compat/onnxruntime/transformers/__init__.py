"""The one module of ONNX Runtime's tools for transformers that running a model needs."""
