"""The NumPy backend of subgraphkit: runs every operator of ONNX, compiled, with NumPy alone."""

from subgraphkit_numpy.backend import NumpyBackend

__all__ = ["NumpyBackend"]
