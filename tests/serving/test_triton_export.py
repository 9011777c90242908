"""What is written for Triton, what is refused, and a served model between fake requests."""

from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError
from subgraphkit.serving.triton import ServedModel, export_triton, served_model
from subgraphkit.testing.small_models import model_of

OPEN = "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"


@pytest.fixture
def spec_of(tmp_path):
    def made(text, **names):
        model = model_of(text)
        for value in (*model.graph.input, *model.graph.output):
            value.name = names.get(value.name, value.name)
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        onnx.save(model, tmp_path / "m.onnx")
        return sk.SessionSpec.of(tmp_path / "m.onnx", "numpy")

    return made


def test_a_version_is_a_configuration_a_spec_and_a_file_that_is_always_the_same(spec_of, tmp_path):
    spec = spec_of("g (float[N,3] x, int64[N] i) => (float[N,3] y) { y = Relu(x) }", x='a"\\\n\xe9')
    how: Any = {"packages": "/srv/site", "delay_s": 0.5, "max_batch": 4}
    place = export_triton(spec, tmp_path / "models", name="m", **how)
    assert place == tmp_path / "models" / "m" / "1"
    found = sorted(path.name for path in place.iterdir())
    assert found == ["model.py", "packages.txt", "spec.json"]
    assert (place / "packages.txt").read_text() == "/srv/site"
    assert sk.SessionSpec.from_json((place / "spec.json").read_text()) == spec
    assert (place.parent / "config.pbtxt").read_text().splitlines() == [
        'name: "m"',
        'backend: "python"',
        "max_batch_size: 4",
        r'input [ { name: "a\042\134\012\303\251" data_type: TYPE_FP32 dims: [ 3 ] } ]',
        'input [ { name: "i" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } } ]',
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]',
        "dynamic_batching { max_queue_delay_microseconds: 500000 }",
        "instance_group [ { count: 1 kind: KIND_CPU } ]",
    ]
    again = export_triton(spec, tmp_path / "models", name="m", version=2, device="gpu")
    assert (again / "model.py").read_bytes() == (place / "model.py").read_bytes()
    text = (place.parent / "config.pbtxt").read_text()
    assert "max_batch_size: 0\n" in text
    assert "dims: [ -1, 3 ]" in text
    assert "KIND_GPU" in text
    assert "dynamic_batching" not in text
    export_triton(spec_of(OPEN), tmp_path / "models", name="open")
    assert "max_batch_size: 16\n" in (tmp_path / "models" / "open" / "config.pbtxt").read_text()


@pytest.mark.parametrize(("text", "says"), [
    ("g (float x) => (float y) { y = Relu(x) }", "input 'x' is a scalar"),
    ("g (bfloat16[2] x) => (bfloat16[2] y) { y = Identity(x) }",
     r"input 'x' is tensor\(bfloat16\)"),
    ("g (seq(float[N]) x) => (int64 y) { y = SequenceLength(x) }",
     r"input 'x' is seq\(tensor\(float\)\)"),
    ("g (float[2] x, int64[K] s) => (float[] y) { y = Reshape(x, s) }",
     "the rank of output 'y' is not known"),
    ("g () => (float[1] y) <float[1] c = {1}> { y = Relu(c) }", "it has no inputs"),
])  # fmt: skip
def test_a_model_that_triton_cannot_hold_is_refused(spec_of, tmp_path, text, says):
    with pytest.raises(CallerError, match=f"SGK345.*{says}"):
        export_triton(spec_of(text), tmp_path / "models", name="m")
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(("how", "says"), [
    ({"name": "../m"}, "'../m' is no name for it"),
    ({"name": "m", "version": 0}, "begin at 1"),
    ({"name": "m", "instances": 0}, "begin at 1"),
    ({"name": "m", "max_batch": -1}, "max_batch and delay_s at 0"),
    ({"name": "m", "max_batch": 4}, "cannot be put together in batches"),
    ({"name": "made"}, "1 exists"),
    ({"name": "file"}, "cannot be written"),
])  # fmt: skip
def test_an_export_that_makes_no_sense_is_refused(spec_of, tmp_path, how, says):
    (tmp_path / "models" / "made" / "1").mkdir(parents=True)
    (tmp_path / "models" / "file").touch()
    spec = spec_of("g (float[N,3] x) => (float[3,N] y) { y = Transpose(x) }")
    with pytest.raises(CallerError, match=f"SGK345.*{says}"):
        export_triton(spec, tmp_path / "models", **how)


