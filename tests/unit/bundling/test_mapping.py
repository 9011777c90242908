"""Bundles whose weights are mapped: when they are, what that changes, and what it must not."""

import hashlib
import mmap
import os
import time
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from subgraphkit.bundling import reading
from subgraphkit.errors import SubgraphkitError
from subgraphkit.storing.kept_files import Answers
from tests.models import parsed

_LIBRARIES = {"numpy": "numpy", "onnxruntime": "onnxruntime", "openvino": "openvino"}
INSTALLED = [name for name, module in _LIBRARIES.items() if find_spec(module)]
X = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
IDS = np.array([3, 1, 60])


def dense(seed=1, rows=64):
    """Return a model that multiplies by a weight and looks another one up."""
    model = parsed(
        f"""
        dense (float[N, 64] x, int64[M] ids) => (float[N, 64] y, float[M, {rows}] z) {{
          a = MatMul(x, w)
          y = Add(a, b)
          z = Gather(table, ids)
        }}
        """
    )
    rng = np.random.default_rng(seed)
    for name, shape in (("w", (64, 64)), ("b", (64,)), ("table", (64, rows))):
        weight = rng.random(shape, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


def exported(model, backend, folder, **more):
    with sk.InferenceSession(model, backend, on_fallback="ok") as session:
        session.export(folder, **more)
    return folder


def answers(session):
    return session.run(None, {"x": X, "ids": IDS})


def is_mapped(session):
    array = session.graph.constants["w"].array()
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) else base
    return isinstance(held, mmap.mmap)


@pytest.mark.parametrize("backend", INSTALLED)
def test_mapped_and_read_the_same_bits_come_out(backend, tmp_path):
    bundle = exported(dense(), backend, tmp_path / "bundle")
    with sk.InferenceSession(bundle) as session:
        mapped = answers(session)
    bundle.chmod(0o770)
    with sk.InferenceSession(bundle, trust=True) as session:
        read = answers(session)
    for one, other in zip(mapped, read, strict=True):
        assert one.tobytes() == other.tobytes()


def test_weights_of_ones_own_bundle_are_mapped_and_aligned(tmp_path):
    bundle = exported(dense(), "numpy", tmp_path / "bundle")
    (file,) = bundle.glob("weights.*.bin")
    assert file.stat().st_size % 4096 == 0
    with sk.InferenceSession(bundle) as session:
        assert is_mapped(session)
        for name in ("w", "table"):
            stored = session.graph.constants[name]
            array = stored.array()
            assert array.ctypes.data % 64 == 0
            assert not array.flags.writeable
            path, start = stored.mapped or (Path(), 0)
            assert path.read_bytes()[start : start + array.nbytes] == array.tobytes()


class _Counted:
    """Stands for ``hashlib`` and counts the bytes of large pieces that are hashed."""

    def __init__(self):
        self.large = 0

    def sha256(self, data=b""):
        hasher, counted = hashlib.sha256(data), self

        class Hasher:
            hexdigest = hasher.hexdigest

            def update(self, piece):
                counted.large += len(piece)
                hasher.update(piece)

        return Hasher()


@pytest.fixture
def counted(monkeypatch):
    """Count what is hashed, in a process that remembers nothing; every file is settled."""
    counted = _Counted()
    monkeypatch.setattr(reading, "hashlib", counted)
    monkeypatch.setattr(reading, "_VERIFIED", Answers("verified"))
    monkeypatch.setattr(reading, "_SETTLED", -1)
    return counted


def test_an_unchanged_file_is_not_hashed_again(tmp_path, counted, monkeypatch):
    bundle = exported(dense(), "numpy", tmp_path / "bundle")
    (file,) = bundle.glob("weights.*.bin")
    size = file.stat().st_size
    expected = [size, 0, 0, size, size]
    for process in ("first", "first", "second", "keeps nothing", "keeps nothing either"):
        if process != "first":
            monkeypatch.setattr(reading, "_VERIFIED", Answers("verified"))
        with sk.InferenceSession(bundle, cache="nothing" not in process) as session:
            assert is_mapped(session)
        assert counted.large == expected.pop(0), process
        counted.large = 0


@pytest.mark.parametrize("how", ["written in place", "copied over with its times", "put in place"])
def test_a_file_that_was_changed_since_it_was_hashed_is_found_out(how, tmp_path, counted):
    bundle = exported(dense(), "numpy", tmp_path / "bundle")
    (file,) = bundle.glob("weights.*.bin")
    sk.InferenceSession(bundle).close()
    before, data = file.stat(), bytearray(file.read_bytes())
    data[100] ^= 1
    time.sleep(0.02)  # so long a clock of files may take to tick
    if how == "put in place":
        (tmp_path / "other").write_bytes(data)
        (tmp_path / "other").replace(file)
    else:
        file.write_bytes(data)
    if how != "written in place":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(SubgraphkitError, match="SGK182"):
        sk.InferenceSession(bundle)
    assert counted.large > len(data)


def test_what_others_can_write_is_read_and_not_mapped(tmp_path):
    bundle = exported(dense(), "numpy", tmp_path / "bundle")
    (file,) = bundle.glob("weights.*.bin")
    for path, mode in ((bundle, 0o777), (file, 0o666), (file, 0o660)):
        kept = path.stat().st_mode
        path.chmod(mode)
        with sk.InferenceSession(bundle, trust=True) as session:
            assert not is_mapped(session)
        path.chmod(kept)


@pytest.mark.parametrize("backend", INSTALLED)
def test_a_bundle_that_is_replaced_while_it_is_mapped_keeps_answering(backend, tmp_path):
    bundle = exported(dense(1), backend, tmp_path / "bundle")
    with sk.InferenceSession(bundle) as session:
        before = answers(session)
        exported(dense(2), backend, bundle, overwrite=True)
        for one, other in zip(before, answers(session), strict=True):
            assert one.tobytes() == other.tobytes()
        session.export(tmp_path / "again")
    with sk.InferenceSession(tmp_path / "again") as session:
        np.testing.assert_equal(before, answers(session))


@pytest.mark.skipif("onnxruntime" not in INSTALLED, reason="it is about a library that copies")
class TestLettingGo:
    """Weights of a model in a file, once a library has copies of its own."""

    @staticmethod
    def model(folder):
        path = folder / "m.onnx"
        onnx.save(dense(rows=8192), path)
        return path

    def test_they_are_let_go_and_come_back_when_they_are_needed(self, tmp_path):
        path = self.model(tmp_path)
        with sk.InferenceSession(path, "onnxruntime") as session:
            expected = answers(session)
            table = session.graph.constants["table"].array()
            np.testing.assert_array_equal(expected[1], table[IDS])
            held = weakref.ref(table)
            del table
            assert held() is None
            session.export(tmp_path / "bundle")
            w = np.eye(64, dtype=np.float32)
            session.update_weights({"w": w})
            np.testing.assert_array_equal(answers(session)[1], expected[1])
        with sk.InferenceSession(tmp_path / "bundle") as session:
            np.testing.assert_equal(expected, answers(session))

    def test_a_file_that_was_changed_is_no_source_of_them(self, tmp_path):
        path = self.model(tmp_path)
        status = path.stat()
        with sk.InferenceSession(path, "onnxruntime") as session:
            expected = answers(session)
            onnx.save(dense(seed=2, rows=8192), path)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            with pytest.raises(SubgraphkitError, match=r"SGK188.*m\.onnx"):
                session.export(tmp_path / "bundle")
            np.testing.assert_equal(expected, answers(session))
            path.unlink()
            with pytest.raises(sk.errors.CallerError, match="SGK192"):
                _ = session.spec

    def test_a_model_that_is_in_no_file_keeps_them(self, tmp_path):
        onnx_ir = pytest.importorskip("onnx_ir", reason="a model of another library")
        proto = dense(rows=8192)
        onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "data.bin")
        onnx.save(proto, tmp_path / "m.onnx")
        (tmp_path / "model").touch()
        with sk.InferenceSession(onnx_ir.load(tmp_path / "m.onnx"), "onnxruntime") as session:
            session.export(tmp_path / "bundle")
            expected = answers(session)
        with sk.InferenceSession(tmp_path / "bundle") as session:
            np.testing.assert_equal(expected, answers(session))

    def test_a_model_that_somebody_has_loaded_keeps_them(self, tmp_path):
        path = self.model(tmp_path)
        model = sk.load(path)
        with sk.InferenceSession(model, "onnxruntime") as session:
            path.unlink()
            session.export(tmp_path / "bundle")
