"""Attention and rotary positions of ONNX Runtime's own domain, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.numpy.tests.microsoft_support import DOMAIN, Numbers, agrees
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported

HALF, FLOAT = np.dtype(np.float16), np.dtype(np.float32)
FLOATS = pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=str)
CAUSAL = pytest.mark.parametrize("unidirectional", [0, 1])

BATCH, LENGTH, HEADS, SIZE, PAST = 2, 5, 4, 8, 3
HIDDEN = HEADS * SIZE


def _ones(*shape, zeros=()):
    mask = np.ones(shape, np.int32)
    for place in zeros:
        mask[place] = 0
    return mask


def _masks(keys):
    return {
        "none": None,
        "ends": np.array([keys, keys - 2], np.int32),
        "ends and starts": np.array([keys, keys - 1, 0, 1], np.int32),
        "keys": _ones(BATCH, keys, zeros=[(1, 0), (1, 3)]),
        "queries and keys": _ones(BATCH, LENGTH, keys, zeros=[(0, 1, 2), (1, 4, 0)]),
    }


def _projected(numbers, dtype):
    weights = numbers.floats(12, 3 * HIDDEN, dtype=dtype, scale=0.3)
    return [numbers.floats(BATCH, LENGTH, 12, dtype=dtype), weights]


@FLOATS
@CAUSAL
@pytest.mark.parametrize("past", [0, PAST])
@pytest.mark.parametrize("mask", _masks(LENGTH))
def test_attention_agrees_with_any_mask_and_after_cached_keys(past, mask, unidirectional, dtype):
    numbers = Numbers()
    inputs = [*_projected(numbers, dtype), numbers.floats(3 * HIDDEN, dtype=dtype)]
    inputs.append(_masks(LENGTH + past)[mask])
    inputs += [numbers.floats(2, BATCH, HEADS, past, SIZE, dtype=dtype)] if past else []
    outputs = [dtype, dtype] if past else [dtype]
    agrees("Attention", inputs, outputs, num_heads=HEADS, unidirectional=unidirectional)


@FLOATS
@pytest.mark.parametrize("shape", [(BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)], ids=str)
def test_attention_adds_a_bias_to_the_scores(shape, dtype):
    numbers = Numbers()
    bias = numbers.floats(*shape, LENGTH, LENGTH, dtype=dtype)
    inputs = [*_projected(numbers, dtype), None, _masks(LENGTH)["keys"], None, bias]
    agrees("Attention", inputs, num_heads=HEADS, scale=0.2, mask_filter_value=-5.0)


def test_values_may_be_of_another_size_than_keys():
    numbers = Numbers()
    x, weights = numbers.floats(BATCH, LENGTH, 12), numbers.floats(12, 80, scale=0.3)
    agrees("Attention", [x, weights], num_heads=HEADS, qkv_hidden_sizes=[32, 32, 16])


def test_a_mask_of_the_longest_sequence_is_read_where_the_queries_are():
    # ONNX Runtime has no kernel of it for processors
    numbers = Numbers()
    longest = numbers.ints(2, BATCH, 1, 8, 8)
    longest[..., 0] = 1
    past = numbers.floats(2, BATCH, HEADS, PAST - 1, SIZE)
    inputs = [*_projected(numbers, FLOAT), None]
    outcomes = []
    keys = LENGTH + PAST - 1
    for mask in (longest, longest[:, 0, PAST - 1 : keys, :keys].copy()):
        given_ = [*inputs, mask, past]
        model = node_model("Attention", given_, [FLOAT, FLOAT], domain=DOMAIN, num_heads=HEADS)
        feeds = {f"x{place}": x for place, x in enumerate(given_) if x is not None}
        outcomes.append(compile_model(model).run(feeds))
    np.testing.assert_array_equal(outcomes[0][0], outcomes[1][0])


# -- with heads apart ------------------------------------------------------------------------------


@FLOATS
@CAUSAL
@pytest.mark.parametrize("form", ["plain", "bias", "past", "past and mask"])
def test_heads_apart_attend_to_themselves(form, unidirectional, dtype):
    numbers = Numbers()
    inputs: list[Any] = [numbers.floats(BATCH, LENGTH, HIDDEN, dtype=dtype) for _ in range(3)]
    past = [numbers.floats(BATCH, HEADS, PAST, SIZE, dtype=dtype) for _ in range(2)]
    more: dict[str, list[Any]] = {
        "plain": [],
        "bias": [numbers.floats(3 * HIDDEN, dtype=dtype)],
        "past": [numbers.floats(3 * HIDDEN, dtype=dtype), None, None, *past],
        "past and mask": [
            None,
            _masks(LENGTH + PAST)["keys"],
            numbers.floats(1, 1, LENGTH, LENGTH + PAST, dtype=dtype),
            *past,
        ],
    }
    outputs = [dtype] * (3 if unidirectional else 4)
    words = {"num_heads": HEADS, "unidirectional": unidirectional}
    agrees("MultiHeadAttention", [*inputs, *more[form]], outputs, **words)


@FLOATS
@pytest.mark.parametrize("mask", ["none", "ends", "keys", "queries and keys"])
def test_heads_apart_attend_to_others(mask, dtype):
    numbers, keys = Numbers(), 7
    inputs = [numbers.floats(BATCH, LENGTH, HIDDEN, dtype=dtype)]
    inputs += [numbers.floats(BATCH, keys, HIDDEN, dtype=dtype) for _ in range(2)]
    agrees("MultiHeadAttention", [*inputs, None, _masks(keys)[mask]], num_heads=HEADS, scale=0.3)


@pytest.mark.parametrize("has_bias", [False, True])
def test_heads_of_keys_may_be_split_before(*, has_bias):
    numbers = Numbers()
    inputs: list[Any] = [numbers.floats(BATCH, LENGTH, HIDDEN)]
    inputs += [numbers.floats(BATCH, HEADS, 7, SIZE) for _ in range(2)]
    inputs.append(numbers.floats(3 * HIDDEN) if has_bias else None)
    agrees("MultiHeadAttention", inputs, num_heads=HEADS)


def test_packed_forms_are_what_they_pack():
    # ONNX Runtime has no kernel of them for processors
    numbers = Numbers()
    q, k, v = (numbers.floats(BATCH, LENGTH, HEADS, SIZE) for _ in range(3))
    flat = [x.reshape(BATCH, LENGTH, HIDDEN) for x in (q, k, v)]
    lengths = _masks(LENGTH)["ends"]
    assert lengths is not None
    offsets = np.zeros(2 * BATCH + 2, np.int32)
    forms: list[list[Any]] = [
        [*flat, None, lengths],
        [np.stack((q, k, v), 3), None, None, None, lengths],
        [flat[0], np.stack((k, v), 3), None, None, lengths],
        [*flat, None, np.concatenate((lengths, offsets))],
    ]
    outcomes = []
    for form in forms:
        model = node_model("MultiHeadAttention", form, [FLOAT], domain=DOMAIN, num_heads=HEADS)
        feeds = {f"x{place}": x for place, x in enumerate(form) if x is not None}
        outcomes.append(compile_model(model).run(feeds)[0])
    for outcome in outcomes[1:]:
        np.testing.assert_array_equal(outcome, outcomes[0])


def test_keys_that_are_handed_on_are_not_written_over():
    text = """
    g (float[1, 3, 4] q, float[1, 3, 4] x)
        => (float[1, 3, 4] y, float[1, 2, 3, 2] kept, float[1, 3, 4] z) {
      k = Relu(x)
      y, kept, kept_v = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, k)
      z = Exp(k)
    }"""
    model = parsed(text, 21, '"com.microsoft" : 1')
    numbers = Numbers()
    feeds = {"q": numbers.floats(1, 3, 4), "x": numbers.floats(1, 3, 4)}
    _, kept, z = compile_model(model).run(feeds)
    k = np.maximum(feeds["x"], 0)
    np.testing.assert_array_equal(kept, k.reshape(1, 3, 2, 2).swapaxes(1, 2))
    np.testing.assert_array_equal(z, np.exp(k))


# -- rotary positions ------------------------------------------------------------------------------


@FLOATS
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("has_heads", [False, True])
@pytest.mark.parametrize("pairs", [SIZE // 2, SIZE // 4])
@pytest.mark.parametrize("is_offset", [False, True])
def test_positions_rotate(*, interleaved, has_heads, pairs, is_offset, dtype):
    numbers = Numbers()
    shape = (BATCH, HEADS, LENGTH, SIZE) if has_heads else (BATCH, LENGTH, HIDDEN)
    position = np.array([3]) if is_offset else numbers.ints(20, BATCH, LENGTH, dtype=np.int64)
    tables = [numbers.floats(20, pairs, dtype=dtype) for _ in range(2)]
    is_part = {"rotary_embedding_dim": 2 * pairs, "num_heads": HEADS} if pairs < SIZE // 2 else {}
    inputs = [numbers.floats(*shape, dtype=dtype), position, *tables]
    agrees("RotaryEmbedding", inputs, interleaved=interleaved, **is_part)


# -- shared keys -----------------------------------------------------------------------------------


def _query(  # noqa: PLR0913 (what cases differ in)
    dtype,
    *,
    length=3,
    past=0,
    capacity=None,
    lengths=None,
    packed=False,
    pairs=8,
    groups=2,
    position=None,
    bias=None,
    sink=False,
    batch=BATCH,
):
    """Return the inputs of ``GroupQueryAttention`` with heads of 16."""
    numbers, size, total = Numbers(), 16, past + length
    q, k, v = (
        numbers.floats(batch, length, n * size, dtype=dtype) for n in (HEADS, groups, groups)
    )
    inputs: list[Any] = [np.concatenate((q, k, v), -1), None, None] if packed else [q, k, v]
    cache: list[Any] = [None, None]
    if past:
        cache = [
            numbers.floats(batch, groups, capacity or past, size, dtype=dtype) for _ in range(2)
        ]
    ends = np.array(lengths or [total] * batch, np.int32) - 1
    angles = np.arange(32)[:, None] / 10000 ** (np.arange(pairs) / pairs)
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    return [
        *inputs, *cache, ends, np.array([total], np.int32), *tables, position,
        None if bias is None else numbers.floats(*bias, total, dtype=dtype),
        numbers.floats(HEADS, dtype=dtype) if sink else None,
    ]  # fmt: skip


SITUATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "prompt": ({}, {}),
    "packed": ({"packed": True}, {}),
    "packed, next": ({"packed": True, "length": 1, "past": 4}, {}),
    "next": ({"length": 1, "past": 4}, {}),
    "next, one buffer": ({"length": 1, "past": 4, "capacity": 8}, {}),
    "next, ragged": ({"length": 1, "past": 4, "capacity": 8, "lengths": [5, 3]}, {}),
    "several next": ({"length": 3, "past": 4, "capacity": 8, "batch": 1}, {}),
    "neighbours are pairs": ({}, {"rotary_interleaved": 1}),
    "no rotation": ({}, {"do_rotary": 0}),
    "softcap": ({}, {"softcap": 0.7}),
    "scale": ({}, {"scale": 0.3}),
    "smooth": ({}, {"smooth_softmax": 1}),
    "sink": ({"sink": True}, {}),
    "sink, next": ({"sink": True, "length": 1, "past": 4}, {}),
    "window of 1": ({"length": 6}, {"local_window_size": 1}),
    "window of 3": ({"length": 6}, {"local_window_size": 3}),
    "window of 3, next": ({"length": 1, "past": 5, "capacity": 8}, {"local_window_size": 3}),
    "bias of all": ({"bias": (1, 1, 3)}, {}),
    "bias of each": ({"bias": (2, 4, 3)}, {}),
    "bias, next": ({"bias": (2, 4, 1), "length": 1, "past": 5}, {}),
    "both ways": ({}, {"causal": 0}),
    "positions of a prompt": ({"position": np.array([[2, 3, 4], [2, 3, 4]])}, {}),
    "positions, next": ({"length": 1, "past": 4, "position": np.array([[2], [3]])}, {}),
    "as many heads": ({"groups": 4}, {}),
    "one head": ({"groups": 1}, {}),
}


@FLOATS
@pytest.mark.parametrize("name", SITUATIONS)
def test_heads_share_keys(name, dtype):
    makes, attributes = SITUATIONS[name]
    more = {"do_rotary": 1, "num_heads": HEADS, "kv_num_heads": makes.get("groups", 2)}
    agrees("GroupQueryAttention", _query(dtype, **makes), [dtype] * 3, **(more | attributes))


@pytest.mark.parametrize("shown", [1, 2])
@pytest.mark.parametrize("name", ["prompt", "next, ragged", "softcap", "bias of each"])
def test_scores_and_weights_are_shown(shown, name):
    makes, attributes = SITUATIONS[name]
    more = {"num_heads": HEADS, "kv_num_heads": 2, "do_rotary": 1, "qk_output": shown}
    agrees("GroupQueryAttention", _query(FLOAT, **makes), [FLOAT] * 4, **(more | attributes))


@settings(max_examples=20, deadline=None)
@given(past=st.integers(1, 6), spare=st.integers(1, 4), ends=st.data())
def test_a_cache_may_hold_sequences_of_any_lengths(past, spare, ends):
    lengths = [past + 1, ends.draw(st.integers(1, past + 1))]
    inputs = _query(FLOAT, length=1, past=past, capacity=past + spare, lengths=lengths)
    more = {"num_heads": HEADS, "kv_num_heads": 2, "do_rotary": 1}
    agrees("GroupQueryAttention", inputs, [FLOAT] * 3, **more)


@pytest.mark.parametrize(("attributes", "inputs", "told"), [
    ({"k_quant_type": "PER_TENSOR"}, 7, "only k_quant_type=NONE"),
    ({"sliding_window_cache": 1}, 7, "only sliding_window_cache=0"),
    ({"causal": 0, "local_window_size": 2}, 7, "local_window_size, which needs causal=1"),
    ({}, 15, r"its input 14 \('x14'\): nothing implements it"),
])  # fmt: skip
def test_caches_that_nothing_implements_are_refused(attributes, inputs, told):
    given_ = (_query(FLOAT) + [None] * 5)[:inputs]
    if inputs > 7:
        given_[-1] = np.ones(16, np.float32)
    more: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": 2, "domain": DOMAIN}
    model = node_model("GroupQueryAttention", given_, [FLOAT] * 3, **(more | attributes))
    with pytest.raises(Unsupported, match=told):
        compile_model(model)
