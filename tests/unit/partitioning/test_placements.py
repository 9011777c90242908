"""Placements: written, read, found again under the same circumstances, and refused for others."""

import json
import logging
from typing import Any

import pytest

import subgraphkit as sk
from subgraphkit.errors import ConfigError
from subgraphkit.partitioning import Constraints
from subgraphkit.partitioning.placements import circumstances, keep_placement
from subgraphkit.partitioning.plan_files import Placement, read_placement
from tests.models import parsed

CHAIN = parsed(
    "agraph (float[2, 3] x) => (float[2, 3] v5) {"
    + "".join(f"v{at} = Sigmoid({f'v{at - 1}' if at else 'x'})" for at in range(6))
    + "}"
)
SETTINGS: Any = {"backend": "auto", "threads": 2}


@pytest.fixture
def bound(tmp_path):
    return bind(tmp_path)


def bind(folder, **settings):
    return sk.bind(sk.load(CHAIN), **{**SETTINGS, "cache_dir": folder / "cache", **settings})


def placed(bound, **changed):
    """Return a placement of the second half on ONNX Runtime, the first half on NumPy."""
    names = [bound.table.outputs[node][0] for node in bound.order]
    facts: dict[str, Any] = {
        "backends": {"numpy": {}, "onnxruntime": {"optimization": "basic"}},
        "nodes": {"numpy": tuple(names[:3]), "onnxruntime": tuple(names[3:])},
        "circumstances": circumstances(bound, bound.settings),
        "figures": {"seconds": 0.5},
    }
    return Placement(**{**facts, **changed})


def plan_text(**changed):
    """Return a plan file that places nothing, but for what is changed in it."""
    plan: dict[str, Any] = {"format": 1, "backends": {"numpy": {}}, "nodes": {}}
    return json.dumps({**plan, "circumstances": {}, "figures": {}, **changed})


def homes(bound, backends=None):
    partitioning = sk.partition(bound, backends)
    return [(one.backend, len(one.nodes)) for one in partitioning.subgraphs]


def test_a_plan_file_says_who_takes_which_nodes_with_which_options(bound, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(placed(bound).to_json())
    assert read_placement(path) == placed(bound)
    assert homes(bound, f"@{path}") == [("numpy", 3), ("onnxruntime", 3)]
    partitioning = sk.partition(bind(tmp_path, backend=f"@{path}"))
    assert [one.backend for one in partitioning.subgraphs] == ["numpy", "onnxruntime"]
    options: Any = partitioning.passes.claims[-1].backend.option_values
    assert options.optimization == "basic"


def test_auto_goes_by_what_is_kept_for_these_circumstances_alone(bound, tmp_path):
    before = homes(bound)
    keep_placement(placed(bound), bound.settings)
    assert homes(bind(tmp_path)) == [("numpy", 3), ("onnxruntime", 3)] != before
    assert homes(bind(tmp_path, threads=1)) == before
    assert homes(bind(tmp_path, cache=False)) == before
    assert homes(bind(tmp_path, fallback="onnxruntime")) != [("numpy", 3), ("onnxruntime", 3)]
    assert homes(bind(tmp_path, strict=True)) == before
    assert homes(bind(tmp_path, require={before[0][0]: 1.0})) == before
    assert homes(bind(tmp_path, options={"onnxruntime": {"optimization": "basic"}})) == before
    assert homes(bind(tmp_path, backend="auto,numpy")) == before
    demanded = sk.partition(bind(tmp_path), constraints=Constraints(exclusions={"numpy": [5]}))
    assert len(demanded.subgraphs) == len(before)


def test_what_is_kept_is_passed_over_where_a_backend_is_gone_or_none_is_to_place(bound, tmp_path):
    before = homes(bound)
    keep_placement(placed(bound, backends={"gone": {}, "numpy": {}}, nodes={}), bound.settings)
    assert homes(bind(tmp_path)) == before
    empty = sk.load(parsed("agraph (float[2] x) => (float[2] x) { }"))
    assert homes(sk.bind(empty, **SETTINGS, cache_dir=tmp_path / "cache")) == []


def test_a_plan_measured_elsewhere_holds_and_warns(bound, tmp_path, caplog):
    path = tmp_path / "plan.json"
    path.write_text(placed(bound).to_json())
    with caplog.at_level(logging.WARNING, "subgraphkit.placement"):
        assert homes(bind(tmp_path), f"@{path}") == [("numpy", 3), ("onnxruntime", 3)]
        assert not caplog.messages
        sk.InferenceSession(
            CHAIN, f"@{path}", threads=1, build="background", cache_dir=tmp_path / "cache"
        ).wait()
    assert caplog.text.count("(threads differ)") == 1


@pytest.mark.parametrize(("text", "why"), [
    ("", "it is not JSON"),
    ("[]", "it has no 'format' that is 1"),
    ('{"format": 2}', "it has no 'format' that is 1"),
    ("[" * 100_000, "it is nested too deeply"),
    (plan_text(backends=3), r"a member of it is wrong: Expected `object`, .* `\$\.backends`"),
    (plan_text(circumstances=[]), "a member of it is wrong"),
    (plan_text(nodes={"tvm": []}), "it places nodes on backends that it does not list"),
    (plan_text(nodes={"numpy": "abc"}), "a member of it is wrong"),
    (plan_text(nodes={"numpy": [1]}), "a member of it is wrong"),
    (plan_text(backends={"numpy": []}), "a member of it is wrong"),
    (None, "No such file or directory"),
])  # fmt: skip
def test_what_is_no_plan_file_is_refused_and_the_reason_is_in_words(bound, tmp_path, text, why):
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=rf"SGK124.*plan\.json' cannot be read: {why}"):
        sk.partition(bound, f"@{path}")


def test_a_plan_of_another_model_and_one_beside_demands_are_refused(bound, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(placed(bound, nodes={"numpy": ("nowhere",), "onnxruntime": ()}).to_json())
    with pytest.raises(ConfigError, match=r"SGK124.*the plan is of another model"):
        sk.partition(bound, f"@{path}")
    with pytest.raises(ConfigError, match="places every node"):
        sk.partition(bound, f"@{path}", constraints=Constraints(pins={0: "numpy"}))
    with pytest.raises(ConfigError, match="cannot be combined"):
        sk.partition(bound, [f"@{path}", "numpy"])
    with pytest.raises(ConfigError, match="expected a file after '@'"):
        sk.partition(bound, "@ ")
