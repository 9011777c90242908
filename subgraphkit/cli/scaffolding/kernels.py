"""Operators for which a new backend can be given a kernel in NumPy, and a node to try it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

WIDTH: Final = 6
"""Size of every axis of the weights, and of the axes of an input that meet them."""

_ROW: Final = f"[{WIDTH}]"
_SQUARE: Final = f"[{WIDTH}, {WIDTH}]"


@dataclass(frozen=True, slots=True)
class OperatorKernel:
    """One operator in the package that is written.

    Attributes:
        entry: What the table of kernels has for it: a function of the node and of arrays.
        call: The node of a test, in the text form of ONNX, with ``{x}`` for what it reads.
        code: The definition of the function, where the entry is its name.
        weights: By name in ``call``, the shape of a weight.
        only: By attribute that the function leaves out of account, the one value it may have.
        rank: Rank of what it reads; 0 if any will do.
    """

    entry: str
    call: str
    code: str = ""
    weights: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, str | int] = field(default_factory=dict)
    rank: int = 0


def _of_one(operator: str, value: str) -> OperatorKernel:
    return OperatorKernel(f"lambda _, x: {value}", f"{operator}({{x}})")


def _of_two(operator: str, function: str) -> OperatorKernel:
    weight = f"{operator.lower()}_weight"
    call = f"{operator}({{x}}, {weight})"
    return OperatorKernel(f"lambda _, a, b: {function}", call, weights={weight: _ROW})


_CONV: Final = '''
def conv(node: sk.Node, x: Any, w: Any, b: Any = None) -> Any:
    """Look at the image through every place of the kernel, and multiply once a group."""
    rank, groups = w.ndim - 2, node.attribute("group", 1)
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    pads = node.attribute("pads", [0] * 2 * rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    reach = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    windows = sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    windows = windows[:, :, *(slice(None, None, step) for step in (*strides, *dilations))]
    summed = (1, *range(2 + rank, 2 + 2 * rank)), tuple(range(1, 2 + rank))
    parts = zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    y = np.concatenate([np.tensordot(some, by, summed) for some, by in parts], axis=-1)
    return np.moveaxis(y if b is None else y + b, -1, 1)
'''

_BATCH_NORMALIZATION: Final = '''
def batch_normalization(node: sk.Node, x: Any, *channels: Any) -> Any:
    """Move and scale every channel."""
    along = (-1, *[1] * (x.ndim - 2))  # the second axis of x
    scale, bias, mean, variance = (one.reshape(along) for one in channels)
    factor = scale / np.sqrt(variance + np.float32(node.attribute("epsilon", 1e-5)))
    return (x - mean) * factor + bias
'''

_GEMM: Final = '''
def gemm(node: sk.Node, a: Any, b: Any, c: Any = None) -> Any:
    """Multiply two matrices and add a third."""
    a = a.T if node.attribute("transA", 0) else a
    b = b.T if node.attribute("transB", 0) else b
    y = np.float32(node.attribute("alpha", 1.0)) * (a @ b)
    return y if c is None else y + np.float32(node.attribute("beta", 1.0)) * c
'''

KERNELS: Final[Mapping[str, OperatorKernel]] = MappingProxyType(
    {
        "Abs": _of_one("Abs", "np.abs(x)"),
        "Add": _of_two("Add", "a + b"),
        "BatchNormalization": OperatorKernel(
            "batch_normalization",
            "BatchNormalization({x}, scale, shift, mean, variance)",
            _BATCH_NORMALIZATION,
            dict.fromkeys(("scale", "shift", "mean", "variance"), _ROW),
            {"training_mode": 0},
        ),
        "Conv": OperatorKernel(
            "conv",
            "Conv <pads = [1, 1, 1, 1]> ({x}, filters, offsets)",
            _CONV,
            {"filters": f"[{WIDTH}, {WIDTH}, 3, 3]", "offsets": _ROW},
            {"auto_pad": "NOTSET"},
            rank=4,
        ),
        "Div": _of_two("Div", "a / b"),
        "Exp": _of_one("Exp", "np.exp(x)"),
        "Gemm": OperatorKernel(
            "gemm", "Gemm({x}, factors, added)", _GEMM, {"factors": _SQUARE, "added": _ROW}, rank=2
        ),
        "MatMul": OperatorKernel(
            "lambda _, a, b: a @ b", "MatMul({x}, matrix)", "", {"matrix": _SQUARE}
        ),
        "Mul": _of_two("Mul", "a * b"),
        "Neg": _of_one("Neg", "-x"),
        "Relu": _of_one("Relu", "np.maximum(x, np.float32(0))"),
        "Sigmoid": _of_one("Sigmoid", "1 / (1 + np.exp(-x))"),
        "Sqrt": _of_one("Sqrt", "np.sqrt(x)"),
        "Sub": _of_two("Sub", "a - b"),
        "Tanh": _of_one("Tanh", "np.tanh(x)"),
    }
)
"""By operator, what is known of it here."""
