"""Ranges of a model's values: found by calibrating, kept as JSON, read by the rewriting.

Calibration caches of TensorRT's implicit quantisation, which newer versions no longer read, are
ranges as well. Their text has a header, ``TRT-8601-EntropyCalibration2``, and a line per value.
This has a name, a colon, and eight hexadecimal digits, the bits of the scale as a big-endian
float32. The scale is the threshold by 127. Values that TensorRT made up itself are named there,
too; they do no harm.

Source: the files that TensorRT 8 and 10 write through ``IInt8Calibrator.write_calibration_cache``.
"""

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from subgraphkit.errors import CallerError
from subgraphkit.onnx_io.model import Model
from subgraphkit.storing.files import write_output

_SCHEMA: Final = "subgraphkit.ranges/1"


@dataclass(frozen=True, slots=True)
class Range:
    """The range of the elements of one value.

    Attributes:
        threshold: Magnitude that the largest int8 stands for; 0 for a value that is always 0.
        method: How the threshold was chosen: ``mse``, ``minmax``, ``percentile``, ``entropy``, or
            ``imported``.
        samples: How many elements were seen.
        lowest: The smallest element seen, or None if only the threshold is known.
        highest: The largest element seen, or None if only the threshold is known.
        snr_db: Ratio of the power of the values to that of the error which int8 with this threshold
            makes, in dB; None if unknown.
    """

    threshold: Annotated[float, Meta(ge=0)]
    method: str
    samples: Annotated[int, Meta(ge=0)] = 0
    lowest: float | None = None
    highest: float | None = None
    snr_db: float | None = None

    @property
    def magnitude(self) -> float | None:
        """The largest magnitude seen, or None if only the threshold is known."""
        if self.lowest is None or self.highest is None:
            return None
        return max(abs(self.lowest), abs(self.highest))


@dataclass(frozen=True, eq=True)
class Ranges:
    """Ranges by value name.

    Attributes:
        values: The ranges; names are those of the model that was calibrated.
        model: Content hash of that model, or empty if it is not known.

    Thread-safety: immutable, safe.
    """

    values: Mapping[str, Range] = field(default_factory=dict)
    model: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store as JSON; the same ranges make the same file.

        Raises:
            CallerError: The file cannot be written (SGK233).
        """
        values = {name: asdict(self.values[name]) for name in sorted(self.values)}
        document = {"schema": _SCHEMA, "model": self.model, "values": values}
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        try:
            write_output(Path(path), text.encode())
        except OSError as error:
            problem = f"the ranges cannot be written to {str(path)!r}: {error.strerror}"
            raise CallerError("SGK233", problem) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ranges":
        """Read a file of ``save``, or a calibration cache of TensorRT.

        Thresholds of a cache are per value, so weights are still measured channel by channel. Its
        model is not known.

        Raises:
            CallerError: The file cannot be opened, or is neither (SGK233).
        """
        try:
            content = Path(path).read_bytes()
            if content.startswith(b"TRT-"):
                return cls(_read_cache(path, content))
            found = msgspec.json.decode(content, type=_Document)
        except FileNotFoundError:
            raise CallerError(
                "SGK233",
                f"the ranges or calibration cache {str(path)!r} do not exist",
                hint="Make them with 'subgraphkit convert --calibrate', or correct the path.",
            ) from None
        except (OSError, RecursionError, msgspec.MsgspecError) as error:
            raise CallerError(
                "SGK233",
                f"the ranges in {str(path)!r} cannot be read: {error}",
                hint=f"Expected a file of schema {_SCHEMA!r}, as Ranges.save writes it.",
            ) from error
        return cls(found.values, found.model)

    def check_model(self, model: Model) -> None:
        """Make sure that the ranges were found on this model.

        Raises:
            CallerError: They belong to another model (SGK232).
        """
        if self.model and (found := content_hash(model)) != self.model:
            raise CallerError(
                "SGK232",
                f"the ranges belong to a model with hash {self.model[:12]}, but the hash of "
                f"{model.name!r} is {found[:12]}",
                hint="Calibrate this model: names may mean something else in another one.",
            )


class _Document(Struct):
    """Ranges as a file has them."""

    schema: Literal["subgraphkit.ranges/1"]
    values: dict[str, Range]
    model: str


def content_hash(model: Model) -> str:
    """Return the SHA-256 of a model's nodes, weights, inputs and outputs; its path does not matter.

    Names count, because ranges are found by name.
    """
    digest = hashlib.sha256()
    proto = model.proto
    opsets = sorted((entry.domain, entry.version) for entry in proto.opset_import)
    digest.update(repr(opsets).encode())
    graph = proto.graph
    for part in (*graph.node, *graph.input, *graph.output, *graph.sparse_initializer):
        payload = part.SerializeToString(deterministic=True)
        digest.update(len(payload).to_bytes(8, "little") + payload)
    stored = {**model.graph.initializers, **model.graph.defaults}
    for name in sorted(stored):
        array = stored[name].array()
        digest.update(f"{name!r} {stored[name].type}".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return digest.hexdigest()


_HEADER: Final = re.compile(r"TRT-\d+-(Entropy|MinMax|Legacy)?Calibration2?")
_LINE: Final = re.compile(r"(?P<name>.+): (?P<bits>[0-9a-fA-F]{8})")


def _read_cache(path: str | os.PathLike[str], content: bytes) -> dict[str, Range]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(error)) from error
    if not _HEADER.fullmatch(lines[0].strip()):
        expected = "expected a header such as TRT-8601-EntropyCalibration2"
        raise _unreadable(path, f"line 1 is {lines[0][:40]!r}, {expected}")
    values: dict[str, Range] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        name, scale = _entry(path, number, line)
        if name in values:
            raise _unreadable(path, f"line {number} names {name!r} again")
        values[name] = Range(scale * 127, "imported")
    return values


def _entry(path: str | os.PathLike[str], number: int, line: str) -> tuple[str, float]:
    if (found := _LINE.fullmatch(line.rstrip())) is None:
        expected = "expected a name, ': ' and 8 hexadecimal digits"
        raise _unreadable(path, f"line {number} is {line[:60]!r}, {expected}")
    (scale,) = struct.unpack(">f", bytes.fromhex(found["bits"]))
    if not math.isfinite(scale) or scale < 0:
        raise _unreadable(path, f"line {number} gives {found['name']!r} the scale {scale}")
    return found["name"], float(scale)


def _unreadable(path: str | os.PathLike[str], why: str) -> CallerError:
    return CallerError(
        "SGK233",
        f"the calibration cache {str(path)!r} cannot be read: {why}",
        hint="The file is damaged or of another kind; calibrate again.",
    )
