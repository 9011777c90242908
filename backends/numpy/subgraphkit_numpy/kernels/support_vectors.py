"""Support vector machines.

Probabilities of several classes are coupled as in LIBSVM, and so in scikit-learn.

Source: ONNX operators ``SVMClassifier`` and ``SVMRegressor`` of domain ``ai.onnx.ml``. Wu, Lin and
Weng, "Probability estimates for multi-class classification by pairwise coupling", 2004, second
method.
"""

from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from typing import Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

_LEAST: Final = 1e-7
"""A probability between two classes is at least this, and at most one less this."""
_TOLERANCE: Final = 0.005
_MOST_STEPS: Final = 100
_BINARY: Final = 2

Similarity = Callable[[Array], Array]
"""From rows to their similarity to every support vector."""


@kernel("SVMRegressor", domain="ai.onnx.ml")
def regress(site: Site) -> Made:
    """Add similarities to support vectors, weighed by coefficients; without any, be linear."""
    weights = _floats(site, "coefficients")
    offset = _floats(site, "rho")[0]
    vectors = site.attribute("n_supports", 0)
    similar = _similarity(site, vectors) if vectors else _rows
    one_class = site.attribute("one_class", 0)

    def compute(x: Array) -> Array:
        y: Array = similar(_rows(x)) @ weights + offset
        if one_class:
            y = np.where(y > 0, 1, -1)
        return y.astype(np.float32)[:, None]

    return compute


@kernel("SVMClassifier", domain="ai.onnx.ml")
def classify(site: Site) -> Made:
    """Let every pair of classes vote, or score each class linearly if there are no vectors."""
    labels = site.attribute("classlabels_strings") or site.ints("classlabels_ints") or ()
    names = np.array(labels, object if isinstance(labels[0], str) else np.int64)
    transform = _transform(site.attribute("post_transform", "NONE"))
    if not site.ints("vectors_per_class"):
        return _linear(site, names, transform)
    decide = _decisions(site, len(names))
    couple = _coupling(site, len(names)) if site.attribute("prob_a") else None
    mirrored = site.attribute("post_transform", "NONE") in {"NONE", "LOGISTIC"}

    def compute(x: Array) -> tuple[Array, Array]:
        decisions = decide(_rows(x))
        winners = names[_votes(decisions, len(names)).argmax(axis=1)]
        if couple is not None:
            return winners, transform(couple(decisions)).astype(np.float32)
        if len(names) > _BINARY:
            return winners, transform(decisions).astype(np.float32)
        if mirrored:
            both = transform(np.concatenate((-decisions, decisions), axis=1))
        else:  # as ONNX Runtime has it
            both = np.concatenate((1 - decisions, decisions), axis=1)
        return winners, both.astype(np.float32)

    return compute


def _linear(site: Site, names: Array, transform: Callable[[Array], Array]) -> Made:
    weights = _floats(site, "coefficients").reshape(len(names), -1).T
    offset = _floats(site, "rho")[0]
    # Two classes whose scores are not probabilities are decided by the sign of the greater one.
    is_signed = len(names) == _BINARY and not site.attribute("prob_a")
    least = 0.5 if (weights >= 0).all() else np.nextafter(0, 1)

    def compute(x: Array) -> tuple[Array, Array]:
        scores = _rows(x) @ weights + offset
        places = scores.argmax(axis=1)
        if is_signed:
            places[scores.max(axis=1) >= least] = 1
        return names[places], transform(scores).astype(np.float32)

    return compute


def _floats(site: Site, name: str) -> Array:
    return np.array(site.attribute(name, ()), np.float64)


def _rows(x: Array) -> Array:
    return np.atleast_2d(x).astype(np.float64)


def _similarity(site: Site, count: int) -> Similarity:
    vectors = _floats(site, "support_vectors").reshape(count, -1).T
    gamma, constant, degree = (*_floats(site, "kernel_params"), 0.0, 0.0, 0.0)[:3]
    kind = site.attribute("kernel_type", "LINEAR")
    if kind == "RBF":
        lengths = (vectors**2).sum(axis=0)
        return lambda x: np.exp(-gamma * ((x**2).sum(1)[:, None] + lengths - 2 * (x @ vectors)))
    if kind == "POLY":
        return lambda x: (gamma * (x @ vectors) + constant) ** degree
    if kind == "SIGMOID":
        return lambda x: np.tanh(gamma * (x @ vectors) + constant)
    return lambda x: x @ vectors


