"""Timings kept in a file: merged, shared, and never believed if damaged.

The library's own timing caches need a GPU; a stand-in for its two classes holds a set of words, as
the library's hold a set of timings.
"""

from dataclasses import replace

import subgraphkit as sk
from backends.tensorrt.tests.tensorrt_models import blocks, context_of, needs_rtx, options, rtx
from subgraphkit.storing import KeptFile
from subgraphkit_tensorrt.building.configuration import attach_timings, keep_timings, timings_for


class Timings:
    """``ITimingCache``: words, each a timing of one kernel."""

    def __init__(self, data):
        self.words = set(data.decode().split())

    def combine(self, other, *, ignore_mismatch):
        assert not ignore_mismatch
        self.words |= other.words
        return True

    def serialize(self):
        return " ".join(sorted(self.words)).encode()


class Config:
    """The part of ``IBuilderConfig`` that knows timings; takes none of another device."""

    def __init__(self, device="one"):
        self.device = device
        self.timings: Timings | None = None

    def create_timing_cache(self, data):
        return Timings(data)

    def set_timing_cache(self, cache, *, ignore_mismatch):
        assert not ignore_mismatch
        if any(not word.startswith(self.device) for word in cache.words):
            return False
        self.timings = cache
        return True

    def get_timing_cache(self):
        return self.timings


def _build(path, *words, device="one"):
    """Build something that times some kernels; return what was known before."""
    file, config = KeptFile(path, "timings"), Config(device)
    attached = attach_timings(file, config)
    known = set(attached.words)
    attached.words.update(f"{device}:{word}" for word in words)
    keep_timings(file, config)
    return known


def test_a_build_knows_what_was_timed_before(tmp_path):
    path = tmp_path / "x.timings"
    assert _build(path, "conv") == set()
    assert _build(path, "gemm") == {"one:conv"}
    assert _build(path) == {"one:conv", "one:gemm"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["x.timings"]


def test_what_others_kept_meanwhile_stays(tmp_path):
    path = tmp_path / "x.timings"
    slow, config = KeptFile(path, "timings"), Config()
    attached = attach_timings(slow, config)
    attached.words.add("one:slow")
    _build(path, "quick")
    keep_timings(slow, config)
    assert _build(path) == {"one:slow", "one:quick"}


def test_timings_of_another_device_are_not_taken(tmp_path):
    path = tmp_path / "x.timings"
    _build(path, "conv")
    assert _build(path, device="two") == set()


@needs_rtx
def test_timings_are_kept_where_engines_are_by_library_and_device(tmp_path):
    graph = sk.bind(sk.load(blocks()), backend="none", cache_dir=str(tmp_path / "kept"))
    library = rtx()
    # TensorRT for RTX has none, so the library passes itself off as the other one.
    other = replace(library, capabilities=replace(library.capabilities, flavour="tensorrt"))
    assert timings_for(context_of(graph, options()), library, "NVIDIA L4") is None
    unwanted = context_of(graph, options(timing_cache=False))
    assert timings_for(unwanted, other, "NVIDIA L4") is None
    found = timings_for(context_of(graph, options()), other, "NVIDIA L4")
    assert found is not None
    _build(found.path, "conv")
    (path,) = (tmp_path / "kept").rglob("*.timings")
    assert path.parent == tmp_path / "kept" / "backends" / "tensorrt"
    assert path.name == f"tensorrt-{library.capabilities.version}-NVIDIA-L4.timings"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.read_bytes().endswith(b"one:conv")
    uncached = sk.bind(sk.load(blocks()), backend="none", cache=False, cache_dir=str(tmp_path))
    assert timings_for(context_of(uncached, options()), other, "NVIDIA L4") is None
