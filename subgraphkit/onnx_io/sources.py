"""Any form of a model that a caller has, made into a ``ModelProto``."""

import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, Protocol

import onnx
from google.protobuf.message import DecodeError

from subgraphkit.errors import CallerError, InvalidModelError, ModelNotFoundError
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.external_data import DataFolders, MoreFolders
from subgraphkit.onnx_io.payloads import Payload, read_apart

# Bytes of a model below which it is parsed as it is.
_WORTH_TAKING: Final = 1 << 20

LimitsOf = Callable[[], LoadLimits]


class _HasModel(Protocol):
    """A holder of a model, such as the ``ONNXProgram`` of ``torch.onnx``."""

    @property
    def model_proto(self) -> onnx.ModelProto: ...


class _MakesModel(Protocol):
    """A maker of a model, such as a function of onnxscript."""

    @property
    def to_model_proto(self) -> Callable[..., onnx.ModelProto]: ...


class _IrModel(Protocol):
    """A model of onnx_ir."""

    @property
    def graph(self) -> Any: ...
    @property
    def producer_name(self) -> str | None: ...


ModelSource = (
    str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | IO[bytes]
    | onnx.ModelProto
    | _HasModel
    | _MakesModel
    | _IrModel
)
"""The things from which a model can be loaded."""

_LIMIT: Final = 2**31
# Files up to this size are checked against the limits when they are bound.
_SMALL_BYTES: Final = 1 << 20
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class ReadModel(NamedTuple):
    """A model as it was found.

    Attributes:
        path: Its file, if it was read from one.
        folders: Where its external data may be; None if nowhere.
        size: Its bytes, where they were read.
        apart: The large payloads that were taken out of it, see ``payloads``.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    folders: DataFolders | None = None
    size: int = 0
    apart: Sequence[Payload] = ()


def read_model(
    source: ModelSource, more: MoreFolders = tuple, limits: LimitsOf = LoadLimits
) -> ReadModel:
    """Read a model without its external data; a ``ModelProto`` is returned as it is, not copied."""
    if isinstance(source, onnx.ModelProto):
        return ReadModel(_check_model(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return _read_bytes(bytes(source), f"a model of {memoryview(source).nbytes} bytes", limits)
    if isinstance(source, str | os.PathLike):
        _refuse_url(os.fspath(source))
        path = Path(source)
        subject = f"the file {path.name!r}"
        with suppress(OSError, ValueError):  # said when it is opened
            _require_size(path.stat().st_size, subject, limits)
        data, payloads, folders = _read_file(path, more)
        size = len(data) + sum(one.length for one in payloads)
        _require_size(size, subject, limits)
        return ReadModel(parse_model(data, subject), path, folders, size, payloads)
    return _of_an_object(source, more, limits)


def _of_an_object(source: Any, more: MoreFolders, limits: LimitsOf) -> ReadModel:
    """Read models of other libraries; those that are not imported have made none."""
    ir = sys.modules.get("onnx_ir")
    if ir is not None and isinstance(held := getattr(source, "model", source), ir.Model):
        data = _check_model(ir.to_proto(held)).SerializeToString()
        made = _read_bytes(data, "the model", LoadLimits.unlimited)
        return made._replace(folders=_folder_of(held, ir, more), size=0)
    if callable(getattr(source, "to_model_proto", None)):
        return ReadModel(_check_model(source.to_model_proto()))
    if isinstance(held := getattr(source, "model_proto", None), onnx.ModelProto):
        return ReadModel(_check_model(held))
    data = source.read() if callable(getattr(source, "read", None)) else None
    if isinstance(data, bytes):
        return _read_bytes(data, "the stream", limits)
    raise CallerError(
        "SGK213",
        f"a model cannot be loaded from {type(source).__name__}",
        hint="The steps of the road are load, bind, partition, compile_subgraphs, plan, Session; "
        "give it to one of the later ones."
        if type(source).__module__.startswith("subgraphkit.")
        else "Pass a path, an open file, the bytes of a model, an onnx.ModelProto,\n"
        "an onnx_ir.Model, an ONNXProgram of torch.onnx or a function of onnxscript.",
    )


def _read_bytes(data: bytes, subject: str, limits: LimitsOf) -> ReadModel:
    _require_size(len(data), subject, limits)
    model, payloads = _read_open(io.BytesIO(data), len(data))
    return ReadModel(parse_model(model, subject), size=len(data), apart=payloads)


def _folder_of(model: Any, ir: Any, more: MoreFolders) -> DataFolders | None:
    """Return where a model of onnx_ir has its data, if all of it is beside one file."""
    values = (value.const_value for value in model.graph.initializers.values())
    found = {os.fspath(one.base_dir) for one in values if isinstance(one, ir.ExternalTensor)}
    return DataFolders(Path(found.pop(), "model"), more) if len(found) == 1 else None


def _refuse_url(path: str) -> None:
    # A Path has lost one of the two slashes. A drive of Windows has one letter.
    if _URL.match(path) and not os.path.lexists(path):
        raise CallerError(
            "SGK213",
            f"{path!r} is a URL, and models are loaded from files",
            hint="Download it first, with its external data if it has any, and pass the path.",
        )


def _read_open(file: BinaryIO, size: int) -> tuple[bytes, list[Payload]]:
    return read_apart(file, size) if size >= _WORTH_TAKING else (file.read(), [])


def _read_file(
    path: Path, more: MoreFolders
) -> tuple[bytes, Sequence[Payload], DataFolders | None]:
    if _is_name(path):
        folders = DataFolders(path, more)
        if (found := folders.read_model(_read_open)) is not None:
            return *found, folders
    try:
        # Other files than plain ones, such as pipes, have no data beside them.
        return path.read_bytes(), (), None
    except (OSError, ValueError) as error:
        hint = f"Looked in {str(Path.cwd())!r}." if not path.is_absolute() else ""
        if isinstance(error, IsADirectoryError):
            hint = "Bundles are opened by InferenceSession and by 'subgraphkit run' alone."
        why = error.strerror if isinstance(error, OSError) else error
        text = f"the model file {str(path)!r} cannot be opened: {why}"
        raise ModelNotFoundError("SGK201", text, hint=hint, path=str(path)) from error


def _is_name(path: Path) -> bool:
    """Say whether the system can have a file of that name, be there one or not."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _require_size(size: int, subject: str, limits: LimitsOf) -> None:
    if size >= _LIMIT:
        raise InvalidModelError(
            "SGK202",
            f"{subject} has {size} bytes; a protobuf message has fewer than {_LIMIT}",
            hint="Store the weights beside it: onnx.save(model, path, save_as_external_data=True).",
        )
    if size > _SMALL_BYTES:
        limits().require("max_model_bytes", size, subject)


