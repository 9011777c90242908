"""The ``config.pbtxt`` of a model, in Triton's words; and models that Triton cannot hold."""

from typing import Any, Final

import subgraphkit as sk
from subgraphkit.serving.oip.datatypes import DATATYPES

_TYPES: Final = {
    f"tensor({onnx})": f"TYPE_{name}" for name, (onnx, _) in DATATYPES.items() if name != "BF16"
} | {"tensor(string)": "TYPE_STRING"}

_MOST: Final = 16


def no_export(text: str, hint: str = "") -> sk.errors.CallerError:
    """Return the error that a model cannot be served by Triton."""
    message = f"the model cannot be exported for Triton: {text}"
    return sk.errors.CallerError("SGK345", message, hint=hint)


def batch_of(session: sk.Session, wanted: int | None) -> int:
    """Return how many rows Triton may gather; CallerError (SGK345) if that cannot be."""
    if wanted == 0:
        return 0
    try:
        sk.Batcher(session).close()
    except sk.errors.CallerError as error:
        if wanted is None:
            return 0
        raise no_export(error.message, "Leave max_batch away, or open the batch.") from error
    if wanted is not None:
        return wanted
    # of one axis alone, Triton has its clients write [N, 1]
    args = (*session.get_inputs(), *session.get_outputs())
    return _MOST if all(len(one.shape) > 1 for one in args) else 0


def configuration_of(
    session: sk.Session, name: str, *, max_batch: int, instances: int, device: str, delay_s: float
) -> str:
    """Return the configuration as text; CallerError (SGK345) for tensors Triton lacks."""
    lines = [f"name: {_quote(name)}", 'backend: "python"', f"max_batch_size: {max_batch}"]
    for kind, args in (("input", session.get_inputs()), ("output", session.get_outputs())):
        if not args:
            raise no_export(f"it has no {kind}s")
        for one in args:
            rank_known = getattr(session.graph.types[one.name], "shape", None) is not None
            lines += _tensor(kind, one, batched=max_batch > 0, rank_known=rank_known)
    delay = f"max_queue_delay_microseconds: {round(delay_s * 1e6)}"
    lines += [f"dynamic_batching {{ {delay} }}"] if max_batch else []
    lines.append(f"instance_group [ {{ count: {instances} kind: KIND_{device.upper()} }} ]")
    return "\n".join([*lines, ""])


def _tensor(kind: str, one: Any, *, batched: bool, rank_known: bool) -> list[str]:
    what = f"{kind} {one.name!r}"
    if one.type not in _TYPES:
        raise no_export(f"{what} is {one.type}, which DLPack or Triton has not")
    if not rank_known:
        raise no_export(f"the rank of {what} is not known", "Give its shape: shapes={...}.")
    if "\0" in one.name:
        raise no_export(f"the name of {what} has a NUL in it")
    dims = [size if isinstance(size, int) and size > 0 else -1 for size in one.shape[batched:]]
    if not dims and not batched:
        raise no_export(f"{what} is a scalar, which Triton has not")
    reshape = "" if dims else " reshape: { shape: [ ] }"
    shape = ", ".join(map(str, dims or [1]))
    body = f"name: {_quote(one.name)} data_type: {_TYPES[one.type]} dims: [ {shape} ]{reshape}"
    return [f"{kind} [ {{ {body} }} ]"]


def _quote(text: str) -> str:
    """Write a text as protobuf's text format has it: bytes that are not plain as octal."""
    plain = frozenset(range(ord(" "), ord("~") + 1)) - frozenset(b'"\\')
    escaped = [chr(one) if one in plain else f"\\{one:03o}" for one in text.encode()]
    return f'"{"".join(escaped)}"'
