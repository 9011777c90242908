"""Weights in files beside the model: read late, once, and never from elsewhere."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError
from tests.models import parsed

TEXT = "g (float[4] x) => (float[4] y) { y = Add(x, w) }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (inside / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return inside


def save(folder: Path, **entries: str) -> Path:
    proto = parsed(TEXT)
    tensor = proto.graph.initializer.add(name="w", data_type=1, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def code(path: Path | bytes) -> str:
    with pytest.raises(InvalidModelError) as refusal:
        sk.load(path).graph.initializers["w"].array()
    return refusal.value.code


def test_data_beside_the_model_is_read_when_asked_for(folder: Path) -> None:
    model = sk.load(save(folder, location="w.bin"))
    (folder / "w.bin").write_bytes(np.full(4, 7, np.float32).tobytes())
    np.testing.assert_array_equal(model.graph.initializers["w"].array(), [7, 7, 7, 7])


def test_data_in_a_folder_below_and_at_an_offset_is_found(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "w.bin").write_bytes(bytes(8) + np.ones(4, np.float32).tobytes())
    path = save(folder, location="data/w.bin", offset="8", length="16")
    np.testing.assert_array_equal(sk.load(path).graph.initializers["w"].array(), [1, 1, 1, 1])


def link(folder: Path) -> None:
    (folder / "evil").symlink_to(folder.parent / "secret")


def linked_folder(folder: Path) -> None:
    (folder / "evil").symlink_to(folder.parent)


def hard_link(folder: Path) -> None:
    os.link(folder.parent / "secret", folder / "evil")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "evil")


def subfolder(folder: Path) -> None:
    (folder / "evil").mkdir()


@pytest.mark.parametrize(
    ("prepare", "location"),
    [
        (None, "../secret"),
        (None, "a/../../secret"),
        (None, "/etc/hostname"),
        (None, "..\\secret"),
        (None, "C:secret"),
        (None, "file:secret"),
        (None, ""),
        (None, "w.bin\0"),
        (link, "evil"),
        (linked_folder, "evil/secret"),
        (hard_link, "evil"),
        (pipe, "evil"),
        (subfolder, "evil"),
    ],
)
def test_data_outside_the_models_directory_is_never_opened(
    folder: Path, prepare: Callable[[Path], None] | None, location: str
) -> None:
    if prepare is not None:
        prepare(folder)
    assert code(save(folder, location=location)) == "SGK210"


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "absent.bin"},
        {"location": "w.bin", "offset": "8"},
        {"location": "w.bin", "offset": "-4"},
        {"location": "w.bin", "offset": "1_0"},
        {"location": "w.bin", "length": "9" * 40},
        {"location": "w.bin", "offset": str(2**62)},
    ],
)
def test_data_that_is_missing_or_too_short_is_refused(
    folder: Path, entries: dict[str, str]
) -> None:
    assert code(save(folder, **entries)) == "SGK211"


def test_a_length_that_disagrees_with_the_dimensions_is_refused(folder: Path) -> None:
    assert code(save(folder, location="w.bin", length="8")) == "SGK208"


def test_data_cut_short_after_loading_is_noticed(folder: Path) -> None:
    model = sk.load(save(folder, location="w.bin"))
    (folder / "w.bin").write_bytes(bytes(4))
    with pytest.raises(InvalidModelError, match="SGK211"):
        model.graph.initializers["w"].array()


def test_a_model_given_as_bytes_may_not_open_files(folder: Path) -> None:
    assert code(save(folder, location="w.bin").read_bytes()) == "SGK210"


def test_strings_outside_the_model_are_refused(folder: Path) -> None:
    proto = onnx.load(save(folder, location="w.bin"), load_external_data=False)
    proto.graph.initializer[0].data_type = onnx.TensorProto.STRING
    (folder / "strings.onnx").write_bytes(proto.SerializeToString())
    assert code(folder / "strings.onnx") == "SGK208"