def parse_model(data: bytes, subject: str) -> onnx.ModelProto:
    """Return the model that bytes are; InvalidModelError (SGK202) if they are none."""
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise _not_a_model(data, subject, "it cannot be parsed") from error
    if proto.ir_version and proto.HasField("graph"):
        return proto
    raise _not_a_model(data, subject, "it has no IR version or no graph")


def _looks_like_text(data: bytes) -> bool:
    head = data[:256].removeprefix(b"\xef\xbb\xbf")
    return head.isascii() and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in head)


def _not_a_model(data: bytes, subject: str, why: str) -> InvalidModelError:
    if not data:
        hint = "The file is empty."
    elif _looks_like_text(data):
        hint = (
            f"It looks like text, beginning with {data[:24].decode()!r}.\n"
            "If it is a model written as text, give load(onnx.load(path))."
        )
    else:
        hint = "It may be cut short, of another format, or nested more than 31 bodies deep."
    return InvalidModelError("SGK202", f"{subject} is not an ONNX model: {why}", hint=hint)


def _check_model(proto: onnx.ModelProto, subject: str = "the ModelProto") -> onnx.ModelProto:
    if proto.ir_version and proto.HasField("graph"):
        return proto
    raise InvalidModelError(
        "SGK202",
        f"{subject} is not an ONNX model: it has no IR version or no graph",
        hint="Make models with onnx.helper.make_model, which sets both.",
    )
