"""Quicker kernels that compute the same."""

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


def _check(model, *shapes):
    values = [*map(np.random.default_rng(0).standard_normal, shapes)]
    feeds = {
        one.name: x.astype(np.float32) for one, x in zip(model.graph.input, values, strict=True)
    }
    with session(model) as ours, sk.InferenceSession(model, "numpy") as others:
        (y,), (right,) = ours.run(None, feeds), others.run(None, feeds)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-4)


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


def test_selu_is_computed_by_elu():
    model = parsed("""g (float[3,500] x) => (float[3,500] y)
    { y = Selu <alpha = 2., gamma = 0.7> (x) }""")
    referred = ["Math ref_any_f32" in one for one in _layers(model)]
    assert referred == [False, True]
    _check(model, (3, 500))


def test_selu_of_bfloat16_stays():
    quick, plain = _layers(parsed("g (bfloat16[4] x) => (bfloat16[4] y) { y = Selu(x) }", 22))
    assert quick == plain
