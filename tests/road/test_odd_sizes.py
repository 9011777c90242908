"""Runs of open sizes that are fed nothing, or less than a window, are right on every backend."""

import warnings

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import parsed

_RECURRENT = (
    "g (float[T,B,3] x) => (float[T,1,B,2] y, float[1,B,2] h) "
    "<float[1,{gates},3] w = {{{w}}}, float[1,{gates},2] r = {{{r}}}> "
    "{{ y, h = {op} <hidden_size = 2> (x, w, r) }}"
)
_WINDOW = "g (float[1,1,N] x) => (float[1,1,M] y) <float[1,1,4] w = {{1, 2, 3, 4}}> {{ y = {op} }}"

_SHRUNK = (
    "g (float[1,1,N] x) => (float[1,1,M] y) <float[3] s = {1, 1, 0.5}> { r = Resize (x, , s) "
    "y = MaxPool <kernel_shape = [2], strides = [3]> (r) }"
)
_SHRUNK_ROWS = (
    "g (float[1,1,H,W] x) => (float[1,1,A,B] y) <float[1] s = {0.5}> { r = Resize <axes = [%s]> "
    "(x, , s) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }"
)


def _recurrent(op, gates):
    w, r = (", ".join(["0.1"] * count * gates) for count in (3, 2))
    return _RECURRENT.format(op=op, gates=gates, w=w, r=r)


@pytest.mark.parametrize("backend", ["onnxruntime,numpy", "openvino,numpy"])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        *((_recurrent(op, gates), [(2, 2, 3), (0, 2, 3), (2, 0, 3)])
          for op, gates in (("GRU", 6), ("LSTM", 8), ("RNN", 2))),
        *((_WINDOW.format(op=op), [(1, 1, 6), (1, 1, 2), (1, 1, 1)])
          for op in ("Conv(x, w)", "MaxPool <kernel_shape = [4]> (x)",
                     "LpPool <kernel_shape = [4]> (x)")),
        (_SHRUNK, [(1, 1, 6), (1, 1, 3)]),
        *((_SHRUNK_ROWS % axis, [(1, 1, 4, 4), (1, 1, 3, 4)]) for axis in (2, -2)),
    ],
)  # fmt: skip
def test_what_a_library_does_not_compute_is_run_elsewhere(text, shapes, backend):
    model = parsed(text)
    with (
        sk.InferenceSession(model, backend) as session,
        sk.InferenceSession(model, "numpy") as plain,
    ):
        for shape in shapes:
            feeds = {"x": np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "what is fed to subgraph")
                results = session.run(None, feeds)
            for result, wanted in zip(results, plain.run(None, feeds), strict=True):
                np.testing.assert_allclose(result, wanted, rtol=1e-5, strict=True)
