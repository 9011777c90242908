"""Every operator with every element type of its schema: what is bound runs, what is not is refused.

A combination counts as wrong if a node that was bound fails, though the same node runs with the
types of the template, or if what it gives differs from ``onnx.reference``.
"""

import warnings
from itertools import groupby

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from backends.numpy.tests.dtype_sweep import (
    combinations,
    converted,
    element_type,
    model_of,
    schemas,
)
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported
from subgraphkit.errors import ExecutionError, InvalidModelError
from subgraphkit.types import DataType, TensorType

RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial"})
"""Operators whose results differ from run to run; so do those called ``Random...``."""

DIFFERENT = {
    "AveragePool-1": "the reference counts the padding, which came with version 7",
    "BatchNormalization-9": "the reference takes one output for training",
    "Erf": "what integers are rounded to is not specified",
    "Gemm": "how integers are scaled by a fraction is not specified",
    "Hardmax": "before version 13 the reference does not flatten",
    "If": "the reference wraps an optional value in a list",
    "LogSoftmax": "before version 13 the reference does not flatten",
    "Optional": "the reference wraps the value in a list",
    "RoiAlign-10": "the reference moves boxes by half a place, which came with version 16",
    "SVMClassifier": "the reference rounds scores of integers to integers",
    "SVMRegressor": "the reference rounds sums of integers to integers",
    "Softmax": "before version 13 the reference does not flatten",
    "Trilu-14": "the reference writes numbers between texts",
}
"""What is not compared with the reference, and why; by operator, or by operator and version."""

TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-4, "float64": 1e-6,
              "complex64": 1e-4, "complex128": 1e-6}  # fmt: skip
LOOSEST = 0.26
"""For types of a byte and less, where neighbours lie a quarter apart."""

UNCOVERED = [
    "Gradient-1", "NonMaxSuppression-10", "NonMaxSuppression-11", "OptionalGetElement-15",
    "OptionalHasElement-15", "SequenceEmpty-11", "StringNormalizer-10", "ZipMap-1",
]  # fmt: skip
"""What has no element types to choose from, or only those of sequences and optional values."""

NAMES = {
    key: list(versions)
    for key, versions in groupby(schemas(), key=lambda schema: (schema.domain, schema.name))
}


OLDER = 16
"""Of the combinations of a version that a newer one replaced, one in so many is run."""


def sample(schema, *, is_newest):
    """Return what is run of a version: everything, or other types in each version."""
    found = [candidate for of_type in combinations(schema) for candidate in of_type]
    step = 1 if is_newest else OLDER
    return found[schema.since_version % max(1, min(step, len(found))) :: step]


def run(combination, dtype=None):
    """Return how far a combination came, and what there is to say about it."""
    model, feeds = model_of(combination, dtype)
    try:
        compiled = compile_model(model)
    except Unsupported as error:
        return "refused", error
    except InvalidModelError as error:
        return "invalid", error
    try:
        outputs = compiled.run(feeds)
    except ExecutionError as error:
        return "failed", error
    types = [compiled.bound.types.get(name) for name in compiled.bound.outputs]
    return "ran", (model, feeds, outputs, types)


def fault(combination, outcome, details):
    """Return what is wrong with a combination that came so far, or None."""
    if outcome == "refused":
        right = "nothing implements it" in str(details) or "no implementation" in str(details)
        return None if right else f"{combination}: refused without a reason: {details}"
    if outcome == "failed":
        base, _ = run(combination, _own_type(combination))
        return None if base == "failed" else f"{combination}: {details}"
    schema = combination.schema
    different = {schema.name, f"{schema.name}-{schema.since_version}"} & DIFFERENT.keys()
    if outcome == "invalid" or different:
        return None
    return _wrong_result(combination, *details)


