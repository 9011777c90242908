"""The parts of a message in the Open Inference Protocol, looked at for form alone."""

import json
import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from subgraphkit.serving.oip.datatypes import refuse

HEADER: Final = "Inference-Header-Content-Length"
"""The HTTP header that says how many bytes of JSON come before binary data."""

_FOREIGN: Final = {"classification", "shared_memory_region"}  # these change what an answer means


def parted(body: Any, header_length: str | int | None) -> tuple[dict[str, Any], memoryview]:
    """Return the JSON of a body and the binary data behind it.

    Raises:
        InputError: They cannot be told apart, or the JSON is no object (SGK343), as from all here.
    """
    view = memoryview(body).cast("B")
    given = str(len(view) if header_length is None else header_length)
    if not re.fullmatch("[0-9]{1,19}", given) or int(given) > len(view):
        refuse(f"{HEADER} is {given[:40]!r}; expected a number up to {len(view)}, the body's bytes")
    try:
        head = json.loads(bytes(view[: int(given)]))
    except (ValueError, RecursionError) as error:
        refuse(f"its {given} bytes of JSON cannot be parsed: {error}")
    if not isinstance(head, dict):
        refuse(f"its JSON is {reprlib.repr(head)}; expected an object")
    return head, view[int(given) :]


def named(listed: Any, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Go through descriptions of tensors, with their names and what errors call them."""
    if not isinstance(listed, list):
        refuse(f"its {key!r} is {reprlib.repr(listed)}; expected a list")
    seen = set()
    for place, one in enumerate(listed):
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name:
            refuse(f"{key}[{place}] is {reprlib.repr(one)}; expected an object with a name")
        if name in seen:
            refuse(f"{key}[{place}] has the name {reprlib.repr(name)} again")
        seen.add(name)
        yield name, one, f"{key[:-1]} {reprlib.repr(name)}"


def parameters(owner: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the parameters of a request or a tensor."""
    found = owner.get("parameters")
    found = {} if found is None else found  # some clients write null for what they leave away
    if not isinstance(found, dict) or any(
        not isinstance(value, str | int | float) for value in found.values()
    ):
        refuse(f"the parameters of {where} are {reprlib.repr(found)}; expected text and numbers")
    if foreign := _FOREIGN & found.keys():
        refuse(f"{where} asks for {min(foreign)}, which is not supported")
    return found


def flag(settings: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a parameter that is true or false."""
    value = settings.get(name, default)
    if not isinstance(value, bool):
        refuse(f"{name} is {reprlib.repr(value)}; expected true or false")
    return value
