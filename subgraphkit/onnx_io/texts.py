"""Models written as text: ONNX's own syntax, JSON and protobuf's text, told apart by their look."""

import re
from collections.abc import Callable
from typing import Final

import onnx
from onnx import parser

from subgraphkit.errors import InvalidModelError

__all__ = ["parse_text"]

_DEEPEST: Final = 1000
"""Brackets within brackets; parsers recurse, and bodies may be nested no deeper than 32."""

_BRACKET: Final = re.compile(r"[](){}[]")
_FIELD: Final = re.compile(r"(?:\s|#[^\n]*\n)*[a-z_]+\s*[:{<]")


def parse_text(text: str, subject: str) -> onnx.ModelProto | None:
    """Parse a model in one of the textual forms that ``onnx.load`` reads.

    Returns:
        The model; None if the text is of none of these forms.

    Raises:
        InvalidModelError: It is of one of them and cannot be read (SGK202).
    """
    found = _form_of(text)
    if found is None:
        return None
    form, parse = found
    problem = _too_deep(text)
    if not problem:
        try:
            return parse(text)
        except Exception as error:  # noqa: BLE001 (each parser has errors of its own)
            problem = str(error).strip() or type(error).__name__
    raise InvalidModelError("SGK202", f"{subject} is not an ONNX model: read as {form}, {problem}")


def _form_of(text: str) -> tuple[str, Callable[[str], onnx.ModelProto]] | None:
    start = text.lstrip()[:1]
    if start == "<":
        return "ONNX's textual syntax", parser.parse_model
    if start == "{":
        return "JSON", _from_json
    return ("protobuf's text", _from_protobuf_text) if _FIELD.match(text) else None


def _from_json(text: str) -> onnx.ModelProto:
    from google.protobuf import json_format  # noqa: PLC0415 (few models are text)

    proto = onnx.ModelProto()
    json_format.Parse(text, proto)
    return proto


def _from_protobuf_text(text: str) -> onnx.ModelProto:
    from google.protobuf import text_format  # noqa: PLC0415 (few models are text)

    proto = onnx.ModelProto()
    text_format.Parse(text, proto)
    return proto


def _too_deep(text: str) -> str:
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "([{" else max(0, depth - 1)
        if depth > _DEEPEST:
            return f"its brackets are nested more than {_DEEPEST} deep"
    return ""
