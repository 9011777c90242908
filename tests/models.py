"""Small models in ONNX text, and the real ones that the onnx wheel and other packages ship."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import numpy_helper, parser

import subgraphkit as sk
from subgraphkit.binding import BoundModel

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"


def parsed(body: str, opset: int = 18, imports: str = "", **weights: Any) -> onnx.ModelProto:
    """Parse the text of a graph into a model of IR version 10, with arrays as initializers."""
    opsets = f'"" : {opset}, {imports}'.rstrip(", ")
    model = parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]>\n{body}")
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    model.graph.initializer.extend(stored)
    return model


def skip_if_large(name: str, config: pytest.Config) -> None:
    """Skip a real network of some hundred megabytes, unless it is asked for.

    inception_v1 has local normalisation as well, and shufflenet convolutions in groups.
    """
    if name in {"bvlc_alexnet", "vgg19", "zfnet512"} and not config.getoption("--large-networks"):
        pytest.skip("a long check: --large-networks")


def shipped(package: str, pattern: str) -> str:
    """Return the path of a network in an installed package; the package is not imported."""
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip(f"{package} is not installed")
    (path,) = Path(next(iter(spec.submodule_search_locations))).rglob(pattern)
    return str(path)


def bound(body: str, backend: object = "none", **symbols: int) -> BoundModel:
    """Load and bind the text of a graph."""
    return sk.bind(sk.load(parsed(body)), symbols, backend=backend)


CHAIN = """
chain (float[N, 4] x) => (float[N, 4] y) {
  a = Relu(x)
  b = Neg(a)
  y = Relu(b)
}
"""

DIAMOND = """
diamond (float[2, 3] x) => (float[2, 3] y) {
  a = Relu(x)
  b = Neg(a)
  c = Abs(a)
  y = Add(b, c)
}
"""

LINEAR = """
linear (float[N, 3] x) => (float[N, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] bias = {10, 20}>
{
  product = MatMul(x, w)
  y = Add(product, bias)
}
"""
