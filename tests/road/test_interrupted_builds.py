"""Ctrl-C or a time limit at a random instant of a build: it ends, and leaves nothing half done.

``--interrupted-builds 100`` is the full check, on every backend and SqueezeNet, or its first ten
nodes; what is always made is one of each kind on a small network. Every build is a process of its
own, forked from one that has imported what any of them needs but the library; with ``-s`` each
tells of its end.
"""

import os
import random
import signal
import subprocess
import sys
import time
from functools import cached_property

import numpy as np
import onnx
import pytest
from onnx.utils import Extractor

import subgraphkit as sk
from subgraphkit.compiling.caching.store import EngineStore
from subgraphkit.storing.kept_files import signing_key
from subgraphkit.testing import light_models as light
from tests.models import CHAIN, parsed
from tests.ready import python_command

PATIENCE = 5.0
"""Seconds from Ctrl-C, or from the end of the time limit, to the end of the program."""

ENDLESS = 120.0
"""Seconds after which a program is ended from outside, so that the others are still tried."""

TENSORRT = "tensorrt:flavour=tensorrt_rtx:build_only=true"
BACKENDS = ("numpy", "onnxruntime", "openvino", "onednn", "tvm", "iree", TENSORRT)
FEW = 2
"""Instants up to which the small network is built, on the backends that open quickly."""

ENVIRONMENT = dict(os.environ)
"""As it was before a library changed it: with another there would be no fork."""

INTERRUPTED, TIMED_OUT, BROKEN = 130, 6, 3
HEARING = """import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
print("listening", flush=True)
from subgraphkit.cli import main
"""
TIMED = """import time
import subgraphkit
class Clock:
    @subgraphkit.hookimpl
    def subgraphkit_progress(self, event):
        if event.phase == "compiling" and not event.done:
            print("began", time.monotonic(), flush=True)
            subgraphkit.unregister_extension("clock")
subgraphkit.register_extension(Clock(), "clock")
"""
ENDING = "sys.exit(main())"


