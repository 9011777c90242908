"""Nodes for operators that the official cases leave out."""

from typing import Any, Final

import numpy as np
from onnx import NodeProto, helper

X: Final = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
ML: Final = "ai.onnx.ml"


def _node(op_type: str, opset: int, inputs: list[Any], domain: str = "", outputs: int = 1,
          **attributes: Any) -> tuple[NodeProto, int, list[Any]]:  # fmt: skip
    names = ["" if value is None else f"x{place}" for place, value in enumerate(inputs)]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    return node, opset, inputs


_I = np.array(1, np.int64)
_TREE: Final[dict[str, Any]] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [2.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_missing_value_tracks_true": [0, 0, 0],
    "nodes_hitrates": [1.0, 1.0, 1.0],
}
_SVM: Final[dict[str, Any]] = {
    "coefficients": [1.0, -1.0],
    "kernel_params": [0.5, 0.0, 3.0],
    "kernel_type": "RBF",
    "support_vectors": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "rho": [0.5],
}

EXTRA: Final = [
    _node("ConcatFromSequence", 11, [[X, X]], axis=0),
    _node("GlobalLpPool", 2, [X.reshape(1, 2, 3, 1)], p=2),
    _node("MaxRoiPool", 1, [X.reshape(1, 1, 2, 3), np.array([[0, 0, 0, 1, 1]], np.float32)],
          pooled_shape=[1, 1]),
    _node("Multinomial", 7, [X], sample_size=2),
    _node("Optional", 15, [X]),
    _node("Optional", 15, [[X]]),
    _node("OptionalHasElement", 18, [X]),
    _node("OptionalGetElement", 18, [X]),
    _node("OptionalHasElement", 18, [[X]]),
    _node("OptionalGetElement", 18, [[X]]),
    _node("Identity", 14, [[X, X]]),
    _node("RandomNormal", 1, [], shape=[2, 3]),
    _node("RandomUniform", 1, [], shape=[2, 3]),
    _node("RandomNormalLike", 1, [X]),
    _node("RandomUniformLike", 1, [X]),
    _node("RandomNormalLike", 1, [X], dtype=1),
    _node("RandomUniformLike", 1, [X], dtype=1),
    _node("SequenceAt", 11, [[X, X], _I]),
    _node("SequenceConstruct", 11, [X, X]),
    _node("SequenceEmpty", 11, [], dtype=1),
    _node("SequenceErase", 11, [[X, X], _I]),
    _node("SequenceLength", 11, [[X, X]]),
    _node("SequenceInsert", 11, [[X, X], X, _I]),
    _node("CastMap", 1, [{1: 2.0, 3: 4.0}], ML),
    _node("CastMap", 1, [{1: "2", 3: "4"}], ML),
    _node("CategoryMapper", 1, [np.array(["a", "b"], object)], ML, cats_strings=["a", "b"],
          cats_int64s=[3, 4]),
    _node("CategoryMapper", 1, [np.array([3, 4], np.int64)], ML, cats_strings=["a", "b"],
          cats_int64s=[3, 4]),
    _node("DictVectorizer", 1, [{"a": 2.0, "b": 4.0}], ML, string_vocabulary=["a", "b"]),
    _node("DictVectorizer", 1, [{1: 2.0, 3: 4.0}], ML, int64_vocabulary=[1, 3]),
    _node("FeatureVectorizer", 1, [X, X], ML, inputdimensions=[3, 3]),
    _node("Imputer", 1, [X], ML, imputed_value_floats=[0.5], replaced_value_float=2.0),
    _node("Imputer", 1, [X.astype(np.int64)], ML, imputed_value_int64s=[7], replaced_value_int64=2),
    _node("LinearClassifier", 1, [X], ML, outputs=2, coefficients=[1.0, 0.0, -1.0, 0.0, 1.0, 0.5],
          intercepts=[0.0, 0.5], classlabels_ints=[0, 1]),
    _node("LinearRegressor", 1, [X], ML, coefficients=[1.0, 0.5, -1.0], intercepts=[0.5]),
    _node("Normalizer", 1, [X], ML, norm="L2"),
    _node("OneHotEncoder", 1, [X.astype(np.int64)], ML, cats_int64s=[1, 2, 3]),
    _node("OneHotEncoder", 1, [np.zeros((0, 2), np.int64)], ML, cats_int64s=[1, 2, 3]),
    _node("OneHotEncoder", 1, [np.array(["a", "b"], object)], ML, cats_strings=["a", "c"]),
    _node("SVMClassifier", 1, [X], ML, outputs=2, classlabels_ints=[0, 1],
          vectors_per_class=[1, 1], **_SVM),
    _node("SVMRegressor", 1, [X], ML, n_supports=2, **_SVM),
    _node("Scaler", 1, [X], ML, offset=[1.0, 2.0, 3.0], scale=[1.0, 0.5, 2.0]),
    _node("TreeEnsembleClassifier", 3, [X], ML, outputs=2, class_treeids=[0, 0],
          class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 1.0],
          classlabels_int64s=[0, 1], post_transform="NONE", **_TREE),
    _node("TreeEnsembleRegressor", 3, [X], ML, n_targets=1, target_treeids=[0, 0],
          target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0], **_TREE),
    _node("ZipMap", 1, [X[:, :2]], ML, classlabels_int64s=[1, 2]),
    _node("ZipMap", 1, [X[:, :2]], ML, classlabels_strings=["a", "b"]),
    _node("LabelEncoder", 4, [np.array(["a", "b"], object)], ML, keys_strings=["a", "b"],
          values_int64s=[3, 4]),
    # versions whose signature no newer case fits
    _node("Upsample", 7, [X.reshape(1, 1, 2, 3)], scales=[1.0, 1.0, 2.0, 2.0]),
    _node("Upsample", 1, [X.reshape(1, 1, 2, 3)], height_scale=2.0, width_scale=2.0),
    _node("Pad", 1, [X], paddings=[0, 0, 1, 1]),
    _node("Pad", 2, [X], pads=[0, 0, 1, 1]),
    _node("Slice", 1, [X], starts=[0, 1], ends=[2, 3]),
    _node("Split", 1, [X], outputs=2, axis=0, split=[1, 1]),
    _node("Split", 2, [X], outputs=2, axis=0),
    _node("TopK", 1, [X], outputs=2, k=2),
    _node("Scatter", 9, [X, np.array([[1, 0, 1]], np.int64), X[:1]]),
    _node("Cast", 9, [X], to=11),
    _node("Cast", 1, [X], to="DOUBLE"),
    _node("Add", 1, [X, X]), _node("Sub", 1, [X, X]), _node("Mul", 1, [X, X]),
    _node("Div", 1, [X, X]), _node("Pow", 1, [X, X]),
    _node("Gemm", 6, [X, X.T.copy(), np.ones((2, 2), np.float32)]),
    _node("BatchNormalization", 1, [X.reshape(1, 2, 3), *[np.ones(2, np.float32)] * 4],
          consumed_inputs=[0, 0, 0, 1, 1], is_test=1),
    _node("BatchNormalization", 7, [X.reshape(1, 2, 3), *[np.ones(2, np.float32)] * 4]),
    _node("Dropout", 1, [X], is_test=1),
    _node("GridSample", 16, [X.reshape(1, 1, 2, 3), np.zeros((1, 2, 2, 2), np.float32)]),
    _node("Resize", 10, [X.reshape(1, 1, 2, 3), np.array([1, 1, 2, 2], np.float32)]),
    _node("Reshape", 1, [X], shape=[3, 2]),
    _node("DepthToSpace", 1, [np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2)], blocksize=2),
    _node("LabelEncoder", 1, [np.array(["a", "b"], object)], ML, classes_strings=["a", "b"]),
    _node("RoiAlign", 10, [X.reshape(1, 1, 2, 3), np.array([[0, 0, 1, 1]], np.float32),
                           np.zeros(1, np.int64)]),
    _node("Tile", 1, [X, np.array(2, np.float32), np.array(0, np.float32)]),
    _node("Equal", 1, [X.astype(np.int32), X.astype(np.int32)]),
    _node("Greater", 1, [X, X]), _node("Less", 1, [X, X]),
    *[_node(op, 1, [X > 2, X > 3]) for op in ("And", "Or", "Xor")],
    *[_node(op, 1, [X, X]) for op in ("Max", "Min", "Mean", "Sum")],
    _node("PRelu", 1, [X, X]),
    _node("Softmax", 1, [X]), _node("LogSoftmax", 1, [X]), _node("Hardmax", 1, [X]),
]  # fmt: skip
"""Node, opset and inputs."""
