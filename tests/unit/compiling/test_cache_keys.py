"""What an engine is kept under: all that shapes it, and nothing else."""

import copy
import itertools
import os
import sys
import time
from dataclasses import replace
from importlib import import_module, reload
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.backend import plugin_api
from subgraphkit.backend.options import PlainOptions, validate_options
from subgraphkit.compiling.caching import keying
from subgraphkit.compiling.caching.keying import identify, make_key
from subgraphkit.ir import Initializer
from subgraphkit.ir.structure import NoKeyError, structure_digest, weight_digests
from subgraphkit.types import DataType, TensorType
from tests.fakes import claiming
from tests.models import parsed
from tests.storing import Storing, StoringProperty, storing
from tests.unit.compiling.cache_checks import EXPECTED
from tests.unit.compiling.conftest import LINEAR

EVERYTHING = ("Abs", "Add", "Concat", "If", "LeakyRelu", "MatMul", "Mul", "Neg", "Relu", "Scale")


def whole(model):
    """Return the whole model as one subgraph."""
    # A change of what is computed at bind may change nothing.
    graph = sk.bind(sk.load(model), fold=False)
    backend = claiming(EVERYTHING, connectivity="any")
    (subgraph,) = sk.partition(graph, [backend]).subgraphs
    return subgraph


def key_of(model, backend=None):
    backend = backend or Storing()
    identity = identify(backend, StoringProperty(Storing()), "p")
    return make_key(whole(model), backend, identity).digest


# -- any single change ---------------------------------------------------------------------------


def _storing(**given_):
    named = {name: (value, "a test") for name, value in given_.items()}
    return Storing(PlainOptions(**validate_options("storing", Storing.options, named)))


def all_graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_graphs(attribute.g)


def renamed(model, prefix):
    """Rename every graph, node, value, initializer and dimension."""
    model = copy.deepcopy(model)
    for graph in all_graphs(model.graph):
        graph.name = prefix + graph.name
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = prefix + value.name
        for info in (*graph.input, *graph.output):
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = prefix + dim.dim_param
        for node in graph.node:
            node.name = prefix + node.name if node.name else ""
            node.input[:] = [prefix + name if name else "" for name in node.input]
            node.output[:] = [prefix + name if name else "" for name in node.output]
    model.producer_name = prefix
    return model


KEYED = """
keyed (bool flag, float[2] x, float[2] z) => (float[n] y) <float[2] w = {1, 2.5}> {
  a = LeakyRelu<alpha = 0.5>(x)
  b = Add(a, w)
  c = If (flag) <
    then_branch = t () => (float[2] p) <float[2] k = {3, 4}> { p = Add(b, k) },
    else_branch = e () => (float[2] q) { q = Neg(z) }>
  y = Concat<axis = 0>(a, b, c, z)
}
"""
CHANGES = {
    "an operator": ("b = Add", "b = Mul"),
    "an operator of a body": ("q = Neg", "q = Relu"),
    "an attribute": ("0.5", "0.500001"),
    "a weight": ("2.5}", "2.5000002}"),
    "a weight of a body": ("{3, 4}", "{3, 5}"),
    "what a node reads": ("Add(a, w)", "Add(z, w)"),
    "what a body reads": ("Add(b, k)", "Add(a, k)"),
    "the order of inputs": ("(a, b, c, z)", "(b, a, c, z)"),
    "another node": ("  y = Concat<axis = 0>(a, ", "  d = Neg(x)\n  y = Concat<axis = 0>(d, "),
    "another output": ("(float[n] y)", "(float[n] y, float[2] b)"),
    "the types": ("float", "double"),
    "a shape": ("float[2] z)", "float[1] z)"),
    "the condition's branches": ("then_branch = t", "else_branch = t"),
}


@pytest.mark.parametrize("prefix", ["a", "zz_", "/model/"])
def test_renaming_everything_leaves_the_key_as_it_is(prefix):
    model = parsed(KEYED)
    assert key_of(model) == key_of(renamed(model, prefix))


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_anywhere_gives_another_key(change):
    old, new = CHANGES[change]
    text = KEYED.replace(old, new)
    if "branches" in change:
        text = text.replace("else_branch = e", "then_branch = e")
    assert text != KEYED
    assert key_of(parsed(text)) != key_of(parsed(KEYED))


def test_another_operator_set_gives_another_key():
    assert len({key_of(parsed(KEYED, opset)) for opset in (18, 19, 20)}) == 3


