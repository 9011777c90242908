"""Block functions: how near they come, and that neither blocks nor threads show in results."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from subgraphkit_numpy import parallel
from subgraphkit_numpy.kernels import elementwise, rows
from subgraphkit_numpy.kernels.arithmetic import POWERS
from subgraphkit_numpy.kernels.elementwise import in_blocks

BLOCKS: dict[str, elementwise.Block] = {
    "clip": elementwise.clip(-0.5, 0.7),
    "elu": elementwise.elu(1.3),
    "erf": elementwise.erf,
    "gelu": elementwise.gelu,
    "gelu_tanh": elementwise.gelu_tanh,
    "hard_sigmoid": elementwise.hard_sigmoid(),
    "hard_swish": elementwise.hard_swish,
    "leaky_relu": elementwise.leaky_relu(0.1),
    "mish": elementwise.mish,
    "relu": elementwise.relu,
    "selu": elementwise.elu(1.67, 1.05),
    "sigmoid": elementwise.sigmoid,
    "silu": elementwise.swish(1.0),
    "softplus": elementwise.softplus,
    "softsign": elementwise.softsign,
    "steep_relu": elementwise.leaky_relu(-2.0),
    "tanh": np.tanh,
}


@pytest.fixture(autouse=True)
def quiet():
    """Let NumPy be silent about overflow, as operators do."""
    with np.errstate(all="ignore"):
        yield


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# the constants in the functions of HardSwish and Gelu are float32, whatever these compute in
_SIXTH = float(np.float32(1 / 6))
_SLOPE, _BEND = math.sqrt(float(np.float32(2 / math.pi))), float(np.float32(0.044715))

REFERENCE: dict[str, Callable[[float], float]] = {
    "clip": lambda x: min(max(x, -0.5), 0.7),
    "elu": lambda x: x if x > 0 else 1.3 * math.expm1(x),
    "erf": math.erf,
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x * sigmoid(2 * _SLOPE * (x + _BEND * x * x * x)) if abs(x) < 15 else x,
    "hard_sigmoid": lambda x: min(max(0.2 * x + 0.5, 0.0), 1.0),
    "hard_swish": lambda x: x * min(max(_SIXTH * x + 0.5, 0.0), 1.0),
    "leaky_relu": lambda x: x if x > 0 else 0.1 * x,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "relu": lambda x: max(x, 0.0),
    "selu": lambda x: 1.05 * (x if x > 0 else 1.67 * math.expm1(x)),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": softplus,
    "softsign": lambda x: x / (1 + abs(x)),
    "steep_relu": lambda x: x if x > 0 else -2.0 * x,
    "tanh": math.tanh,
}


def applied(function, x):
    out = np.empty_like(x)
    function(x, out)
    return out


def samples(dtype):
    small = np.logspace(-30, 0, 500)
    return np.concatenate([np.linspace(-14, 14, 20001), small, -small]).astype(dtype)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("dtype", "limit"), [("f4", 3e-7), ("f8", 2e-15)])
def test_a_block_function_is_as_exact_as_its_element_type(name, dtype, limit):
    x = samples(dtype)
    wanted = np.array([REFERENCE[name](value) for value in x.astype(np.float64).tolist()])
    error = np.abs(applied(BLOCKS[name], x) - wanted) / np.maximum(1, np.abs(x))
    assert error.max() <= limit


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_function_passes_nan_on_and_knows_infinity(name):
    x = np.array([np.nan, np.inf, 0.0], np.float32)
    y = applied(BLOCKS[name], x)
    limits = {"clip": 0.7, "erf": 1, "hard_sigmoid": 1, "sigmoid": 1, "tanh": 1}
    assert np.isnan(y[0])
    if name not in {"mish", "softsign"}:
        assert y[1] == pytest.approx(limits.get(name, np.inf))
    assert y[2] == pytest.approx(REFERENCE[name](0.0))


def test_erf_keeps_the_sign_of_zero_and_is_one_at_infinity():
    x = np.array([0.0, -0.0, np.inf, -np.inf], np.float32)
    y = applied(elementwise.erf, x)
    assert y.tolist() == [0, 0, 1, -1]
    assert np.signbit(y).tolist() == [False, True, False, True]


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_is_that_of_c(exponent, dtype):
    made = POWERS.get(exponent)
    assert made is not None
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    x = np.concatenate([special, np.linspace(-9, 9, 1001), np.logspace(-8, 8, 1001)]).astype(dtype)
    wanted = np.power(x.astype(np.float64), exponent)
    if exponent == 0.5:
        # here NumPy takes the square root, which C tells apart at these two
        wanted[[1, 3]] = 0.0, np.inf
    y = applied(made[0], x)
    np.testing.assert_allclose(y, wanted, rtol=2 * np.finfo(dtype).eps)
    assert np.signbit(y[:4]).tolist() == np.signbit(wanted[:4]).tolist()


def layouts(x):
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    flipped = np.ascontiguousarray(x[::-1])[::-1]
    return [x, wide[..., ::2], np.asfortranarray(x), x.transpose(1, 0, 2).copy().transpose(1, 0, 2),
            flipped]  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_layout_and_place_do_not_show(name):
    x = np.random.default_rng(0).standard_normal((5, 70, 301)).astype(np.float32)
    wanted = applied(BLOCKS[name], x)
    for laid_out in layouts(x):
        np.testing.assert_array_equal(in_blocks(BLOCKS[name], laid_out), wanted)
        view = laid_out.view()
        BLOCKS[name](laid_out, view)
        np.testing.assert_array_equal(laid_out, wanted)
        laid_out[...] = x


def with_threads(monkeypatch, count):
    for module in (parallel, elementwise):
        monkeypatch.setattr(module, "thread_count", lambda: count)


# -- rows ------------------------------------------------------------------------------------------


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    result: np.ndarray[Any, Any] = shifted / shifted.sum(axis=-1, keepdims=True)
    return result


ROWS = [(40000, 3), (2000, 49), (1500, 197), (300, 1500), (4, 50257), (1, 70000)]


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("offset", [0, 128, -512])
def test_softmax_is_exact_for_rows_of_any_length_and_offset(shape, offset):
    x = (np.random.default_rng(2).standard_normal(shape) + offset).astype(np.float32)
    x[0] = 0
    wanted = softmax(x.astype(np.float64))
    np.testing.assert_allclose(rows.in_rows(rows.softmax, x, shape[1]), wanted, rtol=8e-7)
    found = rows.in_rows(rows.log_softmax, x, shape[1])
    np.testing.assert_allclose(found, np.log(wanted), rtol=1e-6, atol=1e-6 + abs(offset) * 1.3e-7)


def test_softmax_of_masked_rows_leaves_nothing_where_the_mask_is():
    x = np.full((3, 8), -np.inf, np.float32)
    x[0, :3], x[1, 2] = 1.0, 90.0
    y = rows.in_rows(rows.softmax, x, 8)
    np.testing.assert_allclose(y[0], [1 / 3] * 3 + [0] * 5, rtol=1e-6)
    assert y[1].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert np.isnan(y[2]).all()


def standardized(x):
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    result: np.ndarray[Any, Any] = centred / np.sqrt(
        np.square(centred).mean(axis=-1, keepdims=True) + 1e-5
    )
    return result


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize(("offset", "limit"), [(0, 2e-6), (1000, 3e-4)])
def test_rows_are_standardized(shape, offset, limit):
    generator = np.random.default_rng(3)
    x = (generator.standard_normal(shape) + offset).astype(np.float32)
    scale, bias = generator.standard_normal((2, shape[1])).astype(np.float32)
    y = rows.in_rows(rows.layer_normalize, x, shape[1], None, 1.0, scale, bias, 1e-5)
    wanted = standardized(x)
    # rows of few elements may have any deviation, and errors are relative to it
    slack = 1 / np.sqrt(np.var(x.astype(np.float64), axis=1, keepdims=True) + 1e-5)
    assert (np.abs(y - (wanted * scale + bias)) <= limit * (1 + np.abs(scale)) * (1 + slack)).all()


def test_rows_are_divided_by_their_root_mean_square():
    x = np.random.default_rng(4).standard_normal((700, 300)).astype(np.float32)
    scale = np.linspace(0, 2, 300, dtype=np.float32)
    y = rows.in_rows(rows.rms_normalize, x, 300, None, 1.0, scale, 1e-6)
    square = np.square(x.astype(np.float64)).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(y, x / np.sqrt(square + 1e-6) * scale, rtol=6e-7)


@pytest.mark.parametrize("shape", ROWS)
def test_neither_threads_nor_blocks_show_in_rows(shape, monkeypatch):
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    x[::7] += 100
    scale = np.linspace(0, 2, shape[1], dtype=np.float32)
    calls: list[tuple[rows.RowBlock, tuple[Any, ...]]] = [
        (rows.softmax, ()),
        (rows.log_softmax, ()),
        (rows.layer_normalize, (scale, scale, 1e-5)),
        (rows.rms_normalize, (scale, 1e-5)),
    ]
    for function, parameters in calls:
        found = []
        for count in (1, 2, 3):
            with_threads(monkeypatch, count)
            found.append(rows.in_rows(function, x, shape[1], None, 100.0, *parameters))
        found.append(np.empty_like(x))
        for number in range(0, len(x), 1 + len(x) // 50):
            function(x[number : number + 1], found[-1][number : number + 1], *parameters)
        for other in found[1:3]:
            np.testing.assert_array_equal(other, found[0])
        alone = slice(0, len(x), 1 + len(x) // 50)
        np.testing.assert_array_equal(found[3][alone], found[0][alone])
        assert rows.in_rows(function, x.copy(), shape[1], None, 1.0, *parameters).shape == shape
