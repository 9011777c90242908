"""Plans: what the builder made, for which shapes, and how it is written down and read.

The written form is a line that says what it is, a JSON description, and the bytes as they came from
the builder; a plan is looked at before any library sees it.
"""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from subgraphkit.backend import Answer, EngineOrigin, Refusal
from subgraphkit.errors import CompileError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.capabilities import release_of

_MAGIC: Final = b"subgraphkit-tensorrt plans 2\n"
_LENGTH: Final = struct.Struct("<Q")
_HEADS: Final = {b"ftrt": "tensorrt", b"vtrt": "tensorrt_rtx"}
_HEADER: Final = 28
_SIZE_AT: Final = 16
_VERSION_AT: Final = 24


@dataclass(frozen=True, eq=False)
class EnginePlan:
    """One engine as the builder serialized it.

    Attributes:
        data: The bytes; empty once an engine that can write them again was loaded from them.
        inputs: Names of its inputs, in the order of ``subgraph.inputs``. They are those of the
            subgraph it was built for; an equal one that finds it stored goes by the order.
        profiles: The ranges it takes, each by place in ``inputs``; TensorRT calls every one an
            optimization profile, and counts them in this order.
        needs_weights: Whether weights have to be put into it before it can run.
    """

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    profiles: tuple[tuple[InputRange, ...], ...]
    needs_weights: bool = False
    report: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Say whether one of its ranges has inputs of these shapes, in its order."""
        return any(
            all(one.covers(shape) for one, shape in zip(ranges, shapes, strict=True))
            for ranges in self.profiles
        )


def write_plans(plans: Sequence[EnginePlan]) -> bytes:
    """Write plans, for the engine cache or a bundle."""
    described = [
        {
            "size": len(plan.data),
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "profiles": [[one.to_json() for one in ranges] for ranges in plan.profiles],
            "needs_weights": plan.needs_weights,
            "report": plan.report,
        }
        for plan in plans
    ]
    head = json.dumps(described, allow_nan=False).encode()
    return b"".join([_MAGIC, _LENGTH.pack(len(head)), head, *(plan.data for plan in plans)])


def read_plans(blob: bytes) -> list[EnginePlan]:
    """Read what ``write_plans`` wrote.

    Raises:
        CompileError: It is something else, or not whole (SGK179).
    """
    try:
        return _read(memoryview(blob))
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise CompileError(
            "SGK179",
            f"these are no stored plans of backend 'tensorrt': {error}",
            backend="tensorrt",
            hint="Build them again.",
        ) from error


def _read(blob: memoryview) -> list[EnginePlan]:
    start = len(_MAGIC)
    if bytes(blob[:start]) != _MAGIC:
        raise ValueError("they begin otherwise")
    (length,) = _LENGTH.unpack_from(blob, start)
    place = start + _LENGTH.size + length
    described = json.loads(bytes(blob[start + _LENGTH.size : place]))
    plans = []
    for one in described:
        data = bytes(blob[place : place + one["size"]])
        if len(data) != one["size"]:
            raise ValueError("they end early")
        place += len(data)
        plans.append(
            EnginePlan(
                data,
                tuple(one["inputs"]),
                tuple(one["outputs"]),
                tuple(tuple(map(InputRange.from_json, ranges)) for ranges in one["profiles"]),
                bool(one["needs_weights"]),
                one["report"],
            )
        )
    if place != len(blob):
        raise ValueError("something follows them")
    return plans


def plan_problem(
    data: bytes, flavour: str, version: str, *, version_compatible: bool = False
) -> str:
    """Look at the header of a plan, without the library.

    Source:
        Headers of plans of TensorRT for RTX 1.7: four letters, the size at byte 16, and the version
        of the builder at byte 24, one byte per number.
    """
    if len(data) < _HEADER:
        return f"it has {len(data)} bytes, fewer than a header"
    head = _HEADS.get(data[:4])
    if head is None:
        return "it does not begin like a plan"
    if (head == "tensorrt_rtx") != (flavour == "tensorrt_rtx"):
        return f"it is a plan of {head}, and {flavour} is in use"
    (size,) = struct.unpack_from("<I", data, _SIZE_AT)
    if size != len(data) % 2**32:
        return f"it has {len(data)} bytes, and says {size}"
    made_by = tuple(data[_VERSION_AT : _VERSION_AT + 4])
    here = release_of(version)[: len(made_by)]
    if not version_compatible and here and made_by[: len(here)] != here:
        return f"it was built by version {'.'.join(map(str, made_by))}, and {version} is in use"
    return ""


_DRIVER: Final = re.compile(r"(.*),cuda(\d+)\.(\d+)")
_RUNTIMES: Final = frozenset({"tensorrt", "tensorrt_lean", "tensorrt_dispatch"})
_NEXT_MAJOR: Final = {10: 11}
"""The major versions whose runtimes take version-compatible engines of an older one."""


def engine_fits(made: EngineOrigin, here: EngineOrigin, options: Options) -> Answer:
    """Say whether an engine fits."""
    flavour, version, target, others = _parts(made.fingerprint)
    flavour_here, version_here, target_here, others_here = _parts(here.fingerprint)
    problem = (
        ("they were built for another system" if made.system != here.system else "")
        or _version_problem((flavour, version), (flavour_here, version_here), options)
        or _device_problem(target, target_here)
    )
    if not problem and others != others_here:
        problem = "plugin libraries or converters differ"
    if not problem and made.implementation != here.implementation:
        problem = "another version of the backend wrote them"
    return Refusal("engine_does_not_fit", problem) if problem else True


def _parts(fingerprint: str) -> tuple[str, str, str, str]:
    """Return flavour, version, target and the rest; see ``TensorRTBackend.fingerprint``."""
    flavour, version, target, rest = (fingerprint.split(";", 3) + [""] * 4)[:4]
    return flavour, version, target, rest


def _version_problem(made: tuple[str, str], here: tuple[str, str], options: Options) -> str:
    if made == here:
        return ""
    if not {made[0], here[0]} <= _RUNTIMES:
        other = "version of the library" if made[0] == here[0] else "library"
        return f"they were built by another {other}"
    if not options.version_compatible:
        return (
            "they run on the library they were built with; version_compatible=true builds for "
            "newer ones and for the lean and dispatch runtimes"
        )
    then, now = release_of(made[1]), release_of(here[1])
    if not then or not now or now < then:
        return "they run on libraries no older than the one they were built with"
    if now[0] not in (then[0], _NEXT_MAJOR.get(then[0])):
        return f"libraries of major version {now[0]} do not take them"
    return ""


def _device_problem(made: str, here: str) -> str:
    if made == here:
        return ""
    then, now = _DRIVER.fullmatch(made), _DRIVER.fullmatch(here)
    if then is None or now is None or then[1] != now[1]:
        return "they were built for another GPU"
    if (int(now[2]), int(now[3])) < (int(then[2]), int(then[3])):
        return "the driver here is older than where they were built"
    return ""