# -- the other parts of the key ------------------------------------------------------------------


def test_whoever_states_a_constant_makes_no_difference():
    stored = "<float[2] c = {1, 2}>"
    stated = "c = Constant<value = float[2] {1, 2}>()"
    texts = [
        f"g (float[2] x) => (float[2] y) {stored} {{ y = Add(x, c) }}",
        f"g (float[2] x) => (float[2] y) {{ {stated} y = Add(x, c) }}",
    ]
    assert len({key_of(parsed(text)) for text in texts}) == 1


def test_symbolic_dimensions_count_by_where_they_are_equal():
    def key(one, other):
        inputs = f"float[{one}, 2] a, float[{other}, 2] b"
        return key_of(parsed(f"g ({inputs}) => (float[K, 2] y) {{ y = Concat<axis = 0>(a, b) }}"))

    assert key("N", "N") == key("M", "M") != key("N", "M")


@pytest.mark.parametrize(("one", "other"), [
    ({"level": 1}, {"level": 2}),
    ({"scale": 1.0}, {"scale": float(np.nextafter(1.0, 2.0))}),
    ({"keep": ()}, {"keep": ("n1",)}),
    ({"dims": {"N": (1,)}}, {"dims": {"N": (2,)}}),
])  # fmt: skip
def test_options_that_shape_the_engine_are_in_the_key(one, other):
    assert key_of(parsed(LINEAR), _storing(**one)) != key_of(parsed(LINEAR), _storing(**other))


def test_options_that_do_not_shape_the_engine_are_not_in_the_key():
    keys = {key_of(parsed(LINEAR), _storing(level=1, threads=n)) for n in (1, 2)}
    assert len(keys) == 1


def test_of_a_path_what_lies_there_counts_and_not_its_place(tmp_path):
    def key(name, text):
        (tmp_path / name).write_text(text)
        return key_of(parsed(LINEAR), _storing(table=tmp_path / name))

    assert key("a", "tuned") == key("b", "tuned") != key("a", "tuned again")


def test_names_count_once_an_option_may_name_parts_of_the_model():
    backend = _storing(keep=("n1",))
    model = parsed(LINEAR)
    assert key_of(model, backend) != key_of(renamed(model, "z"), backend)


def test_every_part_of_the_identity_is_in_the_key(monkeypatch):
    model = parsed(LINEAR)
    kinds = storing(device="gpu"), storing(name="n")
    keys = [key_of(model), *(key_of(model, kind()) for kind in kinds)]
    for name, value in (("FORMAT", 2), ("__version__", "9.9")):
        monkeypatch.setattr(keying, name, value)
        keys.append(key_of(model))
    monkeypatch.setattr(keying.platform, "machine", lambda: "other")
    keys.append(key_of(model))
    identity = identify(Storing(), StoringProperty(Storing()), "another property")
    keys.append(make_key(whole(model), Storing(), identity).digest)
    assert len(set(keys)) == len(keys)


PLUGIN = """
import subgraphkit as sk

class Plugin(sk.Backend):
    name = "plugin"
    def properties(self):
        return []
    def deserialize(self, blob, subgraph, context):
        raise NotImplementedError
"""


