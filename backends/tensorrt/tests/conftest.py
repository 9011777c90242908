"""Fixtures of the tests of the TensorRT backend."""

from collections.abc import Iterator

import pytest

from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit_tensorrt.running import cudart, loader
from subgraphkit_tensorrt.running.cudart import Cuda

__all__ = ["double"]


@pytest.fixture
def double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """Return the double of a release, 11.4.0 unless the test is parametrised.

    A test that does what a real device would not have survived fails.
    """
    made = Double(getattr(request, "param", "11.4.0"))
    runtime = Cuda(made.cuda)
    for module in (loader, cudart):
        monkeypatch.setattr(module, "cuda_runtime", lambda: runtime)
    yield made
    made.cuda.cudaDeviceSynchronize()
    assert made.violations == []
