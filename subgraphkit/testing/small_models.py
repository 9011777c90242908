"""Small models in onnx's text form, with something to feed and what they must compute."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import compose, parser

from subgraphkit.testing.variants import without_foreign

ROWS: Final = 4
"""Size of an axis that has none in the model, in what is fed."""

_HEADER: Final = '<ir_version: 10, opset_import: ["" : 17]>'
POSITIVE: Final = "var"
"""How the name of a weight or an input begins that must not be negative."""

_FILE: Final = Path(__file__).with_name("graphs.txt")
_GRAPH: Final = re.compile(r"^(\w+) (.*(?:\n .*)*)", re.MULTILINE)
_Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class SmallModel:
    """A model, with what is fed to its inputs."""

    proto: onnx.ModelProto

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.proto.graph.name)

    def feeds(self, seed: int = 0) -> Mapping[str, _Array]:
        """Return an array for every input that has no default; another seed gives others."""
        stored = {tensor.name for tensor in self.proto.graph.initializer}
        rng = np.random.default_rng(seed)
        fed = [value for value in self.proto.graph.input if value.name not in stored]
        return {value.name: _drawn(value, rng, 1.0) for value in fed}

    def expected(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what onnx's own implementation computes, foreign nodes being ``Identity``."""
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (few compare)

        return list(ReferenceEvaluator(without_foreign(self.proto)).run(None, dict(feeds)))


def graphs_of(section: str) -> dict[str, str]:
    """Return the graphs of a section of ``graphs.txt``, by name; the text is what is behind it."""
    _, _, rest = _FILE.read_text(encoding="utf-8").partition(f"[{section}]\n")
    graphs = _GRAPH.findall(rest.partition("\n[")[0])
    return {name: " ".join(text.split()) for name, text in graphs}


def model_of(text: str, header: str = _HEADER) -> onnx.ModelProto:
    """Read a model in onnx's text form.

    Args:
        text: The graph. Values that are declared and made by no node become initializers with
            numbers drawn, unless they have some.
        header: Versions of the format and of the operator sets.
    """
    model = parser.parse_model(f"{header} {text}")
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    rng = np.random.default_rng(5)
    for value in [value for value in graph.value_info if value.name not in made]:
        weights = onnx.numpy_helper.from_array(_drawn(value, rng, 0.25), value.name)
        graph.initializer.append(weights)
        graph.value_info.remove(value)
    return model


def side_by_side(models: Iterable[onnx.ModelProto], name: str) -> onnx.ModelProto:
    """Return a model in which models have nothing to do with one another.

    Args:
        models: They have operator sets in common; names of the first begin with ``0:``.
        name: What the graph is called.
    """
    whole, *others = [compose.add_prefix(one, f"{place}:") for place, one in enumerate(models)]
    for other in others:
        whole.graph.MergeFrom(other.graph)
    whole.graph.name = name
    return whole


def _drawn(value: onnx.ValueInfoProto, rng: np.random.Generator, scale: float) -> _Array:
    """Draw numbers around 0, spread over the values of a type."""
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [ROWS if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
    drawn = np.asarray(rng.standard_normal(shape))
    if dtype.hasobject:
        return np.array([f"text {number:.2f}" for number in drawn.flat], object).reshape(shape)
    if dtype.kind == "b":
        return np.asarray(drawn > 0)
    if value.name.startswith(POSITIVE):
        drawn = abs(drawn) + 1
    elif dtype.kind in "iu":
        drawn = (abs(drawn) if dtype.kind == "u" else drawn) * 4
    else:
        drawn = drawn * scale
    return np.asarray(drawn.astype(dtype))