def test_the_code_of_a_backend_is_in_the_key(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    identities = []
    for number, source in enumerate((PLUGIN, PLUGIN, PLUGIN + "# mended\n")):
        name = f"plugin_{number}"
        (tmp_path / f"{name}.py").write_text(source)
        backend = import_module(name).Plugin()
        property_ = claiming([])().properties()[0]
        identities.append(identify(backend, property_, "p").fields["sources"])
        del sys.modules[name]
    assert len(set(identities)) == 3  # by name and by content


is_changed = keying._is_changed


def test_code_that_was_changed_after_it_was_loaded_has_no_key(tmp_path, monkeypatch):
    monkeypatch.setattr(keying, "_is_changed", is_changed)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = tmp_path / "plugin_edited.py"
    place.write_text(PLUGIN)
    module = import_module("plugin_edited")
    property_ = claiming([])().properties()[0]
    before = identify(module.Plugin(), property_, "p").fields["sources"]
    place.write_text(PLUGIN + "# mended\n")
    later = time.time() + 1
    os.utime(place, (later, later))
    with pytest.raises(NoKeyError, match="plugin_edited was changed after it was loaded"):
        identify(module.Plugin(), property_, "p")
    monkeypatch.setattr(plugin_api, "time", SimpleNamespace(time=lambda: later + 1))
    after = identify(reload(module).Plugin(), property_, "p").fields["sources"]
    del sys.modules["plugin_edited"]
    assert after != before


PINNED = "9e98add0115a2e1d857c793d265c502a83a9db63a4881678c1db59a21fb4f98e"
"""Changes only where what is written changes, and then every user's cache begins anew."""


def test_the_digest_is_the_same_in_every_process():
    assert structure_digest(whole(parsed(LINEAR))) == PINNED


def test_names_that_inference_makes_up_count_in_no_digest():
    one = whole(parsed("g (float[N] x) => (y) { y = NonZero(x) }"))
    types = {**one.graph.types, "y": TensorType(DataType.INT64, (1, "unk__9"))}
    other = replace(one, graph=replace(one.graph, types=types))
    assert structure_digest(other, with_names=True) == structure_digest(one, with_names=True)


def test_a_weight_is_read_once_in_its_life():
    reads = itertools.count()
    array = np.arange(4, dtype=np.float32)

    def read():
        next(reads)
        return array

    weight = Initializer("w", TensorType(DataType.FLOAT, (4,)), read)
    replaced = Initializer("w", weight.type, lambda: array + 1, version=1)
    first = weight_digests([weight, weight])
    assert weight_digests([weight]) == first[:1]
    assert weight_digests([replaced]) != first[:1]
    assert next(reads) <= 2


@pytest.mark.parametrize("dtype", [d for d in DataType if d is not DataType.UNDEFINED])
def test_every_element_type_has_a_digest_of_its_own(dtype):
    def digest(*shape):
        array = np.zeros(shape, dtype.numpy)
        if dtype is DataType.STRING:
            array = np.full(shape, "", object)
        return weight_digests([Initializer("w", TensorType(dtype, shape), lambda: array)])[0]

    zeros = weight_digests(
        [Initializer("w", TensorType(DataType.FLOAT, (2,)), lambda: np.zeros(2, np.float32))]
    )[0]
    assert len({digest(), digest(0), digest(1), digest(2), digest(1, 2), digest(2, 1)}) == 6
    assert (digest(2) == zeros) == (dtype is DataType.FLOAT)


def test_texts_are_told_apart_where_their_joined_bytes_are_equal():
    texts = [["a", "bc"], ["ab", "c"], [b"a", b"bc"]]
    weights = [
        Initializer("w", TensorType(DataType.STRING, (2,)), lambda t=t: np.array(t, object))
        for t in texts
    ]
    assert len(set(weight_digests(weights))) == 3


def test_large_weights_are_hashed_by_several_threads_to_the_same_digest():
    array = np.arange(20 << 20, dtype=np.uint8)
    type_ = TensorType(DataType.UINT8, array.shape)
    together = weight_digests([Initializer("w", type_, lambda: array) for _ in range(4)])
    alone = weight_digests([Initializer("w", type_, lambda: array)])
    assert set(together) == set(alone)


pytest.importorskip("openvino", reason="openvino is not installed")
pytest.importorskip("subgraphkit_openvino", reason="subgraphkit-openvino is not installed")

X = np.arange(6, dtype=np.float32).reshape(3, 2) - 2


def computed(model, x, **shapes):
    """Return the first output, and how many of OpenVINO's subgraphs were restored."""
    partitioning = sk.partition(sk.bind(sk.load(model), shapes, backend="openvino"))
    operators = sk.compile_subgraphs(partitioning)
    with sk.Session(sk.plan(partitioning, operators)) as session:
        result = session.run(None, {session.get_inputs()[0].name: x})[0]
    mine = [one.id for one in operators.partitioning.subgraphs if one.backend == "openvino"]
    return result, len(operators.restored.intersection(mine)), len(mine)


@pytest.mark.parametrize("shapes", [{"N": 3}, {}], ids=["static", "dynamic"])
def test_a_compiled_model_is_restored_also_under_other_names(shapes):
    model = parsed(LINEAR)
    first, none, count = computed(model, X, **shapes)
    again, restored, _ = computed(model, X, **shapes)
    assert (none, restored) == (0, count)
    other = renamed(model, "z")
    elsewhere, shared, _ = computed(other, X, **{f"z{name}": n for name, n in shapes.items()})
    assert shared == count
    for result in (first, again, elsewhere):
        np.testing.assert_allclose(result, EXPECTED, rtol=1e-5)
