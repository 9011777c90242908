"""Models written as text, in each form that ``onnx.load`` reads."""

import io
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError
from tests.models import CHAIN, parsed

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
FORMS = {"onnxtxt": "m.onnxtxt", "json": "m.json", "textproto": "m.textproto"}


def written(form: str) -> str:
    text = onnx.serialization.registry.get(form).serialize_proto(parsed(CHAIN))
    return text.decode()


def as_path(text: str, folder: Path) -> object:
    (folder / "m.txt").write_text(text)
    return folder / "m.txt"


def as_bytes(text: str, folder: Path) -> object:
    return text.encode()


def as_stream_of_text(text: str, folder: Path) -> object:
    return io.StringIO(text)


def as_stream_of_bytes(text: str, folder: Path) -> object:
    return io.BytesIO(text.encode())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("give", [as_path, as_bytes, as_stream_of_text, as_stream_of_bytes])
def test_each_form_of_text_is_loaded_like_any_model(
    form: str, give: Callable[[str, Path], object], tmp_path: Path
) -> None:
    model = sk.load(give(written(form), tmp_path))  # type: ignore[arg-type]
    assert [node.op_type for node in model.graph.nodes] == [
        node.op_type for node in parsed(CHAIN).graph.node
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Relu", "looks like text"),
        (f"{HEADER} g (float x) => (float y) {{ y = Rely(x) }}", "SGK207"),
        (f"{HEADER} g (float x) => ", "SGK202.*read as ONNX's textual syntax"),
        ('{"irVersion": "8", "graf": {}}', "SGK202.*read as JSON.*graf"),
        ("{}", "SGK202.*no IR version"),
        ("ir_version: 8 graf {}", "SGK202.*read as protobuf's text.*graf"),
        ("{" * 100_000, "SGK202.*nested more than 1000 deep"),
        ('{"graph": ' * 500 + "}" * 500, "SGK202.*read as JSON"),
        (f"{HEADER} g (float x) => (float y) {{ y = If <b = " + "g () => () { y = If <b = " * 900,
         "SGK202"),
        ("graph { " * 400, "SGK202"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_model_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidModelError, match=f"(?s){told}"):
        sk.load(text.encode())
