"""Operators whose types, names or numbers do not follow the rule."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from subgraphkit.precision import Rewriting, rewrite
from tests.models import parsed

SHORT = pytest.mark.parametrize("precision", ["fp16", "bf16"])


def _checked(model: onnx.ModelProto, precision: Any) -> Rewriting:
    done = rewrite(model, precision)
    onnx.checker.check_model(done.model, full_check=True)
    return done


def _codes(done: Rewriting) -> dict[str, str]:
    return {one.node: one.code for one in done.kept}


@SHORT
@pytest.mark.parametrize(
    ("body", "opset", "code"),
    [
        ("g (float[2] x) => (int32[2] y) { y = BitCast <to = 6> (x) }", 26, "never"),
        ("g (float[2] x) => (float[2] y) { y = OptionalGetElement(x) }", 18, "type"),
        (
            "g (float[1,2] x) => (float[1,2] y) { y = MeanVarianceNormalization<axes = [1]>(x) }",
            18,
            "never",
        ),
        (
            "g (float[3,5] x, int64[3] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }",
            18,
            "never",
        ),
    ],
)
def test_an_operator_that_cannot_take_the_type_stays(
    precision: str, body: str, opset: int, code: str
) -> None:
    done = _checked(parsed(body, opset), precision)
    assert _codes(done) == {"y": code}
    assert done.casts == 0


@SHORT
def test_a_tensor_in_an_attribute_states_the_type(precision: str) -> None:
    facts: dict[str, Any] = {
        "nodes_splits": numpy_helper.from_array(np.ones(1, np.float32)),
        "leaf_weights": numpy_helper.from_array(np.ones(2, np.float32)),
        "nodes_modes": numpy_helper.from_array(np.zeros(1, np.uint8)),
    }
    places = ("nodes_falseleafs", "nodes_trueleafs", "nodes_truenodeids")
    facts |= {place: [1] for place in places} | {"nodes_falsenodeids": [0], "nodes_featureids": [0]}
    facts |= {"leaf_targetids": [0, 0], "tree_roots": [0], "n_targets": 1}
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **facts)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1])],
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 5)]
    done = _checked(helper.make_model(graph, opset_imports=imports, ir_version=10), precision)
    assert _codes(done) == {"y": "stated"}
    assert done.casts == 0


def test_a_product_of_all_elements_is_kept_in_fp16_alone() -> None:
    body = "g (float[9] x) => (float[1] y) { y = ReduceProd(x) }"
    assert _codes(_checked(parsed(body), "fp16")) == {"y": "normalisation"}
    assert _codes(_checked(parsed(body), "bf16")) == {}


def test_a_limit_that_nothing_reaches_keeps_the_clip_and_nobody_behind_it() -> None:
    body = """g (float[2] x) => (float[2] y) <float zero = {0}, float most = {3.4028234e38}>
    { a = Clip(x, zero, most) b = Add(a, a) y = Neg(b) }"""
    done = _checked(parsed(body), "fp16")
    assert _codes(done) == {"a": "weights"}
    assert done.lowered == ("b", "y")


def test_no_new_name_is_one_that_a_body_has() -> None:
    body = """g (float[2] x, bool b) => (float[2] y) {
      n = Neg(x)
      z = If (b) <then_branch = t () => (float[2] p) { x_float16 = Abs(x) p = Neg(x_float16) },
                  else_branch = e () => (float[2] q) { q = Neg(x) }>
      y = Add(z, n) }"""
    done = _checked(parsed(body), "fp16")
    assert "x_float16" not in {value for node in done.model.graph.node for value in node.output}
    assert done.lowered == ("n", "y")


@pytest.mark.parametrize(("opset", "codes"), [(12, {"y": "softmax"}), (13, {})])
def test_an_old_softmax_sums_over_all_axes_from_its_own_on(
    opset: int, codes: dict[str, str]
) -> None:
    body = "g (float[1,2,1025] x) => (float[1,2,1025] y) { y = Softmax(x) }"
    assert _codes(_checked(parsed(body, opset), "fp16")) == codes
