"""Results are the same to the bit, however many threads the pool and BLAS have."""

import itertools

import numpy as np
import onnx
import pytest
import threadpoolctl

from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit_numpy import parallel
from subgraphkit_numpy.kernels import elementwise, matrix

GRAPHS = {
    "product": "g (float[128,300] x, float[300,900] w) => (float[128,900] y) { y = MatMul(x, w) }",
    "wide": "g (float[31,301] x, float[301,3001] w) => (float[31,3001] y) { y = MatMul(x, w) }",
    "high": "g (float[2011,130] x, float[130,90] w) => (float[2011,90] y) { y = MatMul(x, w) }",
    "stack times matrix": "g (float[7,60,200] x, float[200,530] w) => (float[7,60,530] y) "
    "{ y = MatMul(x, w) }",
    "stack": "g (float[3,200,130] x, float[3,130,310] w) => (float[3,200,310] y) "
    "{ y = MatMul(x, w) }",
    "stack of one": "g (float[1,200,330] x, float[1,330,410] w) => (float[1,200,410] y) "
    "{ y = MatMul(x, w) }",
    "gemm": "g (float[330,257] x, float[500,330] w) => (float[257,500] y) "
    "{ y = Gemm<transA=1, transB=1>(x, w) }",
    "einsum": "g (float[4,100,128] x, float[4,128,130] w) => (float[4,100,130] y) "
    '{ y = Einsum<equation="bij,bjk->bik">(x, w) }',
    "transposed convolution": "g (float[1,128,14,14] x, float[128,32,4,4] w) "
    "=> (float[1,32,28,28] y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w) }",
    "lstm": "g (float[5,16,130] x, float[1,512,130] w, float[1,512,128] r) "
    "=> (float[5,1,16,128] y) { y = LSTM<hidden_size=128>(x, w, r) }",
    "gru": "g (float[5,16,130] x, float[1,384,130] w, float[1,384,128] r) "
    "=> (float[5,1,16,128] y) { y = GRU<hidden_size=128>(x, w, r) }",
    "attention": "g (float[1,4,150,64] q, float[1,4,150,64] k, float[1,4,150,64] v) "
    "=> (float[1,4,150,64] y) { y = Attention(q, k, v) }",
}


def _inputs(model: onnx.ModelProto) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = [
        [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in model.graph.input
    ]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_number_of_threads_does_not_change_a_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parsed(GRAPHS[name], opset=23)
    inputs = _inputs(model)
    found = []
    for count, of_blas in itertools.product((1, 2, 3, 7), (1, 2)):
        for module in (parallel, matrix, elementwise):
            monkeypatch.setattr(module, "thread_count", lambda count=count: count)
        with threadpoolctl.threadpool_limits(of_blas, "blas"):
            found.append(compile_model(model)(*inputs)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
