"""From what the caller has (path, bytes, ModelProto) to a ``ModelProto``."""

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from subgraphkit.errors import CallerError, InvalidModelError, ModelNotFoundError

__all__ = ["ModelSource", "read_model"]

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto
"""What a model can be loaded from."""

_LIMIT = 2**31


def read_model(source: ModelSource) -> tuple[onnx.ModelProto, Path | None]:
    """Read a model without its external data.

    Returns:
        The model, and its path if it was read from a file. A ``ModelProto`` is returned as it is,
        not copied.

    Raises:
        ModelNotFoundError: The file does not exist or cannot be opened (SGK201).
        InvalidModelError: The bytes are not an ONNX model (SGK202).
        CallerError: The source is of another kind (SGK213).
    """
    if isinstance(source, onnx.ModelProto):
        _check_is_model(source, "the ModelProto")
        return source, None
    if isinstance(source, bytes | bytearray | memoryview):
        return _parse(bytes(source), f"a model of {len(source)} bytes"), None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return _parse(_read_file(path), f"the file {path.name!r}"), path
    raise CallerError(
        "SGK213",
        f"a model cannot be loaded from {type(source).__name__}",
        hint="Pass a path, the bytes of a model, or an onnx.ModelProto.",
    )


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = f"Looked in {str(Path.cwd())!r}." if not path.is_absolute() else ""
        if isinstance(error, IsADirectoryError):
            hint = "Bundles are opened by InferenceSession and by 'subgraphkit run' alone."
        raise ModelNotFoundError(
            "SGK201",
            f"the model file {str(path)!r} cannot be opened: {error.strerror}",
            hint=hint,
            path=str(path),
        ) from error


def _parse(data: bytes, subject: str) -> onnx.ModelProto:
    if len(data) >= _LIMIT:
        raise InvalidModelError(
            "SGK202",
            f"{subject} has {len(data)} bytes; a protobuf message has fewer than {_LIMIT}",
            hint="Store the weights beside it: onnx.save(model, path, save_as_external_data=True).",
        )
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise _not_a_model(data, subject, "it cannot be parsed") from error
    if not proto.ir_version or not proto.HasField("graph"):
        raise _not_a_model(data, subject, "it has no IR version or no graph")
    _check_is_model(proto, subject)
    return proto


def _not_a_model(data: bytes, subject: str, why: str) -> InvalidModelError:
    head = data[:256]
    if not data:
        hint = "The file is empty."
    elif head.isascii() and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in head):
        hint = f"It looks like text, beginning with {head[:24].decode()!r}."
    else:
        hint = "It may be cut short, of another format, or nested more than 31 bodies deep."
    return InvalidModelError("SGK202", f"{subject} is not an ONNX model: {why}", hint=hint)


def _check_is_model(proto: onnx.ModelProto, subject: str) -> None:
    if not proto.ir_version or not proto.HasField("graph"):
        raise InvalidModelError(
            "SGK202",
            f"{subject} is not an ONNX model: it has no IR version or no graph",
            hint="Make models with onnx.helper.make_model, which sets both.",
        )
