"""Plans: what the builder made, for which shapes, and how it is written down and read.

A written plan has three parts: a line that says what it is, a JSON description, and the bytes from
the builder. A plan is checked before any library sees it.
"""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from subgraphkit.backend import Answer, EngineOrigin, Refusal
from subgraphkit.errors import CompileError
from subgraphkit_tensorrt.building.profiles import InputRange

_MAGIC: Final = b"subgraphkit-tensorrt plans 3\n"
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True, eq=False)
class EnginePlan:
    """One engine as the builder serialized it.

    Attributes:
        data: The bytes; empty once an engine that can write them again was loaded from them.
        inputs: Names of its inputs, in the order of ``subgraph.inputs``. They are those of the
            subgraph it was built for. An equal subgraph that finds it stored uses the order alone.
        profiles: The ranges it takes, each by place in ``inputs``; TensorRT calls every one an
            optimization profile, and counts them in this order.
    """

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    profiles: tuple[tuple[InputRange, ...], ...]
    report: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Say whether one of its ranges has inputs of these shapes, in its order."""
        rows = (zip(ranges, shapes, strict=True) for ranges in self.profiles)
        return any(all(one.covers(shape) for one, shape in row) for row in rows)


def write_plans(plans: Sequence[EnginePlan]) -> bytes:
    """Write plans, for the engine cache or a bundle."""
    described = [
        {
            "size": len(plan.data),
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "profiles": [[one.to_json() for one in ranges] for ranges in plan.profiles],
            "report": plan.report,
        }
        for plan in plans
    ]
    head = json.dumps(described, allow_nan=False).encode()
    return b"".join([_MAGIC, _LENGTH.pack(len(head)), head, *(plan.data for plan in plans)])


def read_plans(blob: bytes) -> list[EnginePlan]:
    """Read what ``write_plans`` wrote; CompileError (SGK179) if it is other, or not whole."""
    try:
        return _read(memoryview(blob))
    except (ValueError, KeyError, TypeError, struct.error) as error:
        text = f"these are no stored plans of backend 'tensorrt': {error}"
        raise CompileError("SGK179", text, backend="tensorrt", hint="Build them again.") from error


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
                one["report"],
            )
        )
    if place != len(blob):
        raise ValueError("something follows them")
    return plans


_DRIVER: Final = re.compile(r"(.*),cuda(\d+)\.(\d+)")


def engine_fits(made: EngineOrigin, here: EngineOrigin) -> Answer:
    """Say whether an engine fits."""
    then, now = _parts(made.fingerprint), _parts(here.fingerprint)
    libraries = f"they were built by {' '.join(then[:2])}, and {' '.join(now[:2])} is in use"
    problems = (
        (made.system != here.system, "they were built for another system"),
        (then[:2] != now[:2], libraries),
        (bool(problem := _device_problem(then[2], now[2])), problem),
        (then[3] != now[3], "plugin libraries or converters differ"),
        (made.implementation != here.implementation, "another version of the backend wrote them"),
    )
    found = next((text for is_so, text in problems if is_so), "")
    return Refusal("engine_does_not_fit", found) if found else True


def _parts(fingerprint: str) -> list[str]:
    """Return flavour, version, target and the rest; see ``TensorRTBackend.fingerprint``."""
    return (fingerprint.split(";", 3) + [""] * 4)[:4]


def _device_problem(made: str, here: str) -> str:
    if made == here:
        return ""
    then, now = _DRIVER.fullmatch(made), _DRIVER.fullmatch(here)
    if then is None or now is None or then[1] != now[1]:
        return "they were built for another GPU"
    if (int(now[2]), int(now[3])) < (int(then[2]), int(then[3])):
        return "the driver here is older than where they were built"
    return ""
