"""No model, however it is made, gets more than the limits allow."""

import json
import sys
from collections.abc import Mapping
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.errors import ConfigError, InputError, ModelError, UnsupportedModelError
from subgraphkit.types import TensorType
from tests.house.tree import ROOT
from tests.models import parsed
from tests.scripts import run_child
from tests.unit.binding.hostile_models import AT_BIND, AT_THE_STEP, model

_OTHERWISE = {
    "a long input": "SGK214",
    "a weighted window of channels": "SGK218",
    "many random numbers": "SGK218",
    "parts beyond count": "SGK218",
}
"""What breaks a rule of ONNX besides, by the code of that."""

_MOST_MIB = 200
_MOST_BYTES = 1 << 20


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, tuple[str, int]]:
    """Open and run all hostile models in one process: the code of each, and its memory."""
    done = run_child([sys.executable, "-m", "tests.unit.binding.hostile_models"], cwd=ROOT)
    return {name: (code, mebibytes) for name, code, mebibytes in json.loads(done.stdout)}


@pytest.mark.parametrize("name", AT_BIND)
def test_a_model_that_asks_for_too_much_is_refused_before_it_gets_it(
    outcomes: Mapping[str, tuple[str, int]], name: str
) -> None:
    code, mebibytes = outcomes[name]
    assert code == _OTHERWISE.get(name, "SGK216")
    assert mebibytes < _MOST_MIB


@pytest.mark.parametrize("name", AT_THE_STEP)
def test_a_step_that_would_make_too_much_is_refused_before_it_does(
    outcomes: Mapping[str, tuple[str, int]], name: str
) -> None:
    code, mebibytes = outcomes[f"{name}, at the step"]
    assert code == "SGK217"
    assert mebibytes < _MOST_MIB


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "openvino", "onednn"])
def test_a_value_that_feeds_make_too_large_is_refused_whoever_computes_it(backend: str) -> None:
    model = parsed("g (float[N, 1] a, float[1, M] b) => (float[N, M] y) { y = Add(a, b) }")
    s = sk.InferenceSession(model, backend, limits={"max_value_bytes": 40_000}, on_fallback="ok")
    assert s.run(None, {"a": _ones(100, 1), "b": _ones(1, 100)})[0].shape == (100, 100)
    told = r"value 'y' of node #0 Add would be float32\[100,101\]"
    with pytest.raises(InputError, match=told) as refusal:
        s.run(None, {"a": _ones(100, 1), "b": _ones(1, 101)})
    assert refusal.value.code == "SGK217"
    assert s.run(None, {"a": _ones(0, 1), "b": _ones(1, 101)})[0].shape == (0, 101)
    unlimited = sk.InferenceSession(model, backend, limits="unlimited", on_fallback="ok")
    assert unlimited.run(None, {"a": _ones(100, 1), "b": _ones(1, 101)})[0].size == 10_100


_SIZES = st.lists(st.sampled_from([1, 2, 3, 40, 1000, 10**6, 2**31]), min_size=1, max_size=3)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["Expand", "Tile", "Add", "Concat", "Pad", "Gather"]), _SIZES),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(steps=_STEPS)
def test_no_value_larger_than_the_limit_gets_past_bind(steps: list[tuple[str, list[int]]]) -> None:
    nodes, stored = [], []
    for index, (op_type, sizes) in enumerate(steps):
        read, made = f"v{index}", "y" if index == len(steps) - 1 else f"v{index + 1}"
        second = read if op_type in {"Add", "Concat"} else f"s{index}"
        call = "Concat<axis = 0>" if op_type == "Concat" else op_type
        nodes.append(f"{made} = {call}({read}, {second})")
        given = [min(size, 2) for size in sizes] if op_type == "Gather" else sizes
        given = given * 2 if op_type == "Pad" else given
        stored.append(f"int64[{len(given)}] s{index} = {{{', '.join(map(str, given))}}}")
    shape = steps[0][1]
    first = f"float[{', '.join(map(str, shape))}] v0"
    made = model(" ".join(nodes), first, ", ".join(stored))
    try:
        bound = sk.bind(sk.load(made), backend="none", limits={"max_value_bytes": _MOST_BYTES})
    except ModelError:
        return
    types = [one for one in bound.types.values() if isinstance(one, TensorType)]
    assert types[0].shape is not None
    sizes = [one.nbytes for one in types if one.nbytes is not None]
    assert max(sizes) <= _MOST_BYTES
    assert prod(shape) * 4 <= _MOST_BYTES


def test_limits_are_given_like_other_settings_and_nothing_is_refused_without() -> None:
    diamond = parsed("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(x) y = Add(a, b) }")
    few = sk.LoadLimits(max_nodes=2)
    for call in (
        lambda: sk.load(diamond, limits="max_nodes=2"),
        lambda: sk.bind(sk.load(diamond), backend="none", limits=few),
        lambda: sk.InferenceSession(diamond, "numpy", limits={"max_nodes": 2}),
    ):
        with pytest.raises(UnsupportedModelError, match=r"has 3 nodes; the limit is 2 \(max_nodes"):
            call()
    with sk.config(limits=few):
        with pytest.raises(UnsupportedModelError):
            sk.bind(sk.load(diamond), backend="none")
        assert sk.bind(sk.load(diamond), backend="none", limits="unlimited").settings.limits == (
            sk.LoadLimits.unlimited()
        )
    with pytest.raises(ConfigError, match="limit max_nodes=-1 is not a whole number"):
        sk.LoadLimits(max_nodes=-1)
    with pytest.raises(ConfigError, match="'max_node=3' is not 'unlimited', or limits with num"):
        sk.config.resolve(limits="max_node=3")


def test_weights_that_a_model_really_holds_are_not_computed() -> None:
    text = (
        "g (float[300] x) => (y) <float[300, 300] w = {"
        + ", ".join(["1.0"] * 90_000)
        + "}> { t = Transpose(w) c = Concat<axis=0>(t, t) y = MatMul(c, x) }"
    )
    few = {"max_elements": 1000}
    assert sk.bind(sk.load(parsed(text)), backend="numpy", limits=few).order
    text = text.replace("Concat<axis=0>(t, t)", "Concat<axis=0>(t, t, t)")
    with pytest.raises(UnsupportedModelError, match="value 'c', known at bind, has 270,000 elem"):
        sk.bind(sk.load(parsed(text)), backend="numpy", limits=few)
