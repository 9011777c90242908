"""Whose fault a failed run is: values that were fed, or the backend."""

import pickle  # noqa: TID251 (what engines do with errors)
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import ExecutionError
from tests.fakes import ReferenceOperator, claiming
from tests.models import parsed

BACKENDS = ["numpy", "onednn", "onnxruntime", "openvino", "tvm"]
ROWS = np.arange(40, dtype=np.float32).reshape(10, 4)


def _embedding(size):
    body = f"""g (int64[{size}] ids) => (float[{size}, 4] y) {{
      e = Gather(rows, ids)
      m = MatMul(e, w)
      y = Relu(m)
    }}"""
    return parsed(body, rows=ROWS, w=np.eye(4, dtype=np.float32))


_IN = "g (float[4,3] x, int64[{}] i) => (float[{}] y)"
OTHERS = {
    "GatherElements": (_IN.format("2,3", "2,3") + "{ y = GatherElements(x, i) }", (2, 3)),
    "GatherND": (_IN.format("2,1", "2,3") + "{ y = GatherND(x, i) }", (2, 1)),
    "GatherND of pairs": (_IN.format("5,2", "5") + "{ y = GatherND(x, i) }", (5, 2)),
    "ScatterElements": (_IN.format("4,3", "4,3") + "{ y = ScatterElements(x, i, x) }", (4, 3)),
    "ScatterND": (_IN.format("4,1", "4,3") + "{ y = ScatterND(x, i, x) }", (4, 1)),
}


def _fault(session, feeds):
    with pytest.raises(ExecutionError, match="SGK131") as caught:
        session.run(None, feeds)
    assert pickle.loads(pickle.dumps(caught.value)).fault == caught.value.fault
    return caught.value.fault


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [3, "n"])
@pytest.mark.filterwarnings("ignore")
def test_a_token_outside_of_the_vocabulary_is_the_callers_fault(backend, size):
    with sk.InferenceSession(_embedding(size), backend) as session:
        for wrong in (10, 99, -11, 2**31, 2**40 + 1):
            assert _fault(session, {"ids": np.array([1, wrong, 2])}) == "caller"
        (result,) = session.run(None, {"ids": np.array([1, -1, 9])})
        np.testing.assert_array_equal(result, ROWS[[1, -1, 9]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operator", OTHERS)
@pytest.mark.filterwarnings("ignore")
def test_so_is_any_index_out_of_range(backend, operator):
    body, shape = OTHERS[operator]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with sk.InferenceSession(parsed(body), backend) as session:
        for wrong in (77, -77):
            assert _fault(session, {"x": x, "i": np.full(shape, wrong)}) == "caller"
        session.run(None, {"x": x, "i": np.zeros(shape, np.int64)})


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "openvino"])
@pytest.mark.parametrize(
    "node", ["MatMul(x, z)", "Gemm(x, z)", "Concat<axis=0>(x, z)", "Squeeze(x, first)"]
)
@pytest.mark.filterwarnings("ignore")
def test_so_are_shapes_that_do_not_fit_one_another(backend, node):
    shape = "E" if "Squeeze" in node else "E,F"
    text = f"g (float[A,B] x, float[C,D] z) => (float[{shape}] y) <int64[1] first = {{0}}> "
    with sk.InferenceSession(parsed(f"{text} {{ y = {node} }}"), backend) as session:
        feeds = {"x": np.ones((2, 4), np.float32), "z": np.ones((3, 5), np.float32)}
        assert _fault(session, feeds) == "caller"


@pytest.mark.filterwarnings("ignore")
def test_an_isolated_child_says_the_same():
    with sk.InferenceSession(_embedding(3), "numpy", isolate="process") as session:
        assert _fault(session, {"ids": np.array([1, 99, 2])}) == "caller"


class Broken(ReferenceOperator):
    error: Exception = ZeroDivisionError("a kernel divided by zero")

    def run(self, inputs, outputs=None):
        if inputs[0].ravel()[0] > 0:
            raise self.error
        return super().run(inputs, outputs)


def _broken(error, **settings):
    made = type("Broken", (Broken,), {"error": error})
    model = parsed("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    kind = claiming(["Neg"], "bad", make=made)
    return sk.InferenceSession(model, [kind, "numpy"], **settings)


ONES = {"x": np.ones(2, np.float32)}


@pytest.mark.parametrize(("error", "fault"), [
    (ZeroDivisionError("a kernel divided by zero"), "backend"),
    (IndexError("list index out of range"), "backend"),
    (KeyError("weights"), "backend"),
    (MemoryError("no room"), "machine"),
    (RuntimeError("CUDA failure 2: out of memory"), "machine"),
    (RuntimeError("cannot write: No space left on device"), "machine"),
    (RuntimeError("INVALID_ARGUMENT: indices"), "caller"),
], ids=repr)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_other_failures_are_told_apart(error, fault):
    with _broken(error) as session:
        assert _fault(session, ONES) == fault


@pytest.mark.filterwarnings("ignore")
def test_whoever_raises_an_error_may_say_whose_fault_it_is():
    error: Any = RuntimeError("of a kind that no rule knows")
    error.fault = "caller"
    with _broken(error) as session:
        assert _fault(session, ONES) == "caller"


@pytest.mark.filterwarnings("ignore")
def test_values_that_fail_everywhere_are_not_held_against_a_backend():
    with sk.InferenceSession(
        _embedding(3), "onnxruntime?,numpy", on_run_error="fallback"
    ) as session:
        before = [step.operator for step in session.plan.steps]
        assert _fault(session, {"ids": np.array([1, 99, 2])}) == "caller"
        assert [step.operator for step in session.plan.steps] == before


def test_a_backend_is_at_fault_where_the_fallback_takes_the_same_values():
    with _broken(RuntimeError("INVALID_ARGUMENT"), on_run_error="fallback") as session:
        with pytest.warns(UserWarning, match="runs on the fallback backend from now on"):
            (result,) = session.run(None, ONES)
        np.testing.assert_array_equal(result, [-1, -1])
