"""Inputs and output buffers bound in advance."""

import weakref

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError, InputError, SubgraphkitWarning
from tests.fakes import claiming, failing
from tests.models import LINEAR, parsed


@pytest.fixture
def session():
    return sk.InferenceSession(parsed(LINEAR), [claiming(["MatMul", "Add"])])


def bound(session, x, **outputs):
    """Return a binding that feeds ``x`` and has outputs with the buffers they are given."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.asarray(x, np.float32))
    for name, buffer in outputs.items():
        binding.bind_output(name, buffer)
    return binding


def test_results_are_written_into_the_buffer(session):
    buffer = np.zeros((1, 2), np.float32)
    binding = bound(session, np.ones((1, 3)), y=buffer)
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0] is buffer
    np.testing.assert_array_equal(buffer, [[19, 32]])


def test_outputs_without_a_buffer_are_allocated(session):
    binding = bound(session, np.ones((2, 3)))
    session.run_with_iobinding(binding)
    first = binding.copy_outputs_to_cpu()[0]
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0] is not first


def test_names_and_buffers_are_checked_when_they_are_bound(session):
    binding, locked = session.io_binding(), np.zeros((1, 2), np.float32)
    binding.bind_output("y", locked)
    locked.setflags(write=False)
    with pytest.raises(InputError, match="no input 'z'"):
        binding.bind_cpu_input("z", np.ones(1))
    with pytest.raises(InputError, match="no output 'z'"):
        binding.bind_output("z")
    for one in (locked, locked[:]):  # bound before, and not
        with pytest.raises(InputError, match="can be written to"):
            binding.bind_output("y", one)


def test_a_device_that_nothing_runs_on_is_refused_when_it_is_bound(session):
    with pytest.raises(InputError, match=r"SGK145.*on 'gpu', expected one of 'cpu', 'cuda'"):
        session.io_binding().bind_output("y", "gpu")


def test_element_types_are_understood_as_get_inputs_writes_them(session):
    binding = session.io_binding()
    fed, buffer = np.ones((1, 3), np.float32), np.zeros((1, 2), np.float32)
    kind = session.get_inputs()[0].type
    assert kind == "tensor(float)"
    binding.bind_input("x", "cpu", 0, kind, (1, 3), fed.ctypes.data)
    binding.bind_output("y", "cpu", 0, kind, (1, 2), buffer.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(buffer, [[19, 32]])
    before = binding.buffers()
    binding.bind_output("y", "cpu", 0, kind, (1, 2), buffer.ctypes.data)
    assert binding.buffers() is before  # as a decoder does before each step
    with pytest.raises(InputError, match=r"SGK145.*no type 'tensor\(real\)'"):
        binding.bind_input("x", "cpu", 0, "tensor(real)", (1, 3), fed.ctypes.data)


def test_a_binding_can_be_cleared(session):
    binding = bound(session, np.ones((1, 3)))
    binding.clear_binding_inputs()
    with pytest.raises(InputError, match="missing: 'x'"):
        session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


TWO = """g (float[2] x) => (float[2] y, float[2] z) {
  y = Neg(x)
  z = Add(x, y)
}"""


def test_buffers_that_share_memory_are_refused():
    session = sk.InferenceSession(parsed(TWO), "numpy")
    array = np.zeros(3, np.float32)
    binding = bound(session, [1, 2], y=array[:2], z=array[1:])
    for _ in range(2):
        with pytest.raises(InputError, match=r"SGK145.*'y' and 'z' share memory"):
            session.run_with_iobinding(binding)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    assert array.tolist() == [-1, -2, 0]


def test_an_input_may_be_overwritten_by_an_output():
    session = sk.InferenceSession(parsed(TWO), [claiming(["Add"]), "numpy"])
    array = np.array([1, 2], np.float32)
    binding = bound(session, array, y=array, z="cpu")
    told = binding.buffers()
    binding.bind_output("y", array)  # before each step of a decoder
    assert binding.buffers() is told
    session.run_with_iobinding(binding)
    assert [one.tolist() for one in (array, binding.get_outputs()[1])] == [[-1, -2], [0, 0]]


@pytest.mark.parametrize("is_owned", [True, False])
def test_an_input_that_is_a_part_of_a_buffer_is_read_before_that_is_written(is_owned):
    session = sk.InferenceSession(parsed(TWO), [claiming(["Add"]), "numpy"])
    array = np.array([1, 2, 3], np.float32)
    array = array if is_owned else np.frombuffer(bytearray(array), np.float32)
    binding = bound(session, [0, 0], y=array[:2], z="cpu")
    session.run_with_iobinding(binding)
    array[:] = [1, 2, 3]
    binding.bind_cpu_input("x", array[1:])
    session.run_with_iobinding(binding)
    assert [array.tolist(), binding.get_outputs()[1].tolist()] == [[-2, -3, 3], [0, 0]]


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_what_is_bound_anew_between_runs_is_what_counts(backend):
    model = parsed(
        "g (float[3] a, float[3] b) => (float[3] s, float[3] d) { s = Add(a, b) d = Sub(a, b) }"
    )
    one, two = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    with sk.InferenceSession(model, backend) as session:
        binding = session.io_binding()
        sums = np.zeros(3, np.float32)
        for name, array in (("a", one), ("b", two)):
            binding.bind_cpu_input(name, array)
        binding.bind_output("s", sums)
        binding.bind_output("d")

        def run():
            session.run_with_iobinding(binding)
            return [array.tolist() for array in binding.get_outputs()]

        assert run() == [[11, 22, 33], [-9, -18, -27]]
        kept = binding.get_outputs()[1]
        one += 1  # the same array with other numbers
        assert run() == [[12, 23, 34], [-8, -17, -26]]
        assert kept.tolist() == [-9, -18, -27]  # what was handed out is not written again
        binding.bind_cpu_input("b", sums)  # an input is the buffer of an output from now on
        assert run() == [[14, 26, 38], [-10, -20, -30]]
        binding.bind_cpu_input("b", two)
        assert run() == [[12, 23, 34], [-8, -17, -26]]
        other = np.zeros(3, np.float32)
        binding.bind_output("s", other)
        assert run() == [[12, 23, 34], [-8, -17, -26]]
        assert (sums.tolist(), other.tolist()) == ([12, 23, 34], [12, 23, 34])
        gone = weakref.ref(one)
        binding.bind_cpu_input("a", two)
        del one
        assert run() == [[20, 40, 60], [0, 0, 0]]
        assert gone() is None  # nobody keeps what is bound no more


@pytest.mark.parametrize(
    ("buffer", "code"), [(np.zeros(2), "SGK141"), (np.zeros(3, np.float32), "SGK140")]
)
def test_a_buffer_that_cannot_fit_is_refused_before_anything_runs(buffer, code):
    session = sk.InferenceSession(parsed(TWO), "numpy")
    with pytest.raises(InputError, match=code):
        session.run_with_iobinding(bound(session, [1, 1], y=buffer))


def test_an_output_that_was_not_computed_yet_is_named(session):
    binding = session.io_binding()
    binding.bind_output("y")
    with pytest.raises(CallerError, match="'y' has not been computed"):
        binding.get_outputs()


Failing = failing(ZeroDivisionError, "a kernel divided by zero")


def test_a_failure_moves_the_subgraph_with_bound_inputs_too():
    session = sk.InferenceSession(
        parsed(TWO), [claiming(["Add"], make=Failing), "numpy"], on_run_error="fallback"
    )
    binding = bound(session, [1, 1])
    with pytest.warns(SubgraphkitWarning, match="a kernel divided by zero"):
        session.run_with_iobinding(binding)
    assert binding.get_outputs()[1].tolist() == [0, 0]
