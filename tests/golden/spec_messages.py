"""The messages about specs: there is none, it cannot be read, or the model is another."""

import pickle  # noqa: TID251 (what engines do with sessions)
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from subgraphkit.testing.small_models import model_of

_TEXT = "g (float[4] x) => (float[4] y) { y = Relu(x) }"
_DIGEST = "0" * 64


def _saved() -> str:
    onnx.save(model_of(_TEXT), "m.onnx")
    return "m.onnx"


def _spec(source: Any = None, **arguments: Any) -> object:
    with sk.InferenceSession(source or _saved(), **{"backend": "numpy", **arguments}) as session:
        return session.spec


def _of_updated_weights() -> None:
    text = "g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }"
    onnx.save(model_of(text), "m.onnx")
    with sk.InferenceSession("m.onnx", "numpy") as session:
        session.update_weights({"w": np.zeros(4, np.float32)})
        _ = session.spec


def _of_a_changed_file() -> None:
    with sk.InferenceSession(_saved(), "numpy") as session:
        Path("m.onnx").write_bytes(Path("m.onnx").read_bytes() * 2)
        _ = session.spec


def _of_a_plan() -> None:
    found = sk.partition(sk.bind(sk.load(model_of(_TEXT)), backend="numpy"))
    with sk.Session(sk.plan(found, sk.compile_subgraphs(found))) as session:
        pickle.dumps(session)


class _Derived(sk.InferenceSession):
    pass


def _of_a_derived_class() -> None:
    with _Derived(_saved(), "numpy") as session:
        pickle.dumps(session)


def _read(text: str) -> Callable[[], object]:
    return lambda: sk.SessionSpec.from_json(text)


def _of_another_model() -> None:
    sk.SessionSpec(_saved(), _DIGEST, "numpy").open()


MESSAGES: dict[str, Callable[[], object]] = {
    "SGK192_bytes": lambda: _spec(model_of(_TEXT).SerializeToString()),
    "SGK192_backend_class": lambda: _spec(backend=sk.get_backend("numpy")),
    "SGK192_function": lambda: sk.SessionSpec.of(
        _saved(), "numpy", constraints=Constraints(exclusions={"numpy": bool})
    ),
    "SGK192_progress": lambda: _spec(progress=lambda event: None),
    "SGK192_weights": _of_updated_weights,
    "SGK192_changed_file": _of_a_changed_file,
    "SGK192_plan": _of_a_plan,
    "SGK192_derived_class": _of_a_derived_class,
    "SGK192_option": lambda: sk.SessionSpec.of(_saved(), options={"numpy": {"x": object}}),
    "SGK192_too_large": lambda: sk.SessionSpec("m.onnx", _DIGEST, shapes={"n" * 4000: 1}),
    "SGK193_no_json": _read("model.onnx"),
    "SGK193_no_spec": _read('{"source": "m.onnx"}'),
    "SGK193_newer": _read('{"subgraphkit_spec": 2}'),
    "SGK193_unknown": _read('{"subgraphkit_spec": 1, "secret": 3}'),
    "SGK193_missing": _read('{"subgraphkit_spec": 1, "source": "m.onnx"}'),
    "SGK193_kind": lambda: sk.SessionSpec("m.onnx", _DIGEST, shapes=3),  # type: ignore[arg-type]
    "SGK194_other_model": _of_another_model,
}
