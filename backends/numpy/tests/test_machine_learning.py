"""Operators of domain ai.onnx.ml, and boxes, against scikit-learn and ONNX Runtime."""

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from skl2onnx import to_onnx
from sklearn import svm
from sklearn.datasets import load_iris, make_classification

from backends.numpy.tests.comparing import RNG, compare, floats, run_onnxruntime
from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported

# scikit-learn means to take the probabilities out of SVC; models that have them remain.
pytestmark = pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")

IRIS = load_iris(return_X_y=True)
CLASSES = {
    "2": make_classification(120, 5, random_state=1),
    "3": IRIS,
    "3 names": (IRIS[0], np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]),
    "5": make_classification(
        200, 6, n_informative=5, n_redundant=0, n_classes=5, n_clusters_per_class=1, random_state=0
    ),
}
KERNELS = ("rbf", "linear", "poly", "sigmoid")
ML = "ai.onnx.ml"


def ml_model(op_type, x, outputs, **attributes):
    node = helper.make_node(
        op_type, ["x"], [f"y{i}" for i in range(outputs)], domain=ML, **attributes
    )
    fed = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    made = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", [fed], made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", CLASSES)
def test_probabilities_and_labels_are_those_of_scikit_learn(kernel, classes):
    x, y = CLASSES[classes]
    x = x.astype(np.float32)
    machine = svm.SVC(kernel=kernel, probability=True, random_state=0).fit(x, y)
    model = to_onnx(machine, x[:1], options={id(machine): {"zipmap": False}})
    labels, chances = compile_model(model)(x)
    assert (labels == machine.predict(x)).all()
    np.testing.assert_allclose(chances, machine.predict_proba(x), atol=1e-5)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("machine", [svm.SVC(), svm.LinearSVC(), svm.NuSVC(nu=0.1)], ids=repr)
def test_labels_and_scores_without_probabilities_are_those_of_onnx_runtime(machine, classes):
    x, y = CLASSES[classes]
    x = x.astype(np.float32)
    machine.fit(x, y)
    zipped = {} if isinstance(machine, svm.LinearSVC) else {id(machine): {"zipmap": False}}
    model = to_onnx(machine, x[:1], options=zipped)
    labels, scores = compile_model(model)(x)
    expected = run_onnxruntime(model, {"X": x})
    assert labels.tolist() == expected[0].tolist() == machine.predict(x).tolist()
    compare(expected[1:], [scores], rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", [svm.SVR, svm.NuSVR, svm.OneClassSVM])
def test_regression_is_that_of_scikit_learn(kind, kernel):
    x, y = IRIS
    x = x.astype(np.float32)
    machine = kind(kernel=kernel).fit(x, y)
    found = compile_model(to_onnx(machine, x[:1]))(x)[0]
    expected = machine.predict(x).reshape(-1, 1)
    if kind is svm.OneClassSVM:  # on the border the rounding of the model decides
        assert (found == expected).mean() > 0.97
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_bare_classifier_agrees_with_onnx_runtime(classes, *, vectors, transform, dtype):
    x = (floats(5, 4) * 3).astype(dtype)
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "classlabels_ints": [7, 8, 9][:classes],
        "post_transform": transform,
        "rho": floats(pairs).tolist(),
    }
    # The transform called PROBIT is of numbers between 0 and 1 only.
    scale = 0.01 if transform == "PROBIT" else 1.0
    if transform == "PROBIT":
        attributes["rho"] = [0.3] * pairs
    if vectors:
        counts = [2, 3, 2][:classes]
        coefficients = floats((classes - 1) * sum(counts)) * scale
        attributes |= {
            "vectors_per_class": counts,
            "kernel_type": "RBF",
            "kernel_params": [0.1, 0.0, 3.0],
            "support_vectors": floats(sum(counts) * 4).tolist(),
        }
    else:
        coefficients = floats(classes * 4) * scale
        attributes |= {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    model = ml_model("SVMClassifier", x, 2, coefficients=coefficients.tolist(), **attributes)
    labels, scores = compile_model(model)(x)
    expected = run_onnxruntime(model, {"x": x})
    assert labels.tolist() == expected[0].tolist()
    if transform == "PROBIT" and classes == 2 and vectors:
        return  # ONNX Runtime leaves the second column as it finds it
    compare(expected[1:], [scores], rtol=1e-4)


def test_the_largest_score_wins_although_all_become_1():
    how = {"classlabels_ints": [5, 6], "intercepts": [0.0, 0.0], "post_transform": "LOGISTIC"}
    x = np.array([[100]], np.float32)
    assert (
        compile_model(ml_model("LinearClassifier", x, 2, coefficients=[1.0, 2.0], **how))(x)[0] == 6
    )


def test_a_row_becomes_a_map_to_numbers_of_python():
    x = floats(3, 2)
    for labels in ({"classlabels_strings": ["a", "b"]}, {"classlabels_int64s": [4, -5]}):
        model = ml_model("ZipMap", x, 1, **labels)
        (found,) = compile_model(model)(x)
        (expected,) = run_onnxruntime(model, {"x": x})
        assert found == expected
        kinds = [{(type(key), type(value)) for row in rows for key, value in row.items()}
                 for rows in (found, expected)]  # fmt: skip
        assert kinds[0] == kinds[1]


def boxes(count, *, centred):
    corner, size = RNG.uniform(0, 1, (2, count, 2)), RNG.uniform(0.1, 0.5, (2, count, 2))
    if centred:
        return np.concatenate((corner, size), axis=-1).astype(np.float32)
    either = RNG.uniform(size=(2, count, 1)) < 0.5  # two opposite corners, in any order
    one, other = corner, corner + size
    both = (np.where(either, one, other), np.where(either, other, one))
    return np.concatenate(both, axis=-1).astype(np.float32)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("given", range(4))
def test_boxes_are_taken_as_by_onnx_runtime(given, centred):
    for count in (0, 1, 40):
        scores = RNG.integers(0, 9, (2, 3, count)).astype(np.float32) / 9  # some of them equal
        optional = [np.array([20]), np.array([0.4], np.float32), np.array([0.3], np.float32)]
        inputs = [boxes(count, centred=bool(centred)), scores, *optional[:given]]
        model = node_model(
            "NonMaxSuppression", inputs, [np.dtype(np.int64)], opset=11, center_point_box=centred
        )
        feeds = {f"x{place}": value for place, value in enumerate(inputs)}
        compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds))


