"""Values that go to another process through a folder."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from subgraphkit.comparing.stored_values import restore_values, store_values
from subgraphkit.errors import CallerError


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2],
        np.array(2.5),
        np.zeros((0, 3), np.float16),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.array([1, -2], ml_dtypes.bfloat16),
        np.array([1, -2], ml_dtypes.int4),
        np.array([0.5], ml_dtypes.float8_e4m3fn),
        np.array([["a\0", "ü"], ["", "\n"]], object),
    ],
    ids=str,
)
def test_a_tensor_comes_back_as_it_was(tmp_path: Path, value: Any) -> None:
    store_values({"odd/name": value}, tmp_path / "stored")
    (back,) = restore_values(tmp_path / "stored").values()
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    assert back.tolist() == value.tolist()


def test_sequences_maps_and_nothing_come_back_too(tmp_path: Path) -> None:
    values = {"s": [np.arange(2), np.arange(3)], "e": [], "n": None, "m": [{7: np.ones(1)}]}
    store_values(values, tmp_path / "stored")
    back = restore_values(tmp_path / "stored")
    assert list(back) == list(values)
    assert [one.tolist() for one in back["s"]] == [[0, 1], [0, 1, 2]]
    assert (back["e"], back["n"]) == ([], None)
    assert back["m"][0][7].tolist() == [1.0]


def test_an_element_type_without_a_name_in_onnx_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="datetime64"):
        store_values({"x": np.zeros(1, "datetime64[s]")}, tmp_path / "stored")
