"""What TensorRT for RTX gets of whole models: rules, parser and builder together."""

import pytest

import subgraphkit as sk
from backends.tensorrt.tests.tensorrt_claims import (
    ask,
    divided,
    edges,
    homes,
    loaded,
    parsed,
    reasons,
    taken,
    workers,
)
from backends.tensorrt.tests.tensorrt_models import needs_rtx, options, rtx
from subgraphkit.backend import BindContext
from subgraphkit.errors import CompileError, OptionError
from subgraphkit.storing.kept_files import forget_answers
from subgraphkit.testing.light_models import LIGHT_MODELS, light_model_path
from subgraphkit_tensorrt import backend
from subgraphkit_tensorrt.building import build
from subgraphkit_tensorrt.building.model import prepare_model
from subgraphkit_tensorrt.claiming.filters import Filters
from subgraphkit_tensorrt.claiming.property import RetryPass, TensorRTProperty
from subgraphkit_tensorrt.library.flavours import FLAVOURS, Installation
from subgraphkit_tensorrt.library.gpus import Gpu, Machine, machine

pytestmark = needs_rtx

# Nine nodes with three faults of two kinds: Det and BitShift the parser names at once, the middle
# Cast to uint8 only when it gets there.
THREE_FAULTS = """
g (float[2,2] x) => (float[2,2] y, float d, int32[2,2] s) {
  a = Relu(x)
  d = Det(a)
  b = Exp(a)
  c = Cast<to=2>(b)
  e = Cast<to=1>(c)
  f = Neg(e)
  i = Cast<to=6>(f)
  s = BitShift<direction="LEFT">(i, i)
  y = Tanh(f)
}
"""
CHAIN = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Exp(a) c = Tanh(b) y = Neg(c) }"


@pytest.fixture
def absent(monkeypatch):
    """Hide TensorRT for RTX from the backend."""
    none = Installation("absent package", None, Machine(), "gone", flavour=FLAVOURS["tensorrt_rtx"])
    monkeypatch.setattr(backend.flavours, "find", lambda flavour: none)


@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_a_real_network_is_one_subgraph_that_holds_all_its_nodes(name, request):
    found = divided(light_model_path(name))
    graph = found.graph
    nodes = {node.id for node in graph.nodes if not graph.is_constant_node(node.id)}
    assert len(taken(found)) == 1
    assert homes(found) == nodes
    request.getfixturevalue("absent")
    dry = sk.partition(graph, "tensorrt", dry_run=True)
    assert (found.evidence["tensorrt"], dry.evidence["tensorrt"]) == ("asked", "declared")
    assert taken(dry) == taken(found)


def test_what_only_the_parser_knows_a_dry_run_without_it_takes(absent):
    del absent
    graph = loaded(THREE_FAULTS)
    dry = sk.partition(graph, "tensorrt:min_subgraph_nodes=1", dry_run=True)
    assert homes(dry) == {0, 2, 3, 4, 5, 6, 8}  # and the Cast to uint8 in the middle, #3
    assert reasons(dry, 1)[0].startswith("op_unsupported: TensorRT for RTX has no Det")


def test_the_parser_is_asked_until_three_faults_of_two_kinds_are_found():
    graph = loaded(THREE_FAULTS)
    questions, _, _ = ask(graph)
    refused = questions.refusals_in(workers(graph))
    assert {node: refusal.code for node, refusal in refused.items()} == dict.fromkeys(
        (1, 3, 7), "op_unsupported"
    )
    assert "UINT8" in refused[3].text
    assert questions.asked == 3


def test_the_same_question_is_not_asked_twice():
    graph = loaded("g (float[7,7] x) => (float y) { a = Relu(x) y = Det(a) }")
    first, _, _ = ask(graph)
    again, _, _ = ask(graph)
    found = first.refusals_in(workers(graph))
    assert again.refusals_in(workers(graph)) == found
    assert (first.asked, again.asked) == (2, 0)


def test_the_parser_is_not_shown_large_weights():
    graph = loaded(light_model_path("squeezenet"))
    read = []
    for stored in graph.constants.values():
        count = stored.type.nbytes or 0

        def refuse(array=stored._read, count=count):
            read.append(count)
            return array()  # type: ignore[operator]

        stored._read = refuse  # type: ignore[assignment]
    questions, _, _ = ask(graph, {"optimization_level": 5})
    assert questions.refusals_in(workers(graph)) == {}
    assert max(read, default=0) <= 1 << 16


