"""Faults that are planted, and found by cutting."""

import math
import random

import numpy as np
import onnx
import pytest
from onnx import helper

from subgraphkit.comparing import bisect
from subgraphkit.errors import CallerError
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from tests.fakes import changing, claiming, failing
from tests.models import CHAIN, parsed
from tests.unit.comparing.planted import planted

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 8)).astype(np.float32)


def _grown(count, seed=0):
    """Return a graph that branches and joins, of as many nodes; no value is hidden by another."""
    rng = random.Random(seed)
    free, nodes = ["v0"], []
    for at in range(1, count + 1):
        op = rng.choice(["Neg", "Sin", "Elu", "Add", "Sub"])
        read = [rng.choice(free[-3:])]
        if op in {"Add", "Sub"}:
            read.append(rng.choice([name for name in free[-9:] if name not in read] or ["v0"]))
        nodes.append(helper.make_node(op, read, [f"v{at}"], name=f"n{at}"))
        free.append(f"v{at}")
    used = {name for node in nodes for name in node.input}
    ends = [name for name in free[1:] if name not in used]
    values = [helper.make_tensor_value_info(name, 1, [4, 8]) for name in ("v0", *ends)]
    graph = helper.make_graph(nodes, "grown", values[:1], values[1:])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10)


def _is_found(model, feeds, value):
    backend = planted(value)
    found = bisect(model, feeds, backend)
    assert (found.verdict, len(found.nodes), found.reproduces) == ("node", 1, True), found.summary
    assert next(one for node in found.model.graph.node for one in node.output) == value
    assert found.builds <= math.ceil(math.log2(found.size)) + 2
    assert sum(backend.builds) <= 2 * found.size + 2  # the whole, its halves, and the node twice


def _spread(values, config):
    """Return as many of the values as faults are to be planted in each model."""
    count = config.getoption("--planted-faults") // (2 if len(values) > 1000 else 1)
    places = {(2 * at + 1) * len(values) // (2 * count) for at in range(count)}
    return [values[at] for at in sorted(places)]


@pytest.mark.parametrize("count", [1, 2, 33, 300, 3000])
def test_a_fault_in_a_branching_graph_is_found(count, pytestconfig):
    model = _grown(count, seed=count)
    for value in _spread([f"v{at + 1}" for at in range(count)], pytestconfig):
        _is_found(model, {"v0": X}, value)


@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "shufflenet"])
def test_a_fault_in_a_real_network_is_found(name, pytestconfig):
    if name != "squeezenet" and pytestconfig.getoption("--planted-faults") < 20:
        pytest.skip("a long check: --planted-faults 20")
    model = seeded_model(name)
    feeds = seeded_feeds(model)
    made = [node.output[0] for node in model.graph.node if node.op_type in {"Conv", "Relu", "Sum"}]
    for value in _spread(made[:-1], pytestconfig):
        _is_found(model, feeds, value)


def test_nodes_that_are_wrong_only_together_are_found_together():
    model = _grown(60, seed=3)
    makers = {node.output[0]: node for node in model.graph.node}
    for at in (7, 31, 55):
        value = f"v{at}"
        producer = max(makers[value].input, key=lambda name: int(name[1:]))
        found = bisect(model, {"v0": X}, planted(value, producer, together=True))
        assert found.verdict == "together"
        assert {name for node in found.model.graph.node for name in node.output} >= {
            value,
            producer,
        }
        assert len(found.nodes) == 2
        assert found.reproduces
        assert "At fault together" in found.summary


def test_a_fault_that_goes_away_when_cut_is_said_to():
    found = bisect(_grown(20), {"v0": X}, planted("v7", only_in="grown"), fold=False)
    assert (found.verdict, found.reproduces, len(found.nodes)) == ("whole", False, 20)
    assert "the fault goes away when it is cut out" in found.summary
    assert "As a model of its own the part is right." in found.summary
    text = "g (float[4, 8] x) => (float[4, 8] y) { a = Abs(x)  b = Neg(x)  y = Sub(a, b) }"
    found = bisect(parsed(text), {"x": X}, planted("a", least=3))
    assert (found.verdict, len(found.nodes)) == ("together", 3)


def test_a_fault_that_comes_and_goes_is_said_to():
    found = bisect(_grown(20), {"v0": X}, planted("v7", by_turns=True), fold=False)
    assert found.verdict == "unsteady"
    assert found.summary.startswith("Not always wrong")
    assert repr(found) == f"Bisection({found.summary.splitlines()[0]!r})"


def test_what_fails_to_compile_or_to_run_is_cut_as_well():
    found = bisect(_grown(40), {"v0": X}, planted("v23", compiling=True))
    assert (found.verdict, found.nodes[0].split("'")[1]) == ("node", "n23")
    assert "RuntimeError: out of registers" in found.summary
    bad = claiming(["Neg"], "failing", make=failing(ValueError, "out of luck"))
    found = bisect(parsed(CHAIN), {"x": X[:, :4]}, bad)
    assert (found.verdict, found.nodes) == ("node", ("#1 Neg",))
    assert "ValueError: out of luck" in found.summary
    text = "g (float[N, 8] x) => (float[N, 8] y) { a = Abs(x)  s = Shape(x)  y = Reshape(a, s) }"
    found = bisect(parsed(text), {"x": X}, planted("s"))  # what fails is the Reshape
    assert (found.verdict, found.nodes) == ("node", ("#1 Shape",)), found.summary


def test_of_several_subgraphs_at_fault_the_first_is_searched_and_the_others_are_named():
    wrong = claiming(["Relu"], "wrong", make=changing(lambda one: one + np.float32(1)))
    found = bisect(parsed(CHAIN), {"x": X[:, :4]}, wrong)
    assert (found.subgraph, found.others, found.nodes) == ("wrong_0", ("wrong_2",), ("#0 Relu",))
    assert "At fault as well, not searched: wrong_2" in found.summary


def test_where_nothing_is_wrong_nothing_is_cut(tmp_path):
    folder = tmp_path / "repro"
    found = bisect(_grown(5), {"v0": X}, planted(), folder=folder)
    assert (found.verdict, found.builds, found.model) == ("nothing", 0, None)
    assert not folder.exists()


def test_the_part_is_written_with_its_inputs_and_the_command(tmp_path):
    folder = tmp_path / "a folder" / "repro"
    how = {"folder": folder, "words": ["--atol=1"]}
    found = bisect(_grown(30), {"v0": X}, planted("v20"), "numpy:max_loop_iterations=9", **how)
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    with np.load(folder / "inputs.npz") as stored:
        assert {name: stored[name].shape for name in stored} == {
            value.name: (4, 8) for value in model.graph.input
        }
    assert (folder / "summary.txt").read_text(encoding="utf-8") == f"{found.summary}\n"
    assert found.command == (
        f"subgraphkit verify '{folder}/model.onnx' --input '{folder}/inputs.npz' "
        "--backend planted --reference numpy:max_loop_iterations=9 --atol=1"
    )
    with pytest.raises(CallerError, match="SGK324"):
        bisect(_grown(3), {"v0": X}, planted("v2"), folder=folder / "model.onnx")


def test_a_name_that_a_terminal_would_obey_is_written_as_what_it_is():
    model = _grown(3)
    evil = "v\x1b[2J"
    model.graph.node[0].output[0] = evil
    for node in model.graph.node[1:]:
        node.input[:] = [evil if name == "v1" else name for name in node.input]
    found = bisect(model, {"v0": X}, planted(evil))
    assert found.verdict == "node"
    assert "v\\x1b[2J: 32 of 32 elements differ" in found.summary
