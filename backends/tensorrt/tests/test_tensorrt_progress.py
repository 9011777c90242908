"""Reports of how far a build is, and how it is stopped."""

import os
import signal
import time

import onnx
import pytest

from backends.tensorrt.tests.tensorrt_models import (
    blocks,
    bound,
    build_engine,
    cut,
    needs_rtx,
    options,
    rtx,
    whole,
)
from subgraphkit.backend import Progress, ProgressEvent
from subgraphkit.testing.light_models import light_model_path
from subgraphkit_tensorrt.building import build
from subgraphkit_tensorrt.building.build import monitor_for
from tests.interrupting import heard

RANGES = {"batch": (1, 8, 32), "seq": (16, 128, 512)}


@needs_rtx
def test_the_phases_are_reported_with_how_much_of_the_outermost_is_done():
    events: list[ProgressEvent] = []
    progress = Progress(events.append)
    told = monitor_for(rtx().trt, "x", progress)
    told.phase_start("Building engine", None, 4)
    assert told.step_complete("Building engine", 0) is True
    told.phase_start("Optimizing graph", "Building engine", 2)
    told.step_complete("Optimizing graph", 0)
    told.step_complete("Building engine", 0)  # which is not less than before
    told.phase_finish("Optimizing graph")
    told.step_complete("Building engine", 2)
    told.phase_finish("Building engine")
    assert {(one.phase, one.total, one.cancelled) for one in events} == {("x", 100, False)}
    assert [(one.done, one.message) for one in events] == [
        (0, "Building engine"),
        (25, "Building engine"),
        *[(25, "Optimizing graph")] * 3,
        (25, "Building engine"),
        (75, "Building engine"),
        (100, ""),
    ]
    progress.cancel()
    assert told.step_complete("Optimizing graph", 1) is False
    assert events[-1].cancelled


@needs_rtx
def test_a_real_build_reports_all_of_its_way():
    seen: list[ProgressEvent] = []
    subgraph = cut(bound(blocks((5,))), 0)
    build_engine(subgraph, options(dims=RANGES), rtx(), listener=seen.append)
    assert len(seen) > 10
    assert {one.phase for one in seen} == {f"TensorRT builds {subgraph.id}"}
    done = [one.done for one in seen]
    assert done == sorted(done)
    assert done[-1] == 100


@needs_rtx
def test_a_listener_that_fails_stops_the_build_and_its_error_is_raised():
    def fail(event):
        raise MemoryError("in the callback")

    with pytest.raises(MemoryError, match="in the callback"):
        build_engine(cut(bound(blocks((6,))), 0), options(dims=RANGES), rtx(), listener=fail)


@needs_rtx
def test_ctrl_c_stops_a_build_and_leaves_the_process_usable():
    told: list[ProgressEvent] = []

    def listen(event):
        if not told:  # the builder is at work, and not the parser before it
            os.kill(os.getpid(), signal.SIGINT)
        told.append(event)

    subgraph = whole(onnx.load(light_model_path("densenet121")))
    with heard():
        handler = signal.getsignal(signal.SIGINT)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            build_engine(subgraph, options(), rtx(), listener=listen)
        assert time.monotonic() - started < 60
        assert signal.getsignal(signal.SIGINT) is handler
    assert told[-1].done < 100
    assert build_engine(cut(bound(blocks((7,))), 0), options(dims=RANGES), rtx()).data


def test_what_another_handler_of_ctrl_c_raises_stops_a_build():
    def handler(number, frame):
        raise SystemExit(number)

    before = signal.signal(signal.SIGINT, handler)
    progress = Progress()
    try:
        with build.cancellable(progress):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(SystemExit):
        progress.check()
