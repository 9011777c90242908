"""The parts of a message in the Open Inference Protocol, looked at for form alone.

msgspec reads the JSON into these forms and leaves the values of tensors as they were sent.
``json_values`` reads them in pieces, into the arrays themselves.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from subgraphkit.serving.oip.datatypes import refuse

HEADER: Final = "Inference-Header-Content-Length"
"""The HTTP header that says how many bytes of JSON come before binary data."""

_FOREIGN: Final = {"classification", "priority", "sequence_id", "shared_memory_region"}
"""Parameters that change the meaning of an answer, or its time."""

_NO_NUMBERS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|NaN|Infinity')
_AS_NUMBERS: Final = {b"NaN": b"0e99999999", b"Infinity": b"1e99999999"}
"""Words that are not in JSON but that Triton reads, as numbers that nobody writes."""
_MOST_ODD: Final = 64 << 10
"""Bytes of JSON in which such words are looked for: it takes far longer than to read it."""

Parameters = dict[str, str | int | float | bool] | None
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class OutputForm(msgspec.Struct):
    """An output that is asked for."""

    name: _Name
    parameters: Parameters = None


class TensorForm(msgspec.Struct):
    """A tensor: its values are JSON that nobody has read, or binary data behind it."""

    name: _Name
    datatype: str
    shape: list[Annotated[int, msgspec.Meta(ge=0)]]
    parameters: Parameters = None
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class RequestForm(msgspec.Struct):
    """The JSON of a request."""

    inputs: list[TensorForm]
    outputs: list[OutputForm] | None = None
    id: str | None = None
    parameters: Parameters = None


class ChangeForm(msgspec.Struct):
    """The JSON of a request to load or unload a model."""

    parameters: dict[str, Any] | None = None


class ResponseForm(msgspec.Struct):
    """The JSON of an answer, as far as a client reads it."""

    outputs: list[TensorForm]


_Form = TypeVar("_Form")
_Named = TypeVar("_Named", TensorForm, OutputForm)


def split_body(
    body: Any, header_length: str | int | None, form: type[_Form]
) -> tuple[_Form, memoryview]:
    """Return a body's JSON and the data behind it; InputError (SGK343), as from all here."""
    view = memoryview(body).cast("B")
    given = str(len(view) if header_length is None else header_length)
    if not re.fullmatch("[0-9]{1,19}", given) or int(given) > len(view):
        refuse(f"{HEADER} is {given[:40]!r}; expected a number up to {len(view)}, the body's bytes")
    text: Any = view[: int(given)]
    if len(text) <= _MOST_ODD and re.search(b"NaN|Infinity", text):
        text = _NO_NUMBERS.sub(lambda found: _AS_NUMBERS.get(found[0], found[0]), text)
    try:
        return msgspec.json.decode(text, type=form), view[int(given) :]
    except (ValueError, RecursionError) as error:  # msgspec's own are the former
        refuse(f"its {given} bytes of JSON cannot be parsed: {error}")


def name_tensors(listed: Sequence[_Named], key: str) -> Iterator[tuple[_Named, str]]:
    """Go through descriptions of tensors, with their names in errors."""
    seen = set()
    for place, one in enumerate(listed):
        if one.name in seen:
            refuse(f"{key}[{place}] has the name {reprlib.repr(one.name)} again")
        seen.add(one.name)
        yield one, f"{key[:-1]} {reprlib.repr(one.name)}"


def parameters(given: Parameters, where: str) -> Mapping[str, str | int | float | bool]:
    """Return the parameters of a request or a tensor; some clients write 0 for none."""
    found = given or {}
    if foreign := {name for name in _FOREIGN & found.keys() if found[name]}:
        refuse(f"{where} asks for {min(foreign)}, which is not supported")
    return found


def flag(settings: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a parameter that is true or false."""
    value = settings.get(name, default)
    if not isinstance(value, bool):
        refuse(f"{name} is {reprlib.repr(value)}; expected true or false")
    return value
