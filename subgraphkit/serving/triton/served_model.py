"""A session behind Triton's Python backend: requests in, responses out, through DLPack both ways.

The backend's own bridge to NumPy is built for one major version of it: with another, arrays arrive
empty. DLPack has no such versions, and no strings; these take the bridge, where it knows NumPy 2.
"""

import ctypes
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import numpy as np

import subgraphkit as sk
from subgraphkit.serving.oip.datatypes import refuse
from subgraphkit.serving.oip.metadata import failure_of
from subgraphkit.serving.triton.configuration import no_export

_PROGRAM: Final = Path("/proc/self/exe")
_TAKEN: Final = ctypes.c_char_p(b"used_dltensor")  # the capsule keeps the pointer, so it stays
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]


class ServedModel:
    """One instance of a model; Triton calls it from one thread.

    Raises:
        SubgraphkitError: As opening does; or the model has strings, and this Triton cannot hand
            them over (SGK345), so that Triton reports the model as unavailable.
    """

    def __init__(self, spec: Path, backend_utils: Any) -> None:
        self._utils = backend_utils
        self._session = sk.SessionSpec.from_json(spec.read_text(encoding="utf-8")).open()
        args = (*self._session.get_inputs(), *self._session.get_outputs())
        self._strings = {one.name for one in args if one.type == "tensor(string)"}
        if self._strings and not _has_bridge():
            self._session.close()
            raise no_export(
                f"{min(self._strings)!r} has strings, for which its Python backend has only a "
                f"bridge to NumPy, and this one was built before NumPy {np.__version__} was known",
                "Use a release of Triton that was built for NumPy 2.",
            )

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, together where shapes allow it; one that is wrong fails alone."""
        answers: list[Any] = [None] * len(requests)
        groups: dict[Any, dict[int, dict[str, Any]]] = {}
        for place, request in enumerate(requests):
            try:
                feeds = {one.name(): self._read(one) for one in request.inputs()}
            except Exception as error:  # noqa: BLE001 (it is the answer to this request)
                answers[place] = self._failure(error)
            else:
                alike = [(name, one.dtype, one.shape[1:]) for name, one in feeds.items()]
                key = (*request.requested_output_names(),), *alike
                groups.setdefault(key, {})[place] = feeds
        for (names, *_), group in groups.items():
            for place, answer in zip(group, self._answers(names, [*group.values()]), strict=True):
                answers[place] = answer
        return answers

    def _answers(self, names: Sequence[str], feeds: Sequence[Mapping[str, Any]]) -> list[Any]:
        try:
            rows = self._run(names, feeds)
            return [
                self._utils.InferenceResponse([*map(self._tensor_of, names, row)]) for row in rows
            ]
        except Exception as error:  # noqa: BLE001 (it is an answer)
            if len(feeds) > 1:
                return [answer for one in feeds for answer in self._answers(names, [one])]
            return [self._failure(error)]

    def _run(self, names: Sequence[str], feeds: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return, for each of several feeds that fit together, its results."""
        if len(feeds) == 1:
            return [self._session.run(names, feeds[0])]
        joined = {name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]}
        *ends, rows = np.cumsum([len(next(iter(one.values()))) for one in feeds])
        results = self._session.run(names, joined)
        if any(len(one) != rows for one in results):
            raise ValueError("an output has not a row for each of the inputs'")
        return [*zip(*(np.split(one, ends) for one in results), strict=True)]

    def _read(self, tensor: Any) -> Any:
        if tensor.name() not in self._strings:
            return np.from_dlpack(tensor)
        try:
            return np.vectorize(bytes.decode, otypes=[object])(tensor.as_numpy())
        except UnicodeDecodeError as error:
            refuse(f"input {tensor.name()!r} is not UTF-8, as strings of ONNX are: {error}")

    def _tensor_of(self, name: str, result: Any) -> Any:
        if name in self._strings:
            encoded = np.vectorize(str.encode, otypes=[object])(result)
            return self._utils.Tensor(name, encoded)
        capsule = np.require(result, requirements=["C", "W"]).__dlpack__()
        tensor = self._utils.Tensor.from_dlpack(name, capsule)
        # Triton gives it a name that nobody knows, so that NumPy reports every one as lost.
        _set_name(capsule, _TAKEN)
        return tensor

    def _failure(self, error: Exception) -> Any:
        status, text = failure_of(error)
        kinds = self._utils.TritonError
        kind = kinds.INVALID_ARG if status == HTTPStatus.BAD_REQUEST else kinds.INTERNAL
        return self._utils.InferenceResponse([], kinds(text, kind))


def _has_bridge() -> bool:
    """Say whether the program at work was built with a bridge that knows NumPy 2.

    That is pybind11, which looks for NumPy by this name from version 2.12 on. Nothing else tells:
    with an older one arrays look right on this side, and strings end the process.
    """
    try:
        return b"numpy._core" in _PROGRAM.read_bytes()
    except OSError:
        return False
