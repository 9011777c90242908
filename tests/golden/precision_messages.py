"""What is said about rewriting in another precision, each error raised for real."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import subgraphkit as sk
from subgraphkit.precision import (
    Precision,
    Range,
    Ranges,
    calibrate,
    measure_accuracy,
    precision_search,
    rewrite,
)
from tests.models import CHAIN, parsed

ONES = ", ".join(["1"] * 256)
PRODUCT = f"""g (float[N,16] x) => (float[N,16] y) <float[16,16] w = {{{ONES}}}>
{{ y = MatMul(x, w) }}"""
UNSIGNED = """g (float[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {3}>
{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"""


def _damaged() -> Any:
    Path("old.cache").write_text("TRT-8601-EntropyCalibration2\nconv1 3c008912\n")
    return Ranges.load("old.cache")


def _inaccurate() -> None:
    batches = [{"x": np.ones((1, 4), np.float32)}]
    negated = CHAIN.replace("Relu(b)", "Neg(b)")
    measure_accuracy(parsed(CHAIN), parsed(negated), batches).check(0.25)


def _overflown() -> None:
    batches = [{"x": np.full((1, 4), 300, np.float32)}]
    model = parsed("g (float[N,4] x) => (float[N,4] y) { a = Mul(x, x) y = Neg(a) }")
    measure_accuracy(model, rewrite(model, "fp16").model, batches).check(min_snr=40)


def _unreached() -> None:
    batches = [{"x": np.full((1, 4), 0.1, np.float32)}]
    model = parsed("g (float[N,4] x) => (float[N,4] y) { a = Exp(x) y = Neg(a) }")
    precision_search(model, Precision("fp16"), batches, max_error=0.0)


MESSAGES: dict[str, Callable[[], Any]] = {
    "SGK230_no_range": lambda: rewrite(
        parsed(PRODUCT), "int8", Ranges({"other": Range(1.0, "minmax")})
    ),
    "SGK231_no_ranges": lambda: rewrite(parsed(PRODUCT), "int8"),
    "SGK231_unknown": lambda: rewrite(parsed(PRODUCT), "fp4"),
    "SGK232_other_model": lambda: Ranges({}, "0" * 64).check_model(sk.load(parsed(CHAIN))),
    "SGK233_damaged_cache": _damaged,
    "SGK233_no_file": lambda: Ranges.load("nope.json"),
    "SGK234_nan": lambda: calibrate(parsed(CHAIN), [{"x": np.full((1, 4), np.nan, np.float32)}]),
    "SGK234_nothing": lambda: calibrate(parsed(CHAIN), []),
    "SGK235_asymmetric": lambda: rewrite(parsed(UNSIGNED), "int8"),
    "SGK236_inaccurate": _inaccurate,
    "SGK236_not_finite": _overflown,
    "SGK237_unreached": _unreached,
}