def test_a_node_the_parser_refuses_is_reported_in_its_words():
    body = (
        "g (float16[4] x) => (float16[4] z) { a = Relu(x) b = Exp(a) c = Tanh(b) d = Celu(c) "
        "z = Neg(d) }"
    )
    found = divided(body)
    assert taken(found) == [(0, 1, 2)]
    assert reasons(found, 3)[0].startswith("op_unsupported: TensorRT's parser says: ")


def test_three_nodes_make_a_subgraph_and_two_do_not():
    two = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Exp(a) }"
    assert taken(divided(two)) == []
    assert reasons(divided(two), 0)[0].startswith("too_small")
    assert taken(divided(two, min_subgraph_nodes=2)) == [(0, 1)]


@pytest.mark.parametrize(
    ("body", "node", "value", "expected"),
    [
        (
            "g (float[1,1,4,4] x, float[4] s) => (float[1,1,a,b] y) { y = Resize(x, , s) }",
            0,
            "s",
            "float that a shape depends on",
        ),
        (
            (
                "g (float[4] x, float[4] z) => (float[4] y) <float s = {0.5}> "
                "{ q = Cast<to=17>(x) a = Cast<to=1>(q) y = Add(a, z) }"
            ),
            1,
            "q",
            "cannot enter TensorRT",
        ),
        ("g (uint8[4] x) => (float[4] y) { a = Identity(x) y = Cast<to=1>(a) }", 0, "x", "uint8"),
        (
            "g (float[6] x, int16[2] h) => (float[2,3] y) { s = Cast<to=7>(h) y = Reshape(x, s) }",
            1,
            "s",
            "computed by another backend",
        ),
    ],
)
def test_what_cannot_enter_is_refused_at_the_edge(body, node, value, expected):
    graph = loaded(parsed(body, 19))
    answer = edges(graph).may_enter(graph.nodes[node], value)
    assert expected in str(answer)


def test_a_shape_the_caller_feeds_may_enter():
    graph = loaded("g (float[6] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }")
    assert edges(graph).may_enter(graph.nodes[0], "s") is True


def test_float8_lives_between_quantize_and_dequantize_only():
    # The parser takes a network whose output is float8, the builder does not.
    graph = loaded(parsed("g (float[4] x) => (float8e4m3fn[4] y) { y = Cast<to=17>(x) }", 19))
    answer = edges(graph).may_leave(graph.nodes[0], "y")
    assert str(answer) == "border: 'y' is float8_e4m3fn[4], which cannot leave TensorRT"


def test_what_a_region_alone_shows_is_known_at_the_second_look():
    graph = loaded("g (float[2,2] x) => (float y) {a = Relu(x) b = Exp(a) c = Tanh(b) y = Det(c)}")
    filters = Filters(rtx(), options(), "here")
    first, second = TensorRTProperty(filters), RetryPass(filters)
    for one in (first, second):
        one.prepare(graph, BindContext())
    refusal = first.filters.refusals.pop(3)  # as if it were fine beside other nodes
    assert first.create_selector(graph).select(graph.nodes[3]) is True
    answer = first.accept(workers(graph))
    assert "TensorRT does not take #3 Det" in str(answer)
    assert second.create_selector(graph).select(graph.nodes[3]) is not True
    assert second.create_selector(graph).select(graph.nodes[2]) is True
    assert refusal.code == "op_unsupported"


def test_what_the_builder_refuses_is_learnt_and_left_out_the_next_time(tmp_path):
    body = (
        "g (float[5000] x) => (float[4000] y, int64[4000] i) <int64[1] less = {1000}> "
        "{ a = Relu(x) b = Exp(a) c = Tanh(b) s = Shape(c) k = Sub(s, less) y, i = TopK(c, k) }"
    )
    chosen = {"flavour": "tensorrt_rtx", "build_only": True}
    with sk.config(
        backend="tensorrt,numpy",
        options={"tensorrt": chosen},
        cache=True,
        cache_dir=tmp_path / "c",
        fold=False,  # the size is to be known by the builder alone
    ):
        before = sk.partition(sk.bind(sk.load(parsed(body))))
        after = sk.compile_subgraphs(before)
        after.close()
        again = sk.partition(sk.bind(sk.load(parsed(body))))
    assert 5 in homes(before)
    assert homes(after.partitioning) == homes(again) == homes(before) - {5}
    assert "K exceeds the maximum value allowed" in reasons(after.partitioning, 5)[0]
    assert reasons(again, 5)[0].startswith("compile_failed: TensorRT could not build")


