"""Comparing one node with two independent implementations: onnx.reference and ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from packaging.version import Version

from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend.tolerances import EXACT, Tolerance
from subgraphkit.comparing import first_difference

F32 = np.dtype(np.float32)
I64 = np.dtype(np.int64)
RNG = np.random.default_rng(7)


def onnxruntime_from(version: str, fault: str) -> pytest.MarkDecorator:
    """Skip where the installed ONNX Runtime is older than a version, and has a fault."""
    return pytest.mark.skipif(
        Version(onnxruntime.__version__) < Version(version),
        reason=f"ONNX Runtime {onnxruntime.__version__} {fault}",
    )


def floats(*shape: int) -> np.ndarray[Any, Any]:
    """Return float32 numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


def run_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Run a model on ONNX Runtime, one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


def compare(expected: list[Any], actual: list[Any], rtol: float = 1e-5) -> None:
    """Compare shapes, types and numbers, these by the largest of them."""
    for want, have in zip(expected, actual, strict=True):
        floats = want.dtype.kind == "f"
        tight = Tolerance(rtol, rtol, rtol) if floats else EXACT
        found = first_difference(have, want, lambda _, tight=tight: tight)
        assert found is None, found


def check(
    op_type: str,
    inputs: list[Any],
    outputs: list[Any],
    *,
    reference: bool = False,
    rtol: float = 1e-5,
    shapes: tuple[bool, ...] = (True, False),
    **more: Any,
) -> None:
    """Compare a node, with constants and without, with shapes known and not.

    ``inputs``: Arrays, None for an input left out.
    """
    candidates = [place for place, value in enumerate(inputs) if place and value is not None]
    for constants in {(), tuple(candidates)}:
        for typed in shapes:
            model = node_model(op_type, inputs, outputs, constants=constants, typed=typed, **more)
            feeds = {
                f"x{place}": value
                for place, value in enumerate(inputs)
                if value is not None and place not in constants
            }
            runner = ReferenceEvaluator(model).run if reference else None
            expected = runner(None, feeds) if runner else run_onnxruntime(model, feeds)
            compare(expected, compile_model(model).run(feeds), rtol)
