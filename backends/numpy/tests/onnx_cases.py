"""The official test cases of ONNX: models, inputs and expected outputs."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from backends.numpy.tests.numpy_road import as_value, compile_model

__all__ = ["KINDS", "Case", "cases"]

KINDS = {"node": 1884, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35, "real": 9}
"""The kinds of cases, and how many onnx 1.23 has of each."""

_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@dataclass
class Case:
    """One official case."""

    kind: str
    name: str
    case: Any

    @property
    def id(self) -> str:
        """The name by which pytest and the list of expected failures know it."""
        return f"{self.kind}/{self.name}"

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model."""
        if self.case.model is not None:
            return self.case.model
        return onnx.load(self._model_path)

    @property
    def _model_path(self) -> Path:
        if self.case.model_dir is not None:
            return Path(self.case.model_dir) / "model.onnx"
        return _DATA.parents[2] / Path(self.case.url).relative_to("onnx")

    def data_sets(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield inputs and expected outputs."""
        if self.case.data_sets is not None:
            for inputs, outputs in self.case.data_sets:
                yield [as_value(i) for i in inputs], [as_value(o) for o in outputs]
        elif self.case.model_dir is not None:
            for folder in sorted(Path(self.case.model_dir).glob("test_data_set*")):
                graph = self.model.graph
                yield _protos(folder, "input", graph.input), _protos(folder, "output", graph.output)
        else:
            yield self._light_data()

    def _light_data(self) -> tuple[list[Any], list[Any]]:
        """Return the ramp that onnx's runner feeds the real models, and the stored outputs."""
        graph = self.model.graph
        stored = {tensor.name for tensor in graph.initializer}
        inputs = [
            Runner.generate_dummy_data(value, name=self.name)
            for value in graph.input
            if value.name not in stored
        ]
        prefix = self._model_path.with_suffix("")
        outputs = []
        for place in range(len(graph.output)):
            tensor = onnx.TensorProto.FromString(Path(f"{prefix}_output_{place}.pb").read_bytes())
            outputs.append(numpy_helper.to_array(tensor))
        return inputs, outputs

    def check(self) -> None:
        """Run the case on the NumPy backend and compare."""
        compiled = compile_model(self.model)
        for inputs, expected in self.data_sets():
            names = [value.name for value in self.model.graph.input]
            stored = {tensor.name for tensor in self.model.graph.initializer}
            if len(inputs) < len(names):
                names = [name for name in names if name not in stored]
            feeds = dict(zip(names, inputs, strict=True))
            for value in inputs:
                _make_read_only(value)
            outputs = compiled.run(feeds)
            _assert_similar(expected, outputs, self.case)


def _assert_similar(expected: list[Any], actual: list[Any], case: Any) -> None:
    """Compare as onnx's runner does, but lists element by element: it cannot take rank 0 there."""
    assert len(actual) == len(expected)
    for want, have in zip(expected, actual, strict=True):
        if isinstance(want, list):
            assert isinstance(have, list)
            _assert_similar(want, have, case)
        elif want is None:
            assert have is None
        else:
            assert isinstance(have, np.ndarray), type(have)
            Runner.assert_similar_outputs([want], [have], rtol=case.rtol, atol=case.atol)


def _make_read_only(value: Any) -> None:
    """Turn any attempt to write to an input into an error."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, list):
        for element in value:
            _make_read_only(element)


def _protos(folder: Path, prefix: str, values: Any) -> list[Any]:
    items = []
    for place in range(len(list(folder.glob(f"{prefix}_*.pb")))):
        content = (folder / f"{prefix}_{place}.pb").read_bytes()
        type_ = values[place].type
        if type_.HasField("sequence_type"):
            items.append(as_value(onnx.SequenceProto.FromString(content)))
        elif type_.HasField("optional_type"):
            items.append(as_value(onnx.OptionalProto.FromString(content)))
        else:
            items.append(as_value(onnx.TensorProto.FromString(content)))
    return items


def cases(kind: str) -> list[Case]:
    """Return the cases of a kind, sorted by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind=kind)
    return sorted((Case(kind, case.name, case) for case in found), key=lambda c: c.name)
