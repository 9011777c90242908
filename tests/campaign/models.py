"""Models with something to feed them: from where they come, and as JSON."""

import base64
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from subgraphkit.storing.files import write_whole
from subgraphkit.testing import light_models
from subgraphkit.testing.official_cases import official_cases
from tests.campaign.trials import Case

SHIPPED: Final = (
    ("silero_vad", "silero_vad_16k_op15.onnx"),
    ("magika", "standard_v3_3/model.onnx"),
)
KEPT: Final = Path(__file__).resolve().parents[2] / "build" / "campaign"
"""Where the official cases are kept; git does not look there."""

_KINDS: Final = ("node", "simple", "pytorch-converted", "pytorch-operator")
_MOST_JUDGED: Final = 64 << 20
"""Bytes of results that are judged: to write them takes three times as many."""
_NO_TENSOR: Final = (AttributeError, NotImplementedError, TypeError, ValueError)
"""What is raised for an optional that is absent, and for a sequence of sequences."""


def case_of(model: bytes, feeds: Mapping[str, Any]) -> Case:
    """Write a model and what is fed as JSON; sequences are lists."""
    return {"model": _text(model), "feeds": {name: _fed(value) for name, value in feeds.items()}}


def model_of(case: Case) -> bytes:
    """Return the bytes of the model of a case."""
    return base64.b64decode(case["model"])


def feeds_of(case: Case) -> dict[str, Any]:
    """Return what is fed."""
    return {name: _value(one) for name, one in case["feeds"].items()}


def write_values(values: Sequence[Any]) -> str:
    """Write results as JSON; empty if they are too many to be judged."""
    if sum(value.nbytes for value in values if isinstance(value, np.ndarray)) > _MOST_JUDGED:
        return ""
    return json.dumps([_fed(value) for value in values])


def read_values(text: str) -> list[Any]:
    """Read results again."""
    return [_value(one) for one in json.loads(text)]


@lru_cache(maxsize=1)
def official() -> Sequence[Case]:
    """Return the official cases, computed once for each version of onnx: it takes half a minute."""
    path = KEPT / f"official-{onnx.__version__}.json"
    if not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps([*_official()]).encode())
    found: list[Case] = json.loads(path.read_text())
    return found


@lru_cache(maxsize=1)
def real() -> Sequence[Case]:
    """Return real networks that are quick to run: light ones and those that packages ship."""
    found = []
    for name in ("shufflenet", "squeezenet"):
        model = light_models.seeded_model(name)
        found.append(case_of(model.SerializeToString(), light_models.seeded_feeds(model)))
    for package, pattern in SHIPPED:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in Path(folder).rglob(pattern):
                feeds = drawn(onnx.load(path), np.random.default_rng(0))
                found.append(case_of(path.read_bytes(), feeds))
    return found


def drawn(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Any]:
    """Draw something for every input; a dimension that is open is 1."""
    stored = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in stored:
            tensor = value.type.tensor_type
            shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
    return feeds


def _official() -> Iterator[Case]:
    for kind in _KINDS:
        for case in official_cases(kind):
            with warnings.catch_warnings(), suppress(*_NO_TENSOR):
                warnings.simplefilter("ignore")
                inputs, _ = next(iter(case.data_sets()))
                yield case_of(case.model.SerializeToString(), case.feeds(inputs))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _fed(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value and [_fed(one) for one in value]
    return _text(numpy_helper.from_array(np.asarray(value)).SerializeToString())


def _value(one: Any) -> Any:
    if one is None or isinstance(one, list):
        return one and [_value(part) for part in one]
    array = numpy_helper.to_array(onnx.TensorProto.FromString(base64.b64decode(one)))
    return np.array(array.astype(object) if array.dtype.kind in "US" else array)
