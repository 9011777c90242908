"""Calibration caches of TensorRT's implicit quantisation, which newer versions no longer read.

The text has a header, ``TRT-8601-EntropyCalibration2``, and a line per value: its name, a colon,
and eight hexadecimal digits, the bits of the scale as a big-endian float32. The scale is the
threshold by 127. Values that TensorRT made up itself are named there, too; they do no harm.

Source: the files that TensorRT 8 and 10 write through ``IInt8Calibrator.write_calibration_cache``.
"""

import math
import os
import re
import struct
from pathlib import Path
from typing import Final

from subgraphkit.errors import CallerError
from subgraphkit.rewriting.ranges import Range, Ranges

__all__ = ["is_calibration_cache", "read_calibration_cache"]

_HEADER: Final = re.compile(r"TRT-\d+-(Entropy|MinMax|Legacy)?Calibration2?")
_LINE: Final = re.compile(r"(?P<name>.+): (?P<bits>[0-9a-fA-F]{8})")


def is_calibration_cache(path: str | os.PathLike[str]) -> bool:
    """Say whether a file begins as a calibration cache does.

    Raises:
        CallerError: The file does not exist or cannot be opened (SGK233).
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"TRT-"
    except FileNotFoundError:
        raise CallerError(
            "SGK233",
            f"the ranges or calibration cache {str(path)!r} do not exist",
            hint="Make them with 'subgraphkit calibrate', or correct the path.",
        ) from None
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from error


def read_calibration_cache(path: str | os.PathLike[str]) -> Ranges:
    """Read a calibration cache that TensorRT wrote.

    Thresholds are per value, so weights are still measured channel by channel.

    Args:
        path: The file.

    Returns:
        The ranges, of an unknown model.

    Raises:
        CallerError: The file cannot be opened or a line of it is damaged (SGK233).
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error)) from error
    if not lines or not _HEADER.fullmatch(lines[0].strip()):
        first = lines[0][:40] if lines else ""
        raise _unreadable(
            path, f"line 1 is {first!r}, expected a header such as TRT-8601-EntropyCalibration2"
        )
    values: dict[str, Range] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        name, scale = _entry(path, number, line)
        if name in values:
            raise _unreadable(path, f"line {number} names {name!r} again")
        values[name] = Range(scale * 127, "imported")
    return Ranges(values)


def _entry(path: str | os.PathLike[str], number: int, line: str) -> tuple[str, float]:
    found = _LINE.fullmatch(line.rstrip())
    if found is None:
        raise _unreadable(
            path, f"line {number} is {line[:60]!r}, expected a name, ': ' and 8 hexadecimal digits"
        )
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
