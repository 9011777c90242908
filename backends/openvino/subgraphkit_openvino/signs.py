"""Products and differences written so that OpenVINO's processor plugin keeps the sign of zero.

Where sizes are open, the plugin computes a product with one constant as ``x * c + 0``, and takes
negations, differences and quotients for such products, so that -0 times 2 is 0. What is marked as
a step by which quantised numbers are read stays as it is; of models with such steps nothing is
marked, since the plugin would do more with them.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit_openvino import library

__all__ = ["keep_signs"]

_KINDS: Final = frozenset({"Divide", "Multiply", "Negative", "Subtract"})
_QUANTISED: Final = "FakeQuantize"
_MARK: Final = "dequantization_node_0"


def keep_signs(model: Any, folder: Path | None) -> None:
    """Mark the products and differences of a model that may lose the sign of zero.

    Args:
        model: The ``openvino.Model``; changed in place.
        folder: Where the answer is kept whether this version needs it; None for this process alone.
    """
    ops = model.get_ops()
    suspects = [op for op in ops if op.get_type_name() in _KINDS and _is_open_and_real(op)]
    if not suspects or any(op.get_type_name() == _QUANTISED for op in ops):
        return
    if library.is_needed("sign", _loses_signs, folder):
        for op in suspects:
            _mark(op)


def _is_open_and_real(op: Any) -> bool:
    port = op.output(0)
    return bool(port.get_partial_shape().is_dynamic and port.get_element_type().is_real())


def _mark(op: Any) -> None:
    if op.get_type_name() == "Negative":
        op = _difference(op)
    op.get_rt_info()[_MARK] = ""


def _difference(op: Any) -> Any:
    """Write a negation as the difference of -0 and what is negated."""
    ops = library.runtime().opset13
    zero = ops.constant(np.array(-0.0), op.output(0).get_element_type())
    made = ops.subtract(zero, op.input_value(0))
    made.set_friendly_name(op.get_friendly_name())
    library.replace(op, made)
    return made


def _loses_signs() -> bool:
    openvino = library.runtime()
    x = openvino.opset13.parameter([-1], openvino.Type.f32)
    model = openvino.Model([openvino.opset13.negative(x)], [x])
    return not np.signbit(library.tried(model, np.zeros(1, np.float32))).all()
