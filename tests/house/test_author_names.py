"""Names that a backend may import: one list for our own and for anybody's."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest

import subgraphkit.backend
from subgraphkit.backend import (
    Backend,
    BindContext,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.errors import BackendIncompatibleError
from tests.house.tree import PROJECTS, modules, shown

FOR_AUTHORS = {
    "subgraphkit": ["load", "__version__"],
    "subgraphkit.backend": list(subgraphkit.backend.__all__),
    "subgraphkit.ir": [
        "BoundGraph", "Bounds", "Graph", "Initializer", "MOST_AT_BIND", "Node", "Subgraph",
        "body_graphs", "effort_of", "integer_bounds", "make_subgraph",
    ],
    "subgraphkit.logs": ["logger_of"],
    "subgraphkit.onnx_io": ["load", "node_key", "outside_weights", "write_value_info"],
    "subgraphkit.processes": ["Child", "NoAnswer", "call", "how_it_ended"],
    "subgraphkit.rewriting": [
        "Kind", "Precision", "Ranges", "Rewriting", "rewrite",
    ],
    "subgraphkit.storing": ["Answers", "KeptFile", "Passing", "is_machine_fault", "locked"],
    "subgraphkit.texts": ["printable"],
    "subgraphkit.types": [
        "DataType", "Dim", "OptionalType", "SequenceType", "Shape", "TensorType", "ValueType",
        "fits", "repeated_names",
    ],
}  # fmt: skip
"""By room, the names that a backend may import; of ``subgraphkit.errors``, every class."""

CONTRACT = [
    "Answer", "Backend", "BindContext", "Check", "CompileEvent", "Conformance", "Connectivity",
    "Edit", "EngineOrigin", "Event", "Evidence", "FallbackEvent", "Footprint", "InnerTime",
    "Interrupted", "LoadLimits", "Manifest", "ModelOpener", "NodeSelector", "ON_DEVICE",
    "OpSelector", "OpenedModel", "Option", "OptionMapping", "OptionShapes", "PLUGIN_API",
    "PartitionSummary", "PatternSelector", "Pool", "Predicate", "ProbeResult", "Progress",
    "ProgressEvent", "ProgressListener", "Refusal", "RegionFallback", "RunEvent", "SelfCheck",
    "Side", "StepEvent", "SubgraphOperator", "SubgraphProperty", "SubgraphSelector", "Traits",
    "Unsupported", "attention_scores", "cache_values", "constant_bytes", "did_you_mean",
    "fill_buffers", "hookimpl", "hookspec", "installed_versions", "interrupted_here",
    "interruptible", "is_elementwise", "option_out_of_range", "options_of", "parse_manifest",
    "peak_of_values", "read_bool", "read_int", "read_manifest", "scaled_weights", "unavailable",
    "validate_options",
]  # fmt: skip

_BACKENDS = [path for path in modules() if any(path.is_relative_to(p.parent) for p in PROJECTS)]


def test_the_contract_is_this_and_nothing_else():
    assert sorted(subgraphkit.backend.__all__) == sorted(CONTRACT)


def test_the_classes_of_the_contract_have_at_most_45_members():
    classes = [Backend, BindContext, SubgraphOperator, SubgraphProperty]
    members = [
        f"{one.__name__}.{name}"
        for one in classes
        for name in ({"option_values"} if one is Backend else set())
        | {*dir(one), *one.__annotations__}
        if not name.startswith("_")
    ]
    assert len(members) <= 45, sorted(members)


@pytest.mark.parametrize(("base", "member", "remedy"), [
    (Backend, {"restore": None}, "deserialize(blob, subgraph, context)"),
    (Backend, {"deserialize": lambda self, blob, subgraph: None}, "(blob, subgraph, context)"),
    (Backend, {"loses_nan": frozenset({"Relu"})}, "traits = Traits(loses_nan=...)"),
    (SubgraphOperator, {"thread_safe": True}, "traits = Traits(thread_safe=...)"),
    (SubgraphProperty, {"accept_input": None}, "accept_boundary(node, value, side)"),
    (SubgraphProperty, {"duplicable": None}, "no node is copied"),
    (SubgraphSelector, {"selct_input": bool}, "select_input"),
    (SubgraphOperator, {"serialise": bool}, "serialize"),
])  # fmt: skip
def test_a_class_with_a_name_that_would_never_be_asked_is_told_so(base, member, remedy):
    told = f"(?s)SGK105.*{next(iter(member))}.*In its place: .*{re.escape(remedy)}"
    with pytest.raises(BackendIncompatibleError, match=told):
        type("Old", (base,), member)


def test_our_own_backends_import_nothing_that_others_may_not():
    private = defaultdict(set)
    for path in _BACKENDS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").split(".")[0] == "subgraphkit"
            ):
                allowed = FOR_AUTHORS.get(node.module or "", [])
                names = {alias.name for alias in node.names if alias.name not in allowed}
                if names and node.module != "subgraphkit.errors":
                    private[shown(path)] |= {f"{node.module}.{name}" for name in names}
            elif isinstance(node, ast.Import):
                private[shown(path)] |= {
                    alias.name for alias in node.names if alias.name.startswith("subgraphkit.")
                }
    assert {path: names for path, names in private.items() if names} == {}


@pytest.mark.parametrize("room", FOR_AUTHORS)
def test_a_name_for_authors_is_exported_and_explained(room):
    package = importlib.import_module(room)
    for name in FOR_AUTHORS[room]:
        assert hasattr(package, name), name
        value = getattr(package, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{room}.{name} has no docstring"
    assert Path(package.__file__ or "").exists()