def test_thresholds_of_boxes_may_come_without_the_limit_and_as_scalars():
    inputs = [boxes(9, centred=False), floats(2, 1, 9), None, np.array(0.5, np.float32)]
    model = node_model("NonMaxSuppression", inputs, [np.dtype(np.int64)], opset=11)
    feeds = {f"x{place}": value for place, value in enumerate(inputs) if value is not None}
    assert compile_model(model).run(feeds)[0].shape == (0, 3)


TEXTS = np.array([["the cat, sat", "on a  mat"], ["", "é è ünï x1_y"]], object)


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("rule", [
    {"tokenexp": "[a-zA-Z0-9_]+"},
    {"tokenexp": r"\w+"},
    {"tokenexp": "x*"},
    {"tokenexp": "[[:alpha:]]+"},
    {"tokenexp": "a|at"},
    {"tokenexp": "a+?"},
    {"separators": [" "]},
    {"separators": [",? ", "a"]},
    {"separators": [" +", "[,]"]},
], ids=str)  # fmt: skip
def test_texts_are_cut_as_by_onnx_runtime(rule, least, mark):
    attributes = {"mark": mark, "mincharnum": least, "pad_value": "#", **rule}
    for texts in (TEXTS, TEXTS[0], TEXTS[1:, :1]):
        model = tokenizer(texts, **attributes)
        (expected,), (found,) = run_onnxruntime(model, {"x": texts}), compile_model(model)(texts)
        assert found.shape == expected.shape
        assert found.tolist() == expected.tolist()


def test_texts_are_cut_into_characters():
    model = tokenizer(TEXTS, mark=0, mincharnum=1, pad_value="#", separators=[""])
    found = compile_model(model)(TEXTS)[0]
    assert found.tolist() == run_onnxruntime(model, {"x": TEXTS})[0].tolist()


@pytest.mark.parametrize("rule", ["(", "(?=a)", r"(a)\1"])
def test_expressions_that_are_none_of_re2_are_refused(rule):
    with pytest.raises(Unsupported, match="none of RE2"):
        compile_model(tokenizer(TEXTS, mark=0, mincharnum=1, pad_value="#", tokenexp=rule))
    with pytest.raises(Unsupported, match="none of RE2"):
        compile_model(matcher(rule))


def test_without_the_library_of_re2_the_operator_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(Unsupported, match="pip install google-re2"):
        compile_model(matcher("a"))


def matcher(rule):
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=rule)
    fed = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [None, None])
    made = helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [None, None])
    graph = helper.make_graph([node], "g", [fed], [made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def tokenizer(texts, **attributes):
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **attributes)
    fed = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, texts.shape)
    graph = helper.make_graph([node], "g", [fed], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
