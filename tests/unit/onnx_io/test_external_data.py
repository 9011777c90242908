"""Weights in files beside the model: read late, once, and never from elsewhere."""

import ctypes
import os
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError
from tests.models import parsed

TEXT = "g (float[4] x) => (float[4] y) { y = Add(x, w) }"


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (inside / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return inside


def save(folder, **entries):
    proto = parsed(TEXT)
    tensor = proto.graph.initializer.add(name="w", data_type=1, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def code(path):
    with pytest.raises(InvalidModelError) as refusal:
        sk.load(path).graph.initializers["w"].array()
    return refusal.value.code


def test_data_beside_the_model_is_read_when_asked_for(folder):
    model = sk.load(save(folder, location="w.bin"))
    (folder / "w.bin").write_bytes(np.full(4, 7, np.float32).tobytes())
    np.testing.assert_array_equal(model.graph.initializers["w"].array(), [7, 7, 7, 7])


def test_data_in_a_folder_below_and_at_an_offset_is_found(folder):
    (folder / "data").mkdir()
    (folder / "data" / "w.bin").write_bytes(bytes(8) + np.ones(4, np.float32).tobytes())
    path = save(folder, location="data/w.bin", offset="8", length="16")
    np.testing.assert_array_equal(sk.load(path).graph.initializers["w"].array(), [1, 1, 1, 1])


def link(folder):
    (folder / "evil").symlink_to(folder.parent / "secret")


def linked_folder(folder):
    (folder / "evil").symlink_to(folder.parent)


def link_within_a_linked_folder(folder):
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "data").symlink_to("../secret")
    (folder / "evil").symlink_to("../outside")


def circle(folder):
    (folder / "evil").symlink_to("evil2")
    (folder / "evil2").symlink_to("evil")


def pipe(folder):
    os.mkfifo(folder / "evil")


def subfolder(folder):
    (folder / "evil").mkdir()


@pytest.mark.parametrize(("prepare", "location"), [
    (None, "../secret"),
    (None, "a/../../secret"),
    (None, "/etc/hostname"),
    (None, "..\\secret"),
    (None, "C:secret"),
    (None, "file:secret"),
    (None, ""),
    (None, "w.bin\0"),
    (None, "."),
    (None, "./"),
    (None, ".."),
    (None, "/"),
    (link, "evil"),
    (linked_folder, "evil/secret"),
    (link_within_a_linked_folder, "evil/data"),
    (circle, "evil"),
    (pipe, "evil"),
    (subfolder, "evil"),
])  # fmt: skip
def test_data_outside_the_models_directory_is_never_opened(folder, prepare, location):
    if prepare is not None:
        prepare(folder)
    assert code(save(folder, location=location)) == "SGK210"


def of_ones(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.ones(4, np.float32).tobytes())
    return path


def read(path, **settings):
    model = sk.load(path, **settings)  # type: ignore[arg-type]
    values: list[float] = model.graph.initializers["w"].array().tolist()
    return values


def test_a_link_is_followed_if_it_ends_in_the_models_folder(folder):
    of_ones(folder / "data" / "w.bin")
    (folder / "other").symlink_to("data")
    (folder / "link.bin").symlink_to(folder / "other" / "w.bin")
    assert read(save(folder, location="link.bin")) == [1, 1, 1, 1]


def test_a_hard_link_is_read_only_where_the_caller_trusts_the_folder(folder):
    os.link(of_ones(folder.parent / "store" / "w"), folder / "hard.bin")
    path = save(folder, location="hard.bin")
    with pytest.raises(InvalidModelError, match=r"SGK210.*which has a second name"):
        read(path)
    assert sk.load(path, data_roots=folder).graph.constants["w"].array().tolist() == [1, 1, 1, 1]


def test_the_cache_of_a_hub_is_read_through_its_links(folder):
    snapshot = folder / "snapshots" / "5a1e" / "onnx"
    snapshot.mkdir(parents=True)
    of_ones(folder / "blobs" / "c0de")
    save(folder, location="model.onnx_data").rename(folder / "blobs" / "feed")
    (snapshot / "model.onnx").symlink_to("../../../blobs/feed")
    (snapshot / "model.onnx_data").symlink_to("../../../blobs/c0de")
    assert read(snapshot / "model.onnx") == [1, 1, 1, 1]
    (folder / "current").symlink_to(snapshot)
    assert read(folder / "current" / "model.onnx") == [1, 1, 1, 1]


@pytest.mark.parametrize("form", [str, lambda root: root, lambda root: ["/nowhere", str(root)]])
def test_a_folder_that_is_trusted_may_hold_the_data(folder, form):
    data = of_ones(folder.parent / "store" / "deep" / "w.bin")
    (folder / "w2.bin").symlink_to(data)
    for location in ("w2.bin", str(data), "../store/deep/w.bin"):
        path = save(folder, location=location)
        with pytest.raises(InvalidModelError, match=r"(?s)SGK210.*store/deep.*SUBGRAPH_DATA_ROOTS"):
            sk.load(path)
        assert read(path, data_roots=form(folder.parent / "store")) == [1, 1, 1, 1]


def test_trusted_folders_are_a_setting_like_others(folder, monkeypatch):
    of_ones(folder.parent / "store" / "w.bin")
    path = save(folder, location="../store/w.bin")
    store, feeds = str(folder.parent / "store"), {"x": np.zeros(4, np.float32)}
    with sk.InferenceSession(path, "numpy", data_roots=store) as session:
        np.testing.assert_array_equal(session.run(None, feeds)[0], [1, 1, 1, 1])
    with sk.config(data_roots=[store]):
        model = sk.load(path)
    assert list(model.graph.initializers["w"].array()) == [1, 1, 1, 1]
    monkeypatch.setenv("SUBGRAPH_DATA_ROOTS", os.pathsep.join(["/nowhere", store]))
    assert read(path) == [1, 1, 1, 1]
    with pytest.raises(InvalidModelError, match="SGK210"):
        sk.load(path, data_roots="/nowhere")


def test_trust_in_a_folder_ends_at_its_name(folder):
    of_ones(folder.parent / "store2" / "w.bin")
    with pytest.raises(InvalidModelError, match="SGK210"):
        sk.load(save(folder, location="../store2/w.bin"), data_roots=folder.parent / "store")


@contextmanager
def swapping(one, other):
    """Exchange two folders again and again, each time in one step."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        pytest.skip("the system cannot exchange two folders in one step")
    done = threading.Event()

    def swap():
        while not done.is_set():
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("swapped", ["data", "own"])
def test_a_folder_swapped_for_a_link_during_load_leads_nowhere_else(folder, swapped):
    of_ones(folder / "data" / "w.bin")
    outside = folder.parent / "outside"
    for path in (outside / "w.bin", outside / "data" / "w.bin"):
        of_ones(path).write_bytes(np.full(4, 666, np.float32).tobytes())
    path = save(folder, location="data/w.bin")
    target = folder / "data" if swapped == "data" else folder
    lure = target.with_name("lure")
    lure.symlink_to(outside)
    found: Counter[str] = Counter()
    with swapping(target, lure):
        for _ in range(1000):
            try:
                found[str(read(path))] += 1
            except sk.SubgraphkitError as error:
                found[error.code] += 1
    assert set(found) <= {"[1.0, 1.0, 1.0, 1.0]", "SGK201", "SGK210", "SGK211"}, found
    assert len(found) > 1, "nothing was ever swapped in between"


def test_a_folder_exchanged_after_loading_is_not_read(folder):
    of_ones(folder / "data" / "w.bin")
    of_ones(folder.parent / "outside" / "w.bin")
    model = sk.load(save(folder, location="data/w.bin"))
    (folder / "data").rename(folder / "moved")
    (folder / "data").symlink_to(folder.parent / "outside")
    with pytest.raises(InvalidModelError, match="SGK210"):
        model.graph.initializers["w"].array()


def test_no_descriptor_is_left_open(folder):
    if not Path("/proc/self/fd").exists():
        pytest.skip("the system does not show open descriptors")
    link(folder)
    good, bad = save(folder, location="w.bin"), folder / "bad.onnx"
    bad.write_bytes(save(folder, location="evil").read_bytes())
    save(folder, location="w.bin")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        assert read(good)
        assert code(bad) == "SGK210"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("entries", [
    {"location": "absent.bin"},
    {"location": "w.bin/below"},
    {"location": "x" * 300},
    {"location": "w.bin", "offset": "8"},
    {"location": "w.bin", "offset": "-4"},
    {"location": "w.bin", "offset": "1_0"},
    {"location": "w.bin", "length": "9" * 40},
    {"location": "w.bin", "offset": str(2**62)},
])  # fmt: skip
def test_data_that_is_missing_or_too_short_is_refused(folder, entries):
    assert code(save(folder, **entries)) == "SGK211"


def test_a_length_that_disagrees_with_the_dimensions_is_refused(folder):
    assert code(save(folder, location="w.bin", length="8")) == "SGK208"


def test_data_cut_short_after_loading_is_noticed(folder):
    model = sk.load(save(folder, location="w.bin"))
    (folder / "w.bin").write_bytes(bytes(4))
    with pytest.raises(InvalidModelError, match="SGK211"):
        model.graph.initializers["w"].array()


def test_data_written_over_while_it_is_in_use_is_noticed(folder):
    partitioning = sk.partition(
        sk.bind(sk.load(save(folder, location="w.bin")), backend="numpy", fold=False)
    )
    partitioning.graph.constants["w"].array()  # which nobody holds
    (folder / "w.bin").write_bytes(bytes(16))
    os.utime(folder / "w.bin", (0, 0))
    with pytest.raises(InvalidModelError, match=r"SGK188.*w\.bin"):
        sk.compile_subgraphs(partitioning)


def test_a_model_given_as_bytes_may_not_open_files(folder):
    assert code(save(folder, location="w.bin").read_bytes()) == "SGK210"


def test_strings_outside_the_model_are_refused(folder):
    proto = onnx.load(save(folder, location="w.bin"), load_external_data=False)
    proto.graph.initializer[0].data_type = onnx.TensorProto.STRING
    (folder / "strings.onnx").write_bytes(proto.SerializeToString())
    assert code(folder / "strings.onnx") == "SGK208"


def test_data_that_goes_while_a_session_opens_is_not_the_fault_of_a_backend(folder):
    bound = sk.bind(sk.load(save(folder, location="w.bin")), backend="numpy")
    partitioning = sk.partition(bound)
    (folder / "w.bin").unlink()
    with pytest.raises(InvalidModelError, match="SGK211"):
        sk.compile_subgraphs(partitioning)