def _decisions(site: Site, classes: int) -> Similarity:
    """Return what decides between every pair of classes; the first wins if it is positive."""
    counts = site.ints("vectors_per_class") or ()
    similar = _similarity(site, sum(counts))
    coefficients = _floats(site, "coefficients").reshape(-1, sum(counts))
    ends = np.cumsum(counts)
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((sum(counts), len(pairs)))
    for pair, (first, second) in enumerate(pairs):
        # A class has a row of coefficients for each of the other classes.
        for own, row in ((first, second - 1), (second, first)):
            taken = slice(ends[own] - counts[own], ends[own])
            weights[taken, pair] = coefficients[row, taken]
    offsets = _floats(site, "rho")[: len(pairs)]
    return lambda x: similar(x) @ weights + offsets


def _votes(decisions: Array, classes: int) -> Array:
    votes = np.zeros((len(decisions), classes), np.int64)
    for pair, (first, second) in enumerate(combinations(range(classes), 2)):
        wins = decisions[:, pair] > 0
        votes[:, first] += wins
        votes[:, second] += ~wins
    return votes


def _coupling(site: Site, classes: int) -> Callable[[Array], Array]:
    slopes, shifts = _floats(site, "prob_a"), _floats(site, "prob_b")
    firsts, seconds = np.array(list(combinations(range(classes), 2))).T

    def couple(decisions: Array) -> Array:
        with np.errstate(over="ignore"):
            chances = 1 / (1 + np.exp(decisions * slopes + shifts))
        chances = chances.clip(_LEAST, 1 - _LEAST)
        between = np.zeros((len(decisions), classes, classes))
        between[:, firsts, seconds] = chances
        between[:, seconds, firsts] = 1 - chances
        return _fit_classes(between)

    return couple


def _fit_classes(between: Array) -> Array:
    """Find the probabilities of classes that fit best those between every two of them.

    The steps and the end of them are those of LIBSVM, for its results are not quite converged.
    """
    count, classes, _ = between.shape
    curvature = -between.transpose(0, 2, 1) * between
    places = np.arange(classes)
    curvature[:, places, places] = (between**2).sum(axis=1)
    result = np.full((count, classes), 1 / classes)
    open_rows = np.arange(count)
    for _ in range(max(_MOST_STEPS, classes)):
        q, p = curvature[open_rows], result[open_rows]
        slope = np.einsum("rij,rj->ri", q, p)
        mean = (p * slope).sum(axis=1)
        far = np.abs(slope - mean[:, None]).max(axis=1) >= _TOLERANCE / classes
        open_rows, q, p, slope, mean = open_rows[far], q[far], p[far], slope[far], mean[far]
        if not open_rows.size:
            break
        for place in range(classes):
            own = q[:, place, place]
            step = (mean - slope[:, place]) / own
            p[:, place] += step
            mean = (mean + step * (step * own + 2 * slope[:, place])) / (1 + step) ** 2
            slope = (slope + step[:, None] * q[:, place]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
        result[open_rows] = p
    return result


_BY_NUMBER: Final = {"LOGISTIC": "compute_logistic", "PROBIT": "compute_probit"}
_BY_ROW: Final = {"SOFTMAX": "softmax", "SOFTMAX_ZERO": "compute_softmax_zero"}
"""Functions of ``onnx.reference``, which takes longer to import than all kernels together."""


def _transform(name: str) -> Callable[[Array], Array]:
    """Return what is done to scores in the end; rare enough to be done one by one."""
    if name not in _BY_NUMBER | _BY_ROW:
        return lambda scores: scores
    functions = import_module("onnx.reference.ops.aionnxml._common_classifier")
    if name in _BY_NUMBER:
        return np.vectorize(getattr(functions, _BY_NUMBER[name]), otypes=[np.float64])
    by_row = getattr(functions, _BY_ROW[name])
    return lambda scores: np.array([by_row(row) for row in scores]).reshape(scores.shape)
