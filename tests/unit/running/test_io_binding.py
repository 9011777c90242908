"""Inputs and output buffers bound in advance."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from tests.fakes import claiming
from tests.models import LINEAR, parsed


@pytest.fixture
def session() -> sk.InferenceSession:
    return sk.InferenceSession(parsed(LINEAR), [claiming(["MatMul", "Add"])])


def test_results_are_written_into_the_buffer(session: sk.InferenceSession) -> None:
    binding = session.io_binding()
    buffer = np.zeros((1, 2), np.float32)
    binding.bind_cpu_input("x", np.ones((1, 3), np.float32))
    binding.bind_output("y", buffer)
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0] is buffer
    np.testing.assert_array_equal(buffer, [[19, 32]])


def test_outputs_without_a_buffer_are_allocated(session: sk.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones((2, 3), np.float32))
    session.run_with_iobinding(binding)
    first = binding.copy_outputs_to_cpu()[0]
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0] is not first


@pytest.mark.parametrize(
    ("buffer", "code"),
    [(np.zeros((1, 2)), "SGK141"), (np.zeros((2, 2), np.float32), "SGK140")],
)
def test_a_buffer_that_does_not_fit_is_refused(
    session: sk.InferenceSession, buffer: np.ndarray, code: str
) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones((1, 3), np.float32))
    binding.bind_output("y", buffer)
    with pytest.raises(InputError) as refusal:
        session.run_with_iobinding(binding)
    assert refusal.value.code == code


def test_names_and_buffers_are_checked_when_they_are_bound(session: sk.InferenceSession) -> None:
    binding = session.io_binding()
    locked = np.zeros((1, 2), np.float32)
    locked.setflags(write=False)
    with pytest.raises(InputError, match="no input 'z'"):
        binding.bind_cpu_input("z", np.ones(1))
    with pytest.raises(InputError, match="no output 'z'"):
        binding.bind_output("z")
    with pytest.raises(InputError, match="can be written to"):
        binding.bind_output("y", locked)


def test_a_binding_can_be_cleared(session: sk.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones((1, 3), np.float32))
    binding.clear_binding_inputs()
    with pytest.raises(InputError, match="missing: 'x'"):
        session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []
