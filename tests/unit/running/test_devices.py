"""Operators of one device hand arrays to one another; all others get them on the host."""

import ctypes
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import ON_DEVICE, SubgraphOperator, Traits
from subgraphkit.errors import InputError
from subgraphkit.running.devices import DeviceBuffer
from subgraphkit.testing.small_models import model_of
from tests.fakes import claiming

X = np.array([-1, 2], np.float32)


class Foreign:
    """An array that only operators of the device can read."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__array_interface__, "version": 3}


class Remote(Foreign):
    """An array that operators of the device make, and the host may fetch."""

    waits = 0

    def __array__(self, dtype=None, copy=None):
        return self.array.copy()

    def wait(self):
        self.waits += 1


class RemoteOperator(SubgraphOperator):
    """Runs nodes one by one, and leaves on its device what it is told to."""

    device = "cuda:0"
    traits = Traits(thread_safe=True)

    def __init__(self, inner, log):
        self._inner = inner
        self._log = log

    def run(self, inputs, outputs=None):
        self._log.append(([type(one).__name__ for one in inputs], outputs))
        results = self._inner.run([_read(one) for one in inputs])
        return list(map(_left, results, outputs or [None] * len(results)))


def _read(value):
    if isinstance(value, DeviceBuffer):
        address = value.__cuda_array_interface__["data"][0]
        held = (ctypes.c_float * int(np.prod(value.shape))).from_address(address)
        return np.frombuffer(held, np.float32).reshape(value.shape)
    return value.array if isinstance(value, Foreign) else value


def _left(result, wanted):
    if wanted is ON_DEVICE:
        return Remote(result)
    if isinstance(wanted, Foreign | DeviceBuffer):
        target = _read(wanted)
        target[:] = result
        return Remote(target)
    return result


def remote(log):
    """Make a backend with a device of its own, which takes each node on its own."""

    def create_operator(self, subgraph, context):
        return RemoteOperator(context.compile(subgraph), log)

    taken = ["Relu", "Neg", "Abs"]
    return claiming(taken, "remote", max_nodes=1, create_operator=create_operator)


def ran(body, fed, **settings):
    """Run a model and return its outputs and what the operators were called with."""
    log: list[Any] = []
    backends = [remote(log), "numpy"]
    with sk.InferenceSession(model_of(body), backend=backends, **settings) as session:
        return session.run(None, {"x": fed}), log


@pytest.mark.parametrize("checked", [True, False])
def test_a_value_that_only_the_device_reads_stays_there(*, checked):
    body = "agraph (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"
    (y,), log = ran(body, X, checked=checked)
    assert y.tolist() == [0, 2]
    assert log == [(["ndarray"], (ON_DEVICE,)), (["Remote"], (ON_DEVICE,)), (["Remote"], None)]


def test_a_value_that_another_backend_reads_comes_to_the_host():
    body = "agraph (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }"
    (y,), log = ran(body, X)
    assert y.tolist() == [0, 0]
    assert log == [(["ndarray"], None), (["ndarray"], None)]


def test_an_output_that_a_neighbour_reads_is_fetched_at_the_end():
    body = "agraph (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Neg(a) }"
    (a, y), log = ran(body, X)
    assert (a.tolist(), y.tolist()) == ([0, 2], [0, -2])
    assert log == [(["ndarray"], (ON_DEVICE,)), (["Remote"], None)]


def test_an_array_on_the_device_may_be_fed_if_only_the_device_reads_it():
    (y,), log = ran("agraph (float[2] x) => (float[2] y) { y = Neg(x) }", Remote(X))
    assert y.tolist() == [1, -2]
    assert log == [(["Remote"], None)]


def test_a_state_stays_on_the_device_from_step_to_step():
    log: list[Any] = []
    model = model_of(
        "agraph (float[2] x, float[N] p) => (float[2] y, float[M] q) { y = Abs(x) q = Neg(p) }"
    )
    with sk.InferenceSession(model, backend=[remote(log), "numpy"]) as session:
        state = sk.State(session, {"p": "q"})
        state.reset({"p": X})
        for _ in range(2):
            state.run(["y"], {"x": X})
        assert np.asarray(state.values["p"]).tolist() == X.tolist()
    assert [entry for entry in log if entry[1] == (ON_DEVICE,)] == [
        (["ndarray"], (ON_DEVICE,)),
        (["Remote"], (ON_DEVICE,)),
    ]


def test_an_array_on_the_device_that_others_read_is_refused():
    body = "agraph (float[2] x) => (float[2] y) { a = Neg(x) y = Add(a, x) }"
    with pytest.raises(sk.errors.InputError, match="SGK145"):
        ran(body, Foreign(X))


# -- the caller binds arrays of the device -------------------------------------------------------

CHAIN = "agraph (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"
MIXED = "agraph (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Exp(a) }"


@contextmanager
def bound(body, fed=X, **settings):
    """Open a session with a binding that feeds ``x``, and the log of its operators."""
    log: list[Any] = []
    backends = [remote(log), "numpy"]
    with sk.InferenceSession(model_of(body), backend=backends, **settings) as session:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", fed)
        yield session, binding, log


@pytest.mark.parametrize("checked", [True, False])
def test_an_output_stays_on_the_device_if_the_caller_wants_it_there(*, checked):
    with bound(CHAIN, Remote(X), checked=checked) as (session, binding, log):
        binding.bind_output("y", "cuda", 0)
        binding.bind_output("a")
        session.run_with_iobinding(binding)
        y, a = binding.get_outputs()
        assert isinstance(y, Remote)
        assert (y.array.tolist(), a.tolist()) == ([0, 2], [0, 2])
        assert isinstance(a, np.ndarray)
        assert [one.tolist() for one in binding.copy_outputs_to_cpu()] == [[0, 2], [0, 2]]
        binding.synchronize_inputs()
        binding.synchronize_outputs()
        assert y.waits == 1
    assert [given for given, _ in log] == [["Remote"], ["Remote"], ["Remote"]]


def test_an_output_is_written_into_an_array_of_the_device():
    buffer = Foreign(np.zeros(2, np.float32))
    with bound(CHAIN) as (session, binding, log):
        binding.bind_ortvalue_output("y", buffer)
        session.run_with_iobinding(binding)
        (y,) = binding.get_outputs()
    assert y is buffer
    assert buffer.array.tolist() == [0, 2]
    assert log[-1] == (["Remote"], (buffer,))


def test_memory_of_the_device_is_bound_by_its_address():
    fed, buffer = X.copy(), np.zeros(2, np.float32)
    with bound(CHAIN) as (session, binding, _):
        binding.bind_input("x", "cuda", 0, np.float32, (2,), fed.ctypes.data)
        binding.bind_input("x", "cuda", 0, 1, [2], fed.ctypes.data)
        assert repr(binding.feeds()["x"]).startswith("DeviceBuffer(float32[2] at 0x")
        binding.bind_output("y", "cuda", 1, np.float32, (2,), buffer.ctypes.data)
        with pytest.raises(InputError, match=r"SGK145.*wanted on cuda:1.*computed on cuda:0"):
            session.run_with_iobinding(binding)
        for kind in ("cuda", "cpu"):
            binding.bind_output("y", kind, 0, np.float32, (2,), buffer.ctypes.data)
            session.run_with_iobinding(binding)
            assert buffer.tolist() == [0, 2]
            buffer[:] = 7


def test_an_output_left_on_the_device_is_fetched_for_another_backend():
    with bound(MIXED) as (session, binding, _):
        binding.bind_output("a", "cuda")
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        a, y = binding.get_outputs()
    assert isinstance(a, Remote)
    np.testing.assert_array_equal(y, np.exp([0, 2], dtype=np.float32))


def test_an_output_that_is_computed_elsewhere_cannot_be_left_on_a_device():
    with bound(MIXED) as (session, binding, _):
        binding.bind_output("y", "cuda", 0)
        with pytest.raises(InputError, match=r"SGK145.*cuda:0.*on cpu by backend 'numpy'"):
            session.run_with_iobinding(binding)


def test_a_buffer_on_the_device_that_is_fed_as_well_is_refused():
    shared = np.zeros(4, np.float32)
    with bound(CHAIN, Foreign(shared[:2])) as (session, binding, _):
        binding.bind_output("y", Foreign(shared[1:3]))
        with pytest.raises(InputError, match=r"SGK145.*shares memory with input 'x'"):
            session.run_with_iobinding(binding)
        binding.bind_output("y", Foreign(shared[2:]))
        session.run_with_iobinding(binding)


@pytest.mark.parametrize(("given", "text"), [
    (("npu", 0, np.float32, (2,), 256), "expected 'cpu' or 'cuda'"),
    (("cuda", 0, None, (2,), 256), "is not described"),
    (("cuda", 0, np.float32, None, 256), "is not described"),
    (("cuda", 0, 77, (2,), 256), "is not described"),
    (("cuda", 0, np.float32, (2,), 0), r"no shape \(2,\) at 0x0"),
    (("cpu", 0, np.float32, (2,), 0), r"no shape \(2,\) at 0x0"),
    (("cpu", 0, np.float32, (2, -1), 256), "no shape"),
    (("cuda", 0, np.float32, (2,), None), "is not described"),
])  # fmt: skip
def test_memory_that_is_not_described_is_refused(given, text):
    with bound(CHAIN) as (_, binding, _), pytest.raises(InputError, match=f"SGK145.*{text}"):
        binding.bind_input("x", *given)


def test_what_is_no_array_is_no_buffer():
    with bound(CHAIN) as (_, binding, _), pytest.raises(InputError, match="SGK145"):
        binding.bind_output("y", [1.0, 2.0])
