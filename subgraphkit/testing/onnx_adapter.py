"""The class by which onnx's own test runner, and others of its protocol, drive a backend."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from unittest import SkipTest

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import parse_selection
from subgraphkit.errors import CallerError, ConfigError, UnclaimedNodesError
from subgraphkit.finding.registry import find_record, load_record
from subgraphkit.placing import InferenceSession
from subgraphkit.running import Session
from subgraphkit.testing.official_cases import as_value

_DEVICES: Final = {DeviceType.CPU: ("cpu",), DeviceType.CUDA: ("cuda", "gpu")}
"""Beginnings of device names, as backends give them, by onnx's kind of device."""


def onnx_backend(backend: str) -> type[Backend]:
    """Return a class that runs models on one backend, and on nothing else.

    Nothing runs on the fallback: a model with a node that the backend does not claim is skipped
    (``unittest.SkipTest``), so that what passes is the backend's doing. onnx's own exception for
    that purpose would not do: its runner counts as passed what raises it.

    Args:
        backend: Name of an installed backend, with options as in a selection.

    Returns:
        A subclass of ``onnx.backend.base.Backend``, for ``onnx.backend.test.BackendTest``.

    Raises:
        ConfigError: The text cannot be read or names several backends (SGK107, SGK310).
        BackendNotFoundError: No backend of that name is installed (SGK101, SGK102).
        BackendError: The backend cannot be loaded.

    Example:
        >>> import numpy as np
        >>> from onnx.helper import make_node
        >>> runner = onnx_backend("numpy")
        >>> runner.run_node(make_node("Neg", ["x"], ["y"]), [np.float32([1, -2])])
        (array([-1.,  2.], dtype=float32),)
    """
    choices = parse_selection(backend, "onnx_backend")
    if len(choices) != 1:
        raise ConfigError("SGK310", f"onnx_backend takes the name of one backend, got {backend!r}")
    (choice,) = choices
    found = load_record(find_record(choice, resolve()))
    return type(
        f"{choice.name.title()}OnnxBackend", (_OnnxBackend,), {"choice": choice, "of": found}
    )


class _Prepared(BackendRep):
    """A model that is ready to run.

    Thread-safety: as ``Session``.
    """

    def __init__(self, session: Session, names: Sequence[str]) -> None:
        self.session = session
        self._names = names

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on inputs in the order of the model, or by name."""
        del kwargs
        if isinstance(inputs, Mapping):
            feeds = {name: as_value(value) for name, value in inputs.items()}
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            needed = self.session.graph.inputs
            names = needed if len(given) == len(needed) else self._names
            feeds = {n: as_value(value) for n, value in zip(names, given, strict=True)}
        return tuple(self.session.run(None, feeds))


class _OnnxBackend(Backend):
    """Runs models on the backend ``choice``; see ``onnx_backend``."""

    choice: Any
    of: Any

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Say whether the backend has found such a device (``"CPU"``, ``"CUDA"``) here."""
        beginnings = _DEVICES.get(Device(device).type, ())
        return any(name.lower().startswith(beginnings) for name in _devices(cls.of))

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> "_Prepared":
        """Open a session."""
        if not cls.supports_device(device):
            raise CallerError(
                "SGK310", f"backend {cls.choice.name!r} has found no device {device!r}"
            )
        try:
            session = InferenceSession(model, [cls.choice], strict=True, build="now", **kwargs)
        except UnclaimedNodesError as error:
            raise SkipTest(str(error)) from error
        return _Prepared(session, [value.name for value in model.graph.input])

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run a model once; raises as ``prepare`` and ``Session.run``."""
        prepared = cls.prepare(model, device, **kwargs)
        with prepared.session:
            return prepared.run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, Sequence[int]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays, one for each input that is not left out."""
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        given = [as_value(value) for value in inputs]
        names = [name for name in node.input if name]
        made = [name for name in node.output if name]
        told: list[Any] = list(outputs_info) if outputs_info else [None] * len(made)
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [helper.make_value_info(n, _type_of(v)) for n, v in zip(names, given, strict=True)],
            [_output(n, info) for n, info in zip(made, told, strict=True)],
        )
        imports = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=imports), given, device)


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        element = _type_of(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_sequence_type_proto(element)
    element_type = (
        onnx.TensorProto.STRING
        if value.dtype.hasobject
        else helper.np_dtype_to_tensor_dtype(value.dtype)
    )
    return helper.make_tensor_type_proto(element_type, value.shape)


def _output(name: str, info: tuple[Any, Sequence[int]] | None) -> onnx.ValueInfoProto:
    if info is None:
        return onnx.ValueInfoProto(name=name)
    dtype, shape = info
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


@cache
def _devices(backend: Any) -> Sequence[str]:
    """Probe a backend once, for onnx's runner asks before each of thousands of cases."""
    devices: Sequence[str] = backend.probe().devices
    return devices
