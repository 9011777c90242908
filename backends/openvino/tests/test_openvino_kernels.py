"""Quicker kernels that compute the same."""

import ml_dtypes
import numpy as np
import pytest

import subgraphkit as sk
from backends.openvino.tests.openvino_road import parsed, session
from subgraphkit_openvino import library
from subgraphkit_openvino.kernels import QUICKER

CONVOLVED = {
    "Reshape": "y = Flatten(a)", "Result": "y = Elu(a)", "Softmax": "y = Softmax<axis=1>(a)",
}  # fmt: skip


def _layers(model):
    """Return the layers that OpenVINO makes of a model, rewritten and as it is."""
    for rewrites in (QUICKER, ()):
        # A core that goes before a younger one leaves signals a stack that is no longer there.
        read = library.core().read_model(model.SerializeToString())
        for rewrite in rewrites:
            rewrite(read)
        compiled = library.core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = (op.get_rt_info() for op in compiled.get_runtime_model().get_ops())
        yield {f"{one['layerType'].value} {one['primitiveType'].value}" for one in found}


def _check(model, *shapes, dtype=np.float32):
    values = [*map(np.random.default_rng(0).standard_normal, shapes)]
    feeds = {one.name: x.astype(dtype) for one, x in zip(model.graph.input, values, strict=True)}
    with session(model) as ours, sk.InferenceSession(model, "numpy") as others:
        (y,), (right,) = ours.run(None, feeds), others.run(None, feeds)
    rtol = 1e-4 if dtype is np.float32 else 1e-2
    np.testing.assert_allclose(y.astype(np.float32), right.astype(np.float32), rtol, atol=1e-4)


@pytest.mark.parametrize("size", [(32, 32), (8, 8, 16), (512, 1), (1, 512)])
@pytest.mark.parametrize("made", CONVOLVED)
def test_channels_of_a_convolution_come_first_by_transpositions(made, size):
    x, w = (2, 4, *size), (32, 4, *[3] * len(size))
    pads = str([1] * 2 * len(size))
    model = parsed(f"""g (float{[*x]} x, float{[*w]} w) => (y)
    {{ a = Conv <pads = {pads}> (x, w) {CONVOLVED[made]} }}""")
    turns = ["Transpose unknown_f32" in one for one in _layers(model)]
    assert turns == [size[-1] > 1, False]
    _check(model, x, w)


@pytest.mark.parametrize(
    "how", ["pads = [4, 3]", "output_padding = [2]", 'auto_pad = "SAME_LOWER"']
)
def test_rows_are_convolved_as_pictures(how):
    x, w = (2, 32, 64), (32, 16, 11)
    model = parsed(f"""g (float{[*x]} x, float{[*w]} w) => (float[A,B,C] y)
    {{ y = ConvTranspose <strides = [4], {how}> (x, w) }}""")
    quick = [any("brgconv" in layer for layer in one) for one in _layers(model)]
    assert quick == [True, False]
    _check(model, x, w)


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
def test_selu_is_computed_by_elu(kind):
    model = parsed(
        f"""g ({kind}[3,500] x) => ({kind}[3,500] y)
    {{ y = Selu <alpha = 2., gamma = 0.7> (x) }}""",
        22,
    )
    referred = ["Math ref_any_f32" in one for one in _layers(model)]
    assert referred == [False, True]
    _check(model, (3, 500), dtype=np.float32 if kind == "float" else ml_dtypes.bfloat16)
