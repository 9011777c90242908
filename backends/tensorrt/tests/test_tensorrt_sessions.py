"""Whole sessions on the double of TensorRT give what the NumPy backend gives."""

from typing import Any

import numpy as np
import pytest

from backends.tensorrt.tests.double_road import Tensor, X, on_numpy, parsed, session
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.errors import InputError
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import official_cases

CHAIN = parsed("""agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = Relu(x) b = Add(a, x) c = Neg(b) y = Mul(c, b) d = Abs(c) z = Exp(d) }""")

EVERY = 23
"""One official case in so many, so that they take seconds."""


def homes(opened: Any) -> list[str]:
    """Return the backends of the subgraphs."""
    return [one.backend for one in opened.partitioning.subgraphs]


def widened(value: Any) -> Any:
    """Return an array of a type that has NaNs NumPy takes for equal."""
    is_odd = str(getattr(value, "dtype", "")).startswith(("float8", "bfloat"))
    return value.astype(np.float32) if is_odd else value


def same(actual: list[Any], expected: list[Any]) -> None:
    """Compare outputs of any kind, to the last bit."""
    for one, other in zip(actual, expected, strict=True):
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_equal(widened(one), widened(other))


# What draws at random differs from run to run.
SAMPLE = [case for case in official_cases("node") if "Random" not in case.name][::EVERY]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_official_cases_agree(double: Double, case: Any) -> None:
    for inputs, _ in case.data_sets():
        feeds = case.feeds(inputs)
        expected = on_numpy(case.model, feeds)
        with session(case.model, double) as opened:
            for found, other in zip(opened.run(None, feeds), expected, strict=True):
                if np.issubdtype(np.asarray(other).dtype, np.floating):
                    # products are added up in another order where arrays lie differently
                    np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)
                else:
                    same([found], [other])


@pytest.mark.parametrize("name", ["squeezenet"])
@pytest.mark.parametrize("most", [None, 9], ids=["whole", "cut"])
def test_a_real_model_agrees(double: Double, name: str, most: int | None) -> None:
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    with session(model, double, most) as opened:
        assert homes(opened).count("tensorrt") >= (1 if most is None else 6)
        found = opened.run(None, feeds)
    np.testing.assert_allclose(found[0], on_numpy(model, feeds)[0], rtol=1e-4, atol=1e-6)


def test_checked_sessions_let_arrays_stay_on_the_device(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CHECKED", "1")
    x = np.ones((2, 3), np.float32)
    with session(CHAIN, double, 2) as opened:
        same(opened.run(None, {"x": x}), on_numpy(CHAIN, {"x": x}))


def test_an_input_may_lie_on_the_device(double: Double) -> None:
    with session(CHAIN, double) as opened:
        same(opened.run(None, {"x": Tensor(double, X)}), on_numpy(CHAIN, {"x": X}))
        for wrong, code in ((np.zeros((3, 2), np.float32), 140), (X.astype(np.int32), 141)):
            with pytest.raises(InputError, match=f"SGK{code}"):
                opened.run(None, {"x": Tensor(double, wrong)})