class Fake:
    """As much of ``triton_python_backend_utils`` as a served model asks for."""

    class Tensor:
        def __init__(self, name, array):
            self.of, self.array = name, array

        def name(self):
            return self.of

        def as_numpy(self):
            return self.array

        def __dlpack__(self):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        @staticmethod
        def from_dlpack(name, capsule):
            class Lent:
                def __dlpack__(self, **_):
                    return capsule

                def __dlpack_device__(self):
                    return (1, 0)

            return Fake.Tensor(name, np.from_dlpack(Lent()))

    class TritonError(Exception):
        INVALID_ARG, INTERNAL = "invalid", "internal"

        def __init__(self, text, code):
            super().__init__(text)
            self.code = code

    class InferenceResponse:
        def __init__(self, tensors, error=None):
            self.found = {one.of: one.array for one in tensors}
            self.error = error

    class Request:
        def __init__(self, feeds, *names):
            self.feeds, self.names = feeds, names

        def inputs(self):
            return [Fake.Tensor(*one) for one in self.feeds.items()]

        def requested_output_names(self):
            return [*self.names]


@pytest.fixture
def served(spec_of, tmp_path):
    def made(text):
        (tmp_path / "spec.json").write_text(spec_of(text).to_json())
        return ServedModel(tmp_path / "spec.json", Fake)

    return made


def test_requests_that_fit_together_are_one_run_and_each_gets_its_rows(served, monkeypatch):
    model = served(OPEN)
    runs: list[int] = []
    inner = model._session.run
    monkeypatch.setattr(
        model._session,
        "run",
        lambda names, feeds: runs.append(len(feeds["x"])) or inner(names, feeds),
    )
    draw = np.random.default_rng(1)
    given = [draw.standard_normal((rows, 3), np.float32) for rows in (1, 2, 3)]
    wrong = np.zeros((1, 4), np.float32)
    requests = [Fake.Request({"x": one}, "y") for one in (given[0], wrong, *given[1:])]
    first, second, third, fourth = model.execute(requests)
    for answer, array in zip((first, third, fourth), given, strict=True):
        np.testing.assert_array_equal(answer.found["y"], np.maximum(array, 0))
    assert "SGK140" in str(second.error)
    assert second.error.code == "invalid"
    assert runs == [6, 1]
    model.close()


def test_one_that_makes_a_run_fail_is_found_by_running_each_alone(served):
    model = served(
        "g (int64[N] i) => (float[N] y) <float[2] t = {5, 6}> { y = Gather <axis = 0> (t, i) }"
    )
    given = [np.array([1]), np.array([9]), np.array([0, 1])]
    good, bad, other = model.execute([Fake.Request({"i": one}, "y") for one in given])
    assert (good.found["y"].tolist(), other.found["y"].tolist()) == ([6], [5, 6])
    assert "[SGK" in str(bad.error)
    model.close()


def test_rows_that_are_not_those_of_the_inputs_are_never_divided_among_requests(served):
    model = served("g (float[N,2] x) => (float[1,2] y) <int64[1] a = {0}> { y = ReduceSum(x, a) }")
    given = [np.ones((rows, 2), np.float32) for rows in (1, 3)]
    answers = model.execute([Fake.Request({"x": one}, "y") for one in given])
    assert [one.found["y"].tolist() for one in answers] == [[[1, 1]], [[3, 3]]]
    model.close()


def test_strings_pass_where_the_bridge_knows_this_numpy_and_are_refused_where_not(
    served, monkeypatch, tmp_path
):
    stub = tmp_path / "stub"
    stub.write_bytes(b"\0numpy.core\0numpy._core\0")
    monkeypatch.setattr(served_model, "_PROGRAM", stub)
    text = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
    model = served(text)
    words = np.array([b"a", "\N{SNOWMAN}".encode()], object)
    broken = np.array([b"\xff"], object)
    good, bad = model.execute([Fake.Request({"x": one}, "y") for one in (words, broken)])
    assert good.found["y"].tolist() == words.tolist()
    assert "not UTF-8" in str(bad.error)
    model.close()
    stub.write_bytes(b"\0numpy.core\0")
    with pytest.raises(CallerError, match=r"SGK345.*'x' has strings"):
        served(text)
