"""Nine real network architectures, with weights that make them worth running.

The onnx wheel carries the graphs of nine networks for its own backend tests. To keep them small,
most of their weights are ``ConstantOfShape`` nodes of 0.02, so a network answers the same on any
input. ``seeded_model`` puts random weights of the right shapes in their place. Their scale keeps
values from vanishing and overflowing on their way through the network.

The kit, the tests, the examples and the benchmarks share this module.

Source: He et al., "Delving Deep into Rectifiers", 2015, for the scale of the weights.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

LIGHT_MODELS: Final = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip

REFERENCE_OPSET: Final = 15
"""Version of the operator set in which ``onnx.reference`` computes the networks rightly."""

_IR_VERSION: Final = 8  # from 4 on a weight need not be listed among the inputs
_BRANCH_SCALE: Final = 0.5
_SPREAD: Final = 0.1
_TILE: Final = 32
_NOISE: Final = np.float32(0.5)

# The sums of shufflenet grow thirtyfold; unscaled, its last weight would give one class everything.
_LAST_GAINS: Final = {"shufflenet": 0.05}

_Floats = npt.NDArray[np.float32]


def light_model_path(name: str) -> Path:
    """Return the file of a network of onnx; ValueError, FileNotFoundError if none is here."""
    if name not in LIGHT_MODELS:
        raise ValueError(f"no network {name!r}; there are {', '.join(LIGHT_MODELS)}")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    path = folder / f"light_{name}.onnx"
    if not path.is_file():
        raise FileNotFoundError(f"onnx {onnx.__version__} comes without {path.name}")
    return path


def seeded_model(name: str, seed: int = 0, *, opset: int | None = None) -> onnx.ModelProto:
    """Return a network with random weights in the place of its constants, as ``light_model_path``.

    Weights of Conv and Gemm are drawn from N(0, sqrt(2 / fan in)). Scales of normalisations are
    around 1, or around 0.5 where a residual branch ends, or the sum would grow. Variances are
    around 1, means and biases around 0. The same name and seed give the same weights everywhere.
    """
    model = onnx.load(light_model_path(name))
    filler = _Filler(model.graph, np.random.default_rng(seed), _LAST_GAINS.get(name, 1))
    weights = dict(filler.weights())
    if opset is not None:
        # Small as it is: the converter takes half a minute over the weights of the largest one.
        model = version_converter.convert_version(model, opset)
    graph = model.graph
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {value for node in nodes for value in node.input}
    kept = [t for t in graph.initializer if t.name in read and t.name not in weights]
    stored = {tensor.name for tensor in graph.initializer}
    pictures = [value for value in graph.input if value.name not in stored]
    for field, entries in (("node", nodes), ("initializer", kept), ("input", pictures)):
        graph.ClearField(field)
        getattr(graph, field).extend(entries)
    for value in list(weights):  # each is let go once it is written: they are half a gigabyte
        array = weights.pop(value)
        added = graph.initializer.add(name=value, data_type=onnx.TensorProto.FLOAT)
        added.dims.extend(array.shape)
        added.raw_data = array.tobytes()
    model.ir_version = _IR_VERSION
    return model


def reference_evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    """Return ``onnx.reference`` for a model, two faults of onnx 1.23 avoided.

    It computes BatchNormalization of operator set 9 as in training, so it wants a network made with
    ``opset=REFERENCE_OPSET``. And it sums LRN over the first channels only, so it is given ``LRN``.
    """
    return ReferenceEvaluator(model, new_ops=[LRN])


class LRN(OpRun):
    """Local response normalisation by the formula of the ONNX specification."""

    op_domain = ""

    def _run(self, x: _Floats, alpha: float, beta: float, bias: float, size: int) -> tuple[_Floats]:
        before = (size - 1) // 2
        padded = np.pad(x**2, ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
        channels = x.shape[1]
        total = sum(padded[:, at : at + channels] for at in range(size))
        return ((x / (bias + alpha / size * total) ** beta).astype(x.dtype),)


def seeded_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, _Floats]:
    """Return a picture of coloured, noisy tiles for each input of a model by ``seeded_model``.

    Plain noise would look the same to a network once it is averaged over the picture.
    """
    rng = np.random.default_rng(seed)
    return {value.name: _picture(value, rng) for value in model.graph.input}


def _picture(value: onnx.ValueInfoProto, rng: np.random.Generator) -> _Floats:
    batch, channels, height, width = (d.dim_value for d in value.type.tensor_type.shape.dim)
    rows, columns = -(-height // _TILE), -(-width // _TILE)
    tiles = rng.standard_normal((batch, channels, rows, columns), np.float32)
    tiles = tiles.repeat(_TILE, axis=2).repeat(_TILE, axis=3)[:, :, :height, :width]
    return tiles + _NOISE * rng.standard_normal(tiles.shape, np.float32)


class _Filler:
    """Draws weights for one graph."""

    def __init__(self, graph: onnx.GraphProto, rng: np.random.Generator, last_gain: float) -> None:
        self._stored: Mapping[str, onnx.TensorProto] = {t.name: t for t in graph.initializer}
        self._graph = graph
        self._rng = rng
        self._last_gain = last_gain
        self._readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
        for node in graph.node:
            for place, value in enumerate(node.input):
                self._readers.setdefault(value, []).append((node, place))

    def weights(self) -> Iterator[tuple[str, _Floats]]:
        for node in self._graph.node:
            if node.op_type == "ConstantOfShape":
                shape = numpy_helper.to_array(self._stored[node.input[0]]).tolist()
                yield node.output[0], self._draw(node.output[0], shape)
        for name, tensor in self._stored.items():
            if tensor.data_type == onnx.TensorProto.FLOAT and name in self._readers:
                yield name, self._draw(name, list(tensor.dims))

    def _draw(self, value: str, shape: list[int]) -> _Floats:
        node, place = self._reader(value)
        noise = self._rng.standard_normal(shape, np.float32)
        role = (node.op_type, place)
        if role == ("Conv", 1):
            noise *= np.float32(math.sqrt(2 / math.prod(shape[1:])))
            return noise
        if role == ("Gemm", 1):
            noise *= np.float32(self._last_gain * math.sqrt(2 / _fan_in(node, shape)))
            return noise
        if role in {("BatchNormalization", 4), ("Mul", 1)}:
            return 1 + np.float32(_SPREAD) * np.clip(noise, -3, 3)
        if role == ("BatchNormalization", 1):
            is_last = any(one.op_type == "Sum" for one, _ in self._readers[node.output[0]])
            around = _BRANCH_SCALE if is_last else 1
            return np.float32(around) * (1 + np.float32(_SPREAD) * np.clip(noise, -3, 3))
        return noise * np.float32(_SPREAD)

    def _reader(self, value: str) -> tuple[onnx.NodeProto, int]:
        """Return the node that computes with a weight, past those that only give it a shape."""
        node, place = self._readers[value][0]
        while node.op_type in {"Reshape", "Unsqueeze"}:
            node, place = self._readers[node.output[0]][0]
        return node, place


def _fan_in(gemm: onnx.NodeProto, shape: list[int]) -> int:
    is_turned = any(one.name == "transB" and one.i for one in gemm.attribute)
    return shape[-1 if is_turned else -2]
