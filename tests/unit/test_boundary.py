"""What no step of the road foresaw has a code; what is the program's own passes."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.boundary import walking
from tests.models import parsed

MODEL = "g (float[3] x) => (float[3] y) { y = Relu(x) }"


class HomeMadeError(BaseException):
    """An exception that is no ``Exception``, as libraries for testing and for threads have."""


FOREIGN = [SystemExit, GeneratorExit, HomeMadeError]


@pytest.mark.parametrize("kind", [MemoryError, RecursionError, OverflowError, KeyError, ValueError])
def test_an_exception_of_any_kind_gets_a_code_and_stays_the_cause(kind):
    said = pytest.raises(sk.errors.InvalidModelError, match="model 'm' made the step 'bind'")
    with said as seen, walking("bind", "m"):
        raise kind("too much")
    assert seen.value.code == "SGK219"
    assert isinstance(seen.value.__cause__, kind)


@pytest.mark.parametrize(
    "error", [sk.errors.InputError("SGK140", "wrong"), KeyboardInterrupt(), UserWarning("careful")]
)
def test_what_says_what_it_is_passes_the_boundary(error):
    with pytest.raises(type(error)) as seen, walking("load", "m"):
        raise error
    assert seen.value is error


def interrupted_with_a_lock():
    lock = threading.Lock()
    with lock:
        lock.release()  # as by a wait that is interrupted before it has the lock again
        raise KeyboardInterrupt


def test_ctrl_c_passes_though_a_lock_that_it_struck_at_fails_for_it():
    with pytest.raises(KeyboardInterrupt) as seen, walking("bind", "m"):
        interrupted_with_a_lock()
    assert "release unlocked lock" in str(seen.value.__context__)


def test_a_step_walked_after_ctrl_c_fails_as_any_other():
    def step():
        with walking("bind", "m"):
            raise KeyError("nothing")

    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        with pytest.raises(sk.errors.InvalidModelError, match="SGK219"):
            step()


STEPS: dict[str, tuple[str, Callable[[], object]]] = {
    "load": ("subgraphkit.onnx_io.model.read_graph", lambda: sk.load(parsed(MODEL))),
    "bind": ("subgraphkit.binding.bound_model.infer", lambda: sk.bind(sk.load(parsed(MODEL)))),
    "partition": ("subgraphkit.partitioning.partitioning.divide_model", lambda: opened("numpy")),
    "compile": ("subgraphkit.compiling.compilation.attend", lambda: opened("numpy")),
    "plan": ("subgraphkit.planning.plans.last_uses", lambda: opened("numpy")),
}


@pytest.mark.parametrize("step", STEPS)
def test_every_step_has_its_boundary(step, monkeypatch):
    place, walk = STEPS[step]

    def fail(*_, **__):
        raise MemoryError("too much")

    monkeypatch.setattr(place, fail)
    with pytest.raises(sk.errors.InvalidModelError, match=f"made the step '{step}' fail") as seen:
        walk()
    assert isinstance(seen.value.__cause__, MemoryError)


def test_a_run_that_fails_outside_of_all_steps_has_a_code():
    class Feeds(dict[str, Any]):
        def __getitem__(self, name):
            raise RecursionError("too deep")

    with opened("numpy") as session, pytest.raises(sk.errors.SubgraphkitError, match="SGK219"):
        session.run(None, Feeds(x=np.ones(3, np.float32)))


def test_what_a_listener_raises_while_a_model_is_compiled_is_its_own():
    def stop(event):
        raise KeyError(event)

    with pytest.raises(KeyError):
        opened("numpy", progress=stop)


def opened(backend, **settings):
    return sk.InferenceSession(parsed(MODEL), backend=backend, **settings)


def backend_that(fails):
    """Return a backend that calls ``fails`` with the name of each of its doors."""

    class Selector(sk.SubgraphSelector):
        def select(self, node):
            fails("select")
            return node.op_type == "Relu"

    class Operator(sk.SubgraphOperator):
        def run(self, inputs, outputs=None):
            fails("run")
            return inputs

    class Property(sk.SubgraphProperty):
        def create_selector(self, graph):
            fails("create_selector")
            return Selector()

        def create_operator(self, subgraph, context):
            fails("create_operator")
            return Operator()

    class Failing(sk.Backend):
        name = "failing"

        def properties(self):
            fails("properties")
            return [Property()]

    return Failing


DOORS = {
    "properties": "SGK122",
    "create_selector": "SGK122",
    "select": "SGK121",
    "create_operator": "SGK130",
    "run": "SGK131",
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("door", DOORS)
def test_an_exit_that_a_plugin_raises_is_a_fault_of_the_plugin(door, kind):
    def fail(at):
        if at == door:
            raise kind("from the plugin")

    with pytest.raises(sk.errors.BackendError, match=r"from the plugin") as seen:
        opened([backend_that(fail)]).run(None, {"x": np.ones(3, np.float32)})
    assert (seen.value.code, seen.value.backend) == (DOORS[door], "failing")
    assert isinstance(seen.value.__cause__, kind)


@pytest.mark.parametrize("door", DOORS)
def test_a_signal_that_ends_the_program_ends_it_inside_of_a_plugin(door):
    def exit_(*_):
        raise SystemExit(3)

    def fail(at):
        if at == door:
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, exit_)
    try:
        with pytest.raises(SystemExit, match="3"):
            opened([backend_that(fail)]).run(None, {"x": np.ones(3, np.float32)})
    finally:
        signal.signal(signal.SIGTERM, before)