def _wrong_result(combination, model, feeds, outputs, types):
    for output, type_ in zip(outputs, types, strict=True):
        dense = isinstance(type_, TensorType) and isinstance(output, np.ndarray)
        if dense and output.dtype != type_.dtype.numpy:
            return f"{combination}: {output.dtype} declared as {type_}"
    name = combination.schema.name
    if name in RANDOM or name.startswith("Random"):
        return None
    try:
        expected = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001 (the reference does not have it, or not for this type)
        return None
    rounding = element_type(combination.type_name).label
    tolerance = TOLERANCES.get(rounding, 0.0 if "int" in rounding else LOOSEST)
    right = alike(expected, outputs, tolerance)
    return None if right else f"{combination}: differs from the reference"


def _own_type(combination):
    schema, template = combination.schema, combination.template
    for place, value in enumerate(template.inputs):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        if value is not None and formal.type_str == combination.parameter:
            return DataType.of(np.asarray(_first(value)).dtype)
    return DataType.FLOAT


def _first(value):
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
    return value


def alike(expected, actual, tolerance):
    """Compare values, element by element where they are lists."""
    if isinstance(expected, list):
        pairs = zip(expected, actual, strict=False)
        return len(expected) == len(actual) and all(alike(e, a, tolerance) for e, a in pairs)
    if expected is None or isinstance(expected, dict):
        return bool(expected == actual)
    want, have = np.asarray(expected), np.asarray(actual)
    if want.dtype.kind in "USO":
        return bool(want.tolist() == have.tolist())
    if want.shape != have.shape:
        return False
    if have.dtype.kind in "iub":
        return bool(np.array_equal(want, have))
    tolerance = max(tolerance, TOLERANCES.get(have.dtype.name, LOOSEST))
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    want, have = want.astype(wide), have.astype(wide)
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    return bool(np.allclose(want, have, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


@pytest.mark.parametrize(("domain", "name"), NAMES, ids=[f"{d}::{n}" for d, n in NAMES])
def test_an_operator_runs_with_every_element_type_or_is_refused(domain, name, pytestconfig):
    faults: list[str] = []
    newest = NAMES[domain, name][-1]
    is_full = pytestconfig.getoption("--all-cases")
    never_ran: list[str] = []
    with warnings.catch_warnings():
        # the reference converts NaN to integers and takes logarithms of zero
        warnings.simplefilter("ignore")
        for schema in NAMES[domain, name]:
            outcomes = set()
            for candidate in sample(schema, is_newest=is_full or schema is newest):
                outcome, details = run(candidate)
                outcomes.add(outcome)
                found = fault(candidate, outcome, details)
                faults += [] if found is None else [found]
            if "failed" in outcomes and "ran" not in outcomes:
                outcomes |= {run(candidate)[0] for candidate in sample(schema, is_newest=True)}
            if "failed" in outcomes and "ran" not in outcomes:
                never_ran.append(f"{name}-{schema.since_version}")
    assert not faults, "\n".join(faults)
    assert not never_ran


def test_the_sweep_covers_nearly_every_type_of_every_operator():
    counts = {
        f"{schema.name}-{schema.since_version}": len(list(filter(None, combinations(schema))))
        for schema in schemas()
    }
    assert sum(counts.values()) > 7000
    uncovered = sorted(name for name, count in counts.items() if not count)
    assert uncovered == UNCOVERED


ELEMENTS = [dtype for dtype in DataType if dtype and "COMPLEX" not in dtype.name]


@pytest.mark.parametrize("source", ELEMENTS, ids=lambda dtype: dtype.name)
def test_cast_takes_every_pair_of_types(source):
    x = converted(np.array([1, 2, 3, 4, 1.5, -2]), source)
    given = helper.make_tensor_value_info("x", int(source), x.shape)
    for target in ELEMENTS:
        made = helper.make_tensor_value_info("y", int(target), x.shape)
        node = helper.make_node("Cast", ["x"], ["y"], to=int(target))
        model = helper.make_model(
            helper.make_graph([node], "g", [given], [made]),
            opset_imports=[helper.make_opsetid("", 28)],
        )
        (y,) = compile_model(model)(x)
        assert y.dtype == target.numpy
        if source not in {DataType.STRING, DataType.BOOL} and target.numpy.kind in "fiu":
            unsigned = target.numpy.kind == "u"
            back = np.asarray(x[:2]).astype(np.float32)
            assert unsigned or y[:2].astype(np.float32).tolist() == back.tolist()


BODY_TYPES = ["float", "double", "float16", "bfloat16", "int64", "uint8", "bool", "string",
              "float8e4m3fn", "int4", "complex64"]  # fmt: skip


@pytest.mark.parametrize("name", BODY_TYPES)
def test_bodies_hand_on_every_element_type(name):
    dtype = element_type(f"tensor({name})")
    x = converted(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), dtype)
    model = parsed(
        f"""
        g (bool c, int64 n, {name}[2, 2] x)
          => ({name}[2, 2] y, {name}[m, 2, 2] z, {name}[2, 2] s) {{
          y = If (c) <
            then_branch = t () => ({name}[2, 2] a) {{ a = Identity(x) }},
            else_branch = e () => ({name}[2, 2] b) {{ b = Transpose(x) }}
          >
          last, z = Loop (n, c, x) <body = l
            (int64 i, bool go, {name}[2, 2] state) => (bool on, {name}[2, 2] next, {name}[2, 2] out)
            {{ on = Identity(go) next = Identity(state) out = Identity(state) }}
          >
          s = Scan <num_scan_inputs = 1, body = r
            ({name}[2] row) => ({name}[2] same) {{ same = Identity(row) }}
          > (x)
        }}
        """,
        opset=22,
    )
    y, z, s = compile_model(model)(np.array(1, bool), np.array(3, np.int64), x)
    assert [value.dtype for value in (y, z, s)] == [x.dtype] * 3
    assert y.tolist() == s.tolist() == z[2].tolist() == x.tolist()


@pytest.mark.parametrize(
    ("operator", "inputs", "expected"),
    [
        ("Sin", [np.ones(2, np.complex64)], "Sin of complex64"),
        ("Sin", [np.ones(2, np.int64)], "Sin of int64"),
        ("MatMul", [np.ones((2, 2), np.int8)] * 2, "MatMul of int8"),
        ("Where", [np.ones(2, bool), np.ones(2, np.float32), np.ones(2, np.float16)],
         "Where of bool and float32 and float16"),
        ("Gather", [np.ones(2, np.float32), np.ones(2, np.int8)], "Gather of float32 and int8"),
        ("ScatterND", [np.array(["a"], object), np.array([[0]]), np.array(["b"], object)],
         "ScatterND of string with reduction 'mul'"),
        ("Resize", [np.array(["a"], object), None, np.ones(1, np.float32)], "Resize of string"),
    ],
)  # fmt: skip
def test_types_that_nothing_computes_are_refused_by_name(operator, inputs, expected):
    dtype = inputs[1].dtype if operator == "Where" else inputs[0].dtype
    attributes = {"reduction": "mul"} if operator == "ScatterND" else {}
    model = node_model(operator, inputs, [dtype], opset=22, **attributes)
    with pytest.raises(Unsupported) as caught:
        compile_model(model)
    assert f"dtype: {expected}: nothing implements it (opset 22)" in str(caught.value)
    assert f"#0 {operator}" in str(caught.value)


def test_types_of_later_versions_are_taken_where_the_operator_is_the_same():
    x = np.array([-1, 2], np.int32)
    model = node_model("Relu", [x], [x.dtype], opset=6)
    assert compile_model(model)(x)[0].tolist() == [0, 2]


def test_a_refusal_inside_a_body_names_the_node_that_cannot_run():
    model = parsed("""
    g (bool c, int64[2] x) => (int64[2] y) {
      y = If (c) <
        then_branch = t () => (int64[2] a) { a = Sin(x) },
        else_branch = e () => (int64[2] b) { b = Abs(x) }
      >
    }
    """)
    with pytest.raises(Unsupported, match=r"dtype: Sin of int64: nothing implements it"):
        compile_model(model)
