"""Pipelines of scikit-learn and LightGBM, trained on the spot and converted by their exporters."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import lightgbm
import numpy as np
import onnx
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType as LightGbmFloats
from skl2onnx import to_onnx
from skl2onnx.common import _container
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import (
    cluster,
    compose,
    decomposition,
    ensemble,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
)
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

Array = np.ndarray[Any, Any]

_X, _CLASSES = load_iris(return_X_y=True)
_X = _X.astype(np.float32)
_NAMES: Final = np.array(["setosa", "versicolor", "virginica"])[_CLASSES]
_LENGTHS: Final = 2 * _X[:, 0] + _X[:, 1] ** 2
_WITH_GAPS: Final = np.where(np.arange(_X.size).reshape(_X.shape) % 7 == 0, np.nan, _X)
# Neighbours that are equally near are told apart by rounding, so that none are.
_UNEVEN: Final = _WITH_GAPS + np.random.default_rng(0).normal(0, 0.1, _X.shape).astype(np.float32)
_COLOURS: Final = np.array(["red", "green", "blue"], object)[np.arange(len(_X)) % 3]
_TABLE: Final = np.concatenate((_X[:, :2].astype(object), _COLOURS[:, None]), axis=1)
_TEXTS: Final = np.array(
    ["the cat sat", "a dog ran", "dogs and cats", "the end of it", "the dog ran", "a cat it is"],
    object,
)


@dataclass(frozen=True)
class Pipeline:
    """A model to train, what it is trained on, and how it is converted.

    Attributes:
        feeds: Turns rows into what the ONNX model is fed.
    """

    name: str
    make: Callable[[], Any]
    x: Array = field(default_factory=lambda: _X)
    y: Array = field(default_factory=lambda: _CLASSES)
    converted: Callable[[Any], onnx.ModelProto] = lambda trained: to_onnx(trained, _X[:1])
    feeds: Callable[[Array], dict[str, Array]] = lambda x: {"X": x.astype(np.float32)}


def _of_texts(trained: Any) -> onnx.ModelProto:
    model: onnx.ModelProto = to_onnx(
        trained, initial_types=[("X", StringTensorType([None]))], target_opset=18
    )
    return model


def _of_table(trained: Any) -> onnx.ModelProto:
    types = [("numbers", FloatTensorType([None, 2])), ("words", StringTensorType([None, 1]))]
    model: onnx.ModelProto = to_onnx(trained, initial_types=types)
    return model


def _of_lightgbm(trained: Any) -> onnx.ModelProto:
    types = [("X", LightGbmFloats([None, 4]))]
    model: onnx.ModelProto = convert_lightgbm(trained, initial_types=types, target_opset=15)
    return model


def _of_histograms(trained: Any) -> onnx.ModelProto:
    """Convert with numbers where the converter has booleans, which protobuf no longer takes."""

    def with_numbers(*place: Any, **attributes: Any) -> onnx.NodeProto:
        made = {
            name: [int(v) if isinstance(v, bool | np.bool_) else v for v in value]
            if isinstance(value, list)
            else value
            for name, value in attributes.items()
        }
        return onnx.helper.make_node(*place, **made)

    with mock.patch.object(_container, "make_node", with_numbers):
        model: onnx.ModelProto = to_onnx(trained, _X[:1])
    return model


def _scaled(last: Any) -> Callable[[], Any]:
    return lambda: make_pipeline(preprocessing.StandardScaler(), last)


def _columns() -> Any:
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), [0, 1]),
            ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), [2]),
        ]
    )
    return make_pipeline(columns, linear_model.LogisticRegression())


def _regression(name: str, make: Callable[[], Any], **more: Any) -> Pipeline:
    return Pipeline(name, make, y=_LENGTHS, **more)


def _lightgbm(kind: Any) -> Callable[[], Any]:
    return lambda: kind(n_estimators=5, verbose=-1)


PIPELINES: Final = [
    Pipeline("principal components and logistic regression", lambda: make_pipeline(
        preprocessing.StandardScaler(), decomposition.PCA(2), linear_model.LogisticRegression())),
    Pipeline("k-means", _scaled(cluster.KMeans(3, n_init=2, random_state=0))),
    Pipeline("support vectors", _scaled(svm.SVC(random_state=0))),
    _regression("support vector regression", _scaled(svm.SVR())),
    Pipeline("random forest", lambda: ensemble.RandomForestClassifier(10, random_state=0)),
    Pipeline("random forest of names",
             lambda: ensemble.RandomForestClassifier(10, random_state=0), y=_NAMES),
    Pipeline("gradient boosting",
             lambda: ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0)),
    _regression("gradient boosted regression",
                lambda: ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0)),
    Pipeline("histogram gradient boosting with gaps",
             lambda: ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0),
             x=_WITH_GAPS, converted=_of_histograms),
    Pipeline("isolation forest", lambda: ensemble.IsolationForest(n_estimators=5, random_state=0),
             converted=lambda trained: to_onnx(
                 trained, _X[:1], target_opset={"": 17, "ai.onnx.ml": 3})),
    Pipeline("nearest neighbours", lambda: neighbors.KNeighborsClassifier(3)),
    Pipeline("naive bayes", naive_bayes.GaussianNB),
    Pipeline("multilayer perceptron", _scaled(
        neural_network.MLPClassifier((8,), max_iter=2000, random_state=0))),
    Pipeline("one-hot columns", _columns, x=_TABLE, converted=_of_table, feeds=lambda x: {
        "numbers": x[:, :2].astype(np.float32), "words": x[:, 2:]}),
    Pipeline("words", lambda: make_pipeline(
        TfidfVectorizer(), linear_model.LogisticRegression()),
        x=_TEXTS, y=np.array([0, 1, 1, 0, 1, 0]), converted=_of_texts, feeds=lambda x: {"X": x}),
    Pipeline("normalizer", lambda: make_pipeline(
        preprocessing.Normalizer("l1"), linear_model.LogisticRegression())),
    Pipeline("imputer", lambda: make_pipeline(
        impute.SimpleImputer(), linear_model.LogisticRegression()), x=_WITH_GAPS),
    Pipeline("imputer by neighbours", lambda: make_pipeline(
        impute.KNNImputer(n_neighbors=2), linear_model.LogisticRegression()), x=_UNEVEN),
    _regression("function and ridge", lambda: make_pipeline(
        preprocessing.FunctionTransformer(), preprocessing.PolynomialFeatures(2),
        linear_model.Ridge())),
    Pipeline("lightgbm", _lightgbm(lightgbm.LGBMClassifier), converted=_of_lightgbm),
    Pipeline("lightgbm of names", _lightgbm(lightgbm.LGBMClassifier), y=_NAMES,
             converted=_of_lightgbm),
    Pipeline("lightgbm with gaps", _lightgbm(lightgbm.LGBMClassifier), x=_WITH_GAPS,
             converted=_of_lightgbm),
    _regression("lightgbm regression", _lightgbm(lightgbm.LGBMRegressor),
                converted=_of_lightgbm),
]  # fmt: skip
