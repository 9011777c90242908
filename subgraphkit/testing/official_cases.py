"""The official test cases of ONNX: models, inputs and expected outputs, as the wheel has them."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from subgraphkit.configuration.config import resolve
from subgraphkit.lazy import cached_property
from subgraphkit.storing.folders import kept_folder
from subgraphkit.storing.kept_files import KeptFile

KINDS: Final = ("node", "simple", "pytorch-converted", "pytorch-operator")

DataSet = tuple[list[Any], list[Any]]
"""Inputs and expected outputs, in the order of the model's inputs and outputs."""

_EXPANDED: Final = re.compile(r"_expanded(_ver\d+)?$")
_VERSIONS: Final = f"onnx {onnx.__version__} numpy {np.__version__}".encode()


@dataclass(eq=False)
class OfficialCase:
    """One official case; its model and data are read when asked for.

    ``operator``: What a node case is about; empty for other kinds.
    """

    name: str
    operator: str
    domain: str
    rtol: float
    atol: float
    _source: Any

    @property
    def is_expanded(self) -> bool:
        """Whether the node is written as the body of its function."""
        return _EXPANDED.search(self.name) is not None

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model; not to be changed."""
        stored: onnx.ModelProto | None = self._source.model
        return onnx.load(self._folder / "model.onnx") if stored is None else stored

    @property
    def _folder(self) -> Path:
        """The folder of a stored case."""
        return Path(self._source.model_dir)

    @property
    def fed(self) -> list[str]:
        """Names of the inputs that are not initializers as well."""
        stored = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in stored]

    @property
    def data_count(self) -> int:
        """How many data sets a case has that is made in memory; 0 for one that has a file."""
        return len(self._source.data_sets or ())

    def data_sets(self) -> Iterator[DataSet]:
        """Yield inputs and expected outputs; one or more of them."""
        if self._source.data_sets is not None:
            for inputs, outputs in self._source.data_sets:
                yield [as_value(i) for i in inputs], [as_value(o) for o in outputs]
        else:
            for folder in sorted(self._folder.glob("test_data_set*")):
                yield stored_data(folder, self.model)

    def feeds(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Give the inputs of a data set their names."""
        names = [value.name for value in self.model.graph.input]
        return dict(zip(self.fed if len(inputs) < len(names) else names, inputs, strict=True))


def stored_data(folder: Path, model: onnx.ModelProto) -> DataSet:
    """Read inputs and outputs from ``input_0.pb``, ``output_0.pb`` and so on."""
    graph = model.graph
    return _read_stored(folder, "input", graph.input), _read_stored(folder, "output", graph.output)


def _read_stored(folder: Path, prefix: str, values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    protos: Any = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    items = []
    for place in range(len(list(folder.glob(f"{prefix}_*.pb")))):
        content = (folder / f"{prefix}_{place}.pb").read_bytes()
        proto = protos.get(values[place].type.WhichOneof("value"), onnx.TensorProto)
        items.append(as_value(proto.FromString(content)))
    return items


def as_value(item: Any) -> Any:
    """Turn test data (arrays, scalars, protobuf, lists) into feeds of a session."""
    if item is None:
        return None
    if isinstance(item, onnx.TensorProto):
        item = numpy_helper.to_array(item).copy()  # a writer to it is caught, not stopped
    if isinstance(item, onnx.SequenceProto):
        return numpy_helper.to_list(item)
    if isinstance(item, onnx.OptionalProto):
        return numpy_helper.to_optional(item)
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        return [as_value(element) for element in item]
    array = np.asarray(item)
    return array.astype(object) if array.dtype.kind in "US" else array


@lru_cache(maxsize=len(KINDS))
def official_cases(kind: str) -> tuple[OfficialCase, ...]:
    """Return the cases of a kind, sorted by name; the same objects every time.

    onnx computes the node cases when they are first needed, in about five seconds. The user's cache
    keeps them for other processes.
    """
    sources = _node_cases() if kind == "node" else load_model_tests(kind=kind)
    found = sorted(sources, key=lambda case: case.name)
    operators = _operators(found) if kind == "node" else {}
    cases = []
    for case in found:
        about = operators.get(_EXPANDED.sub("", case.name), ("", ""))
        cases.append(OfficialCase(case.name, *about, case.rtol, case.atol, case))
    return tuple(cases)


def _operators(found: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """Return operator and domain of every case that is not an expansion of another."""
    names = {}
    for case in found:
        if not _EXPANDED.search(case.name):
            (node,) = case.model.graph.node
            names[case.name] = (node.op_type, node.domain)
    return names


def _node_cases() -> Sequence[TestCase]:
    """Return the node cases as they are kept, so that they are the same in every process."""
    resolved = resolve()
    folder = kept_folder(resolved.cache_dir, "official-cases") if resolved.cache else None
    if folder is None:
        return _compute_cases()
    file = KeptFile(folder / "node", "official node cases")
    with file.lock():  # those who come meanwhile would compute the same
        versions, _, stored = file.read().partition(b"\n")
        if versions != _VERSIONS:
            entries = [
                (c.name, c.rtol, c.atol, *_plain((c.model, c.data_sets))) for c in _compute_cases()
            ]
            stored = msgspec.msgpack.encode(entries)
            file.write(_VERSIONS + b"\n" + stored)
    return [_case(*entry) for entry in msgspec.msgpack.decode(stored)]


def _compute_cases() -> Sequence[TestCase]:
    with warnings.catch_warnings():
        # onnx's own implementations convert NaN to integers and use deprecated parts of NumPy
        warnings.simplefilter("ignore")
        return collect_testcases(None)  # the loader of onnx 1.22 reads files without models


def _plain(item: Any) -> Any:
    """Return the bytes of an item, or of its parts."""
    if item is None:
        return None
    if isinstance(item, list | tuple):
        return [_plain(element) for element in item]
    if not isinstance(item, onnx.ModelProto | onnx.TensorProto):
        item = numpy_helper.from_array(np.asarray(item))
    return item.SerializeToString()


def _case(name: str, rtol: float, atol: float, model: bytes, data_sets: Any) -> TestCase:
    proto = onnx.ModelProto.FromString(model)
    return TestCase(name, name, None, None, proto, _tensors(data_sets), "node", rtol, atol)


def _tensors(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_tensors(element) for element in plain]
    return None if plain is None else onnx.TensorProto.FromString(plain)
