"""The operator table: what TensorRT's documentation says each release takes.

``operators.json`` says which operators no release has, which a flavour of the library lacks, which
versions of the operator set are documented, and by operator of the default domain:

- ``dtypes``: element types, in the words of ``element_types``; ``of`` says of what (input 0 unless
  it says ``output 0``, ``outputs``, ``input 1`` or ``inputs``); ``perhaps`` are types that parsers
  take beyond what is documented; ``older`` has the types of a release and of those before it;
- ``since``: the release that brought the operator; ``opset``: its first version, if above 9;
- ``inside``: inputs that must not come from outside a network, because they are float shape
  tensors;
- ``rules``: what else has to hold, each with a ``kind`` from ``predicates``. A rule whose
  ``severity`` is ``silent_wrong`` holds although the parser takes the node: what it makes of it is
  something else. ``only`` names the flavour a rule is for.

Source: the ONNX operator support pages of TensorRT 8.5, 8.6, 10.0, 10.1, 10.16 and 11.1, and the
parser and builder of TensorRT for RTX 1.7 asked about the official node tests of ONNX 1.23.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.types import DataType
from subgraphkit_tensorrt.rules.element_types import types_of
from subgraphkit_tensorrt.rules.predicates import Rule

__all__ = ["Operator", "OperatorTable", "operator_table"]

_Release = tuple[int, ...]
_OLDEST_OPSET: Final = 9


@dataclass(frozen=True, slots=True)
class Operator:
    """What is known of one operator.

    Attributes:
        name: Its name.
        dtypes: Element types that are documented.
        perhaps: Element types that parsers take all the same.
        typed: Whose element types these are: ``input 0``, ``input 1``, ``inputs``, ``output 0`` or
            ``outputs``.
        since: The release that brought it; empty if all known ones have it.
        opset: Its first version that is taken.
        inside: Inputs that must not come from outside a network.
        rules: What else has to hold.
    """

    name: str
    dtypes: tuple[DataType, ...]
    perhaps: tuple[DataType, ...]
    typed: str
    since: str
    opset: int
    inside: tuple[int, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """The operators of one release.

    Attributes:
        operators: Those it has, by name.
        newer: Those that came later, with the release that brought them.
        missing: Those that no release has, or not this flavour.
        opsets: First and last version of the default operator set that are documented.
    """

    operators: Mapping[str, Operator]
    newer: Mapping[str, str]
    missing: frozenset[str]
    opsets: tuple[int, int]


@cache
def operator_table(generation: _Release, flavour: str) -> OperatorTable:
    """Return the table for a release.

    Args:
        generation: Numbers of the release, such as ``(10, 3, 0)``.
        flavour: Name of the flavour of the library.
    """
    table = _stored()
    operators, newer = {}, {}
    missing = {*table["unsupported"], *table["absent"].get(flavour, ())}
    for name, row in table["operators"].items():
        since = row.get("since", "")
        if name in missing:
            continue
        if since and generation < _numbers(since):
            newer[name] = since
        else:
            operators[name] = _operator(name, row, generation, flavour)
    known = [release for release in table["opsets"] if _numbers(release) <= generation]
    first, last = table["opsets"][max(known, key=_numbers, default=min(table["opsets"]))]
    return OperatorTable(
        MappingProxyType(operators), MappingProxyType(newer), frozenset(missing), (first, last)
    )


@cache
def _stored() -> Any:
    return json.loads(files(__package__).joinpath("operators.json").read_text("utf-8"))


def _operator(name: str, row: Mapping[str, Any], generation: _Release, flavour: str) -> Operator:
    words = row["dtypes"]
    for release, older in row.get("older", {}).items():
        if generation[:2] <= _numbers(release):
            words = older
            break
    return Operator(
        name=name,
        dtypes=types_of(words),
        perhaps=types_of(row.get("perhaps", "")),
        typed=row.get("of", "input 0"),
        since=row.get("since", ""),
        opset=row.get("opset", _OLDEST_OPSET),
        inside=tuple(row.get("inside", ())),
        rules=tuple(
            MappingProxyType(rule)
            for rule in row.get("rules", ())
            if rule.get("only", flavour) == flavour
        ),
    )


def _numbers(release: str) -> _Release:
    return tuple(int(number) for number in release.split("."))
