"""The backend as the core sees it: what it takes, what it refuses, what its manifest says."""

import re
import sys
from pathlib import Path

import onnxruntime
import pytest
from onnx import defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state

from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported
from subgraphkit.ir import Graph, Node, NodeTable, build_graph
from subgraphkit_numpy import NumpyBackend, kernels
from subgraphkit_numpy.kernels import registry
from subgraphkit_numpy.kernels.microsoft import MICROSOFT, schema_of
from subgraphkit_numpy.kernels.reference import reference_entry
from subgraphkit_numpy.kernels.registry import Implementation, find

TRAINING = {("ai.onnx.preview.training", "Gradient")}


def _operators():
    """Return every operator and version that onnx knows and has not withdrawn."""
    return sorted(
        (schema.domain, schema.name, schema.since_version)
        for schema in defs.get_all_schemas_with_history()
        if not schema.deprecated and (schema.domain, schema.name) not in TRAINING
    )


def test_every_operator_of_every_version_has_an_implementation():
    missing = [
        operator
        for operator in _operators()
        if find(*operator) is None and not isinstance(reference_entry(*operator), Implementation)
    ]
    assert missing == [], missing


def _computed_of_onnx_runtime():
    return {name for domain, name in registry._ENTRIES if domain == MICROSOFT}


def test_the_page_names_every_operator_of_onnx_runtime():
    page = (Path(__file__).parents[3] / "docs" / "numpy.md").read_text(encoding="utf-8")
    section = page.partition("## Operators of ONNX Runtime")[2].partition("Two of them")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == _computed_of_onnx_runtime()


def test_operators_of_onnx_runtime_take_what_they_take_there():
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32):
        pytest.skip("an older ONNX Runtime knows less")
    get_schemas = onnxruntime_pybind11_state.get_all_operator_schema
    theirs = {one.name: one for one in get_schemas() if one.domain == MICROSOFT}
    theirs |= {one.name: one for one in get_schemas() if one.name.startswith("Simplified")}
    for name in _computed_of_onnx_runtime():
        ours = schema_of(name)
        assert len(ours.inputs) == len(theirs[name].inputs), name
        assert len(ours.outputs) == len(theirs[name].outputs), name
        types = {
            one.type_param_str: set(one.allowed_type_strs) for one in theirs[name].type_constraints
        }
        for mine, other in zip(ours.inputs, theirs[name].inputs, strict=True):
            assert set(mine.types) <= types.get(other.typeStr, {other.typeStr}), (name, mine.name)


_WITHDRAWN, _IN = "opset: operator ", " is withdrawn in opset "
_EXPORT = "; export the model for one below "


def test_every_family_registers_kernels():
    for path in Path(kernels.__file__).parent.glob("*.py"):
        if "\n@kernel(" in path.read_text(encoding="utf-8"):
            assert f"{kernels.__name__}.{path.stem}" in sys.modules


@pytest.mark.parametrize(("operator", "domain", "opset", "expected"), [
    ("Nonsense", "", 18, "op_unsupported: operator Nonsense is unknown"),
    ("Gelu", "", 18, "opset: operator Gelu does not exist in opset 18"),
    ("Upsample", "", 21, f"{_WITHDRAWN}Upsample{_IN}21{_EXPORT}10, or with Resize in its place"),
    ("Scatter", "", 18, f"{_WITHDRAWN}Scatter{_IN}18{_EXPORT}11, or with ScatterElements in"),
    ("Conv", "com.acme", 1, "op_unsupported: operator com.acme::Conv"),
])  # fmt: skip
def test_what_nothing_implements_is_refused_by_name(operator, domain, opset, expected):
    table = NodeTable([operator], [domain], [""], [("x",)], [("y",)], [{}])
    graph: Graph = build_graph(
        name="g", table=table, inputs=("x",), outputs=("y",), initializers={}, defaults={},
        opset_imports={domain: opset}, types={}, node_constants={},
    )  # fmt: skip
    selector = NumpyBackend().properties()[0].create_selector(graph)  # type: ignore[arg-type]
    answer = selector.select(Node(graph, 0))
    assert not answer
    assert str(answer).startswith(expected)


def test_a_node_whose_body_cannot_run_is_refused():
    model = parsed("""
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] a) { a = Neg(x) },
        else_branch = e () => (float[2] b) { b = Abs(x) }
      >
    }
    """)
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    body = model.graph.node[0].attribute[1].g
    body.node[0].CopyFrom(
        helper.make_node("Gradient", ["x"], ["b"], domain="ai.onnx.preview.training",
                         xs=["x"], y="x")
    )  # fmt: skip
    with pytest.raises(Unsupported, match="Gradient"):
        compile_model(model)