def test_a_quantize_node_stays_with_its_dequantize_node():
    body = """
    g (float[1,4,6,6] x, float[4,4,1,1] w) => (float[1,4,6,6] y) <float s = {0.5}, int8 z = {0}> {
      a = Relu(x)
      q = QuantizeLinear(a, s, z)
      d = DequantizeLinear(q, s, z)
      c = Conv(d, w)
      y = Relu(c)
    }
    """
    assert taken(divided(body)) == [(0, 1, 2, 3, 4)]
    split = divided(body, {"keep_off": {"DequantizeLinear": "tensorrt"}}, min_subgraph_nodes=1)
    assert homes(split) == {0, 3, 4}


def test_a_plugin_library_that_cannot_be_loaded_is_an_error(tmp_path):
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"not a library")
    with pytest.raises(OptionError) as caught:
        divided(CHAIN, plugin_libraries=[str(broken)])
    assert caught.value.code in {"SGK160", "SGK167"}


BEHIND_DATA = """
g (float[6,4] b) => (float[6,4] c, int64[n,2] y) {
  p = Relu(b) q = Exp(p) c = Tanh(q)
  z = NonZero(b) t = Transpose(z) d = Add(t, t) e = Mul(d, t) y = Neg(e)
}
"""


def test_what_has_its_size_from_data_is_given_back_where_engines_are_built_ahead():
    ahead = divided(BEHIND_DATA)
    assert taken(ahead) == [(0, 1, 2)]
    (reason,) = set(reasons(ahead, 4))
    assert "the sizes of 'z' depend on data, so that no engine can be built ahead" in reason
    sk.compile_subgraphs(ahead).close()
    graph = loaded(BEHIND_DATA)
    assert edges(graph).may_enter(graph.nodes[4], "z")


# -- what is learnt of a build that failed, for whom, and how it is told and forgotten ------------

PRODUCT = (
    "g (float[3,2] x) => (float[3,2] z) <float[2,2] w = {1, 2, 3, 4}> "
    "{ a = MatMul(x, w) b = Relu(a) c = Exp(b) z = Softmax(c) }"
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Keep what is learnt for the test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _divided(**given):
    return divided(PRODUCT, {"cache": True}, **given)


def _built(**given):
    compiled = sk.compile_subgraphs(_divided(**given))
    compiled.close()
    return compiled.partitioning


@pytest.mark.usefixtures("cache")
def test_an_option_that_needs_a_gpu_is_an_error_and_spoils_no_later_build():
    if machine().devices:
        pytest.skip("there is a GPU")
    with pytest.raises(CompileError, match=r"SGK173.*option refittable=true needs a GPU"):
        _built(refittable=True)
    assert homes(_divided(refittable=True)) == {0, 1, 2, 3}
    assert homes(_built()) == {0, 1, 2, 3}


def test_what_is_learnt_holds_for_the_options_that_shape_the_engine(cache, caplog):
    assert homes(_built(workspace_limit=1)) == set()
    caplog.clear()
    assert homes(_divided()) == {0, 1, 2, 3}
    assert caplog.records == []
    assert homes(_divided(workspace_limit=1)) == set()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith(
        "backend 'tensorrt' leaves 4 nodes out because an earlier build failed: TensorRT could not"
    )
    assert "subgraphkit deploy cache clear" in said
    assert forget_answers(cache) > 0


NO_DEVICE = "error: Error Code 1: Cuda Runtime (no CUDA-capable device is detected)"


@pytest.mark.parametrize(("line", "gpus", "code", "said"), [
    ("error: Error Code 1: Cuda Runtime (out of memory)", 1, "SGK176", "Free memory of the device"),
    ("error: Error Code 2: OutOfMemory (no further information)", 1, "SGK176", "Free memory"),
    ("error: CHECK(status == CUDA_SUCCESS) failed.", 1, "SGK174", "nvidia-smi"),
    ("error: Error Code 1: Cuda Driver (invalid device context)", 1, "SGK174", "a call of CUDA"),
    (NO_DEVICE, 0, "SGK173", "(4 nodes), which needs a GPU here"),
    ("warning: Skipping tactic: out of memory", 1, "SGK172", "out of memory"),
    ("error: no tactics within workspace limit", 1, "SGK172", "Leave workspace_limit out"),
    ("error: K exceeds the maximum value allowed", 1, "SGK172", "K exceeds"),
])  # fmt: skip
def test_a_failure_has_the_code_of_what_is_at_fault(line, gpus, code, said, monkeypatch):
    found = Machine((Gpu(0, "a GPU", (8, 9), 58),) * gpus)
    monkeypatch.setattr(build, "machine", lambda: found)
    subgraph, chosen = workers(loaded(PRODUCT)), options()
    error = build.build_failure(prepare_model(subgraph, chosen), subgraph, [line], chosen)
    assert error.code == code
    assert said in str(error)