class _Builds:
    """Builds of one model on one backend, each in a process and with a cache of its own."""

    def __init__(self, model, backend, folder):
        self.model, self.backend, self._folder = model, backend, folder
        self._count = 0
        self.late: list[float] = []

    def note(self, what, after, late, status):
        """Keep how long a build went on after it was told to end, and tell of it."""
        self.late.append(late)
        sys.stdout.write(f"{self.backend}: {what} after {after:.3f} s, ")
        sys.stdout.write(f"ended {late:.2f} s later with status {status}\n")
        sys.stdout.flush()

    def begun(self, limit=None):
        """Return a process that hears signals from now on."""
        self._count += 1
        self.cache = self._folder / str(self._count)
        words = ["build", os.fspath(self.model), "--backend", self.backend]
        settings = {"SUBGRAPH_CACHE_DIR": os.fspath(self.cache)}
        if limit is not None:
            settings["SUBGRAPH_TIMEOUT_S"] = str(limit)
        self._said = self._folder / f"{self._count}.txt"
        program = HEARING + ("" if limit is None else TIMED) + ENDING
        with self._said.open("wb") as said:  # no pipe, which a compiler of C could keep open
            command, env = python_command("-c", program, *words), {**ENVIRONMENT, **settings}
            process = subprocess.Popen(command, env=env, stdout=said, stderr=said)
        while process.poll() is None and not self._said.stat().st_size:
            time.sleep(0.002)
        return process

    def ended(self, process, seconds):
        """Return what a process has said that is to end soon."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"no end after {seconds} s: {self._said.read_text()}")
        return self._said.read_text()

    @cached_property
    def reference(self):
        """What to feed the model, and what it gives then."""
        with sk.InferenceSession(self.model, "numpy", cache=False) as session:
            shapes = {
                one.name: [size if isinstance(size, int) else 1 for size in one.shape]
                for one in session.get_inputs()
            }
            feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
            return feeds, list(session.run(None, feeds))

    def left(self):
        """Return the engines that are sound, and everything else that should not be there."""
        folder = self.cache / "engines"
        if not folder.is_dir():
            return [], []
        entries = EngineStore(folder, signing_key()).entries(deep=True)
        sound = [one.digest for one in entries if not one.problem]
        wrong = [one.problem for one in entries if one.problem]
        files = (one.name for one in self.cache.rglob("*") if one.is_file())
        return sound, wrong + [name for name in files if name.endswith((".part", ".lock"))]


@pytest.fixture
def instants(pytestconfig):
    return int(pytestconfig.getoption("--interrupted-builds"))


@pytest.fixture(params=BACKENDS)
def builds(request, instants, tmp_path):
    name = request.param.partition(":")[0]
    pytest.importorskip(f"subgraphkit_{name}")
    if name == "tensorrt":
        pytest.importorskip("tensorrt_rtx_bindings")
    if instants <= FEW and name not in {"numpy", "onnxruntime"}:
        pytest.skip("a build takes long: --interrupted-builds 100 makes them all")
    model = tmp_path / "model.onnx"
    whole = light.seeded_model("squeezenet")
    if instants <= FEW:
        onnx.save(parsed(CHAIN), model)
    elif name in {"iree", "tvm"}:  # of which the one takes 75 seconds for all of it
        start = Extractor(onnx.shape_inference.infer_shapes(whole))
        onnx.save(start.extract_model([whole.graph.input[0].name], ["r9"]), model)
    else:
        onnx.save(whole, model)
    return _Builds(model, request.param, tmp_path)


def test_a_build_ends_soon_at_any_instant_and_leaves_the_cache_clean(builds, instants):
    dice = random.Random()
    process, started = builds.begun(), time.monotonic()
    said = builds.ended(process, 600)
    whole = time.monotonic() - started
    rows = said.partition("SECONDS\n")[2].splitlines()
    compiling = sum(float(row.split()[-1]) for row in rows)
    for _ in range(instants):
        _strike(builds, dice.uniform(0.0, whole))
        _limit(builds, dice.uniform(0.001, max(compiling, 0.002)))
    assert max(builds.late, default=0.0) <= PATIENCE, builds.late


def _strike(builds, after):
    """Interrupt a build, and note how long it took to end, unless it was over."""
    process = builds.begun()
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        struck = time.monotonic()
        builds.ended(process, ENDLESS)
        builds.note("Ctrl-C", after, time.monotonic() - struck, process.returncode)
    _check(builds, process.returncode, builds.ended(process, PATIENCE))


def _limit(builds, limit):
    """Limit the time of a build, and note how much more it took, if it did."""
    process = builds.begun(limit)
    said = builds.ended(process, 2 * ENDLESS)  # all that is before is in it
    now = time.monotonic()
    _check(builds, process.returncode, said)
    assert process.returncode in {0, TIMED_OUT}, said
    if process.returncode == TIMED_OUT:
        late = now - limit - float(said.partition("began ")[2].split()[0])
        builds.note("time limit", limit, late, process.returncode)


def _check(builds, status, said):
    # Before Python hears signals at all, Ctrl-C ends a process as it does any.
    # Python 3.11 has Ctrl-C look like a fault of a class being made, and so of a library it is in.
    assert status in {0, INTERRUPTED, TIMED_OUT, BROKEN, -signal.SIGINT}, said
    assert "Traceback" not in said or status == -signal.SIGINT, said
    assert ("SGK135" in said) == (status == TIMED_OUT), said
    sound, wrong = builds.left()
    assert wrong == []
    if builds.backend == TENSORRT:
        return  # nothing runs without a device
    if sound or status == 0:  # what is found afterwards computes what it should
        feeds, expected = builds.reference
        with sk.InferenceSession(builds.model, builds.backend, cache_dir=builds.cache) as session:
            found = session.run(None, feeds)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-4)
