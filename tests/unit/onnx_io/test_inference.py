"""Types of values, in functions too."""

import textwrap

import onnx
import pytest
from onnx import helper

import subgraphkit as sk
from subgraphkit.errors import InvalidModelError, UnsupportedModelError
from subgraphkit.onnx_io import infer
from tests.models import parsed
from tests.ready import python_command
from tests.scripts import run_child

_FOLLOWERS = (
    "Sigmoid(a) Exp(a) Add(a,a) Mul(a,s) MatMul(a,m) Reshape(a,t) Transpose(a) Softmax(a) "
    "Concat<axis=0>(a,a) ReduceMean<keepdims=0>(a) Conv(a,w) Gelu(a)"
)


@pytest.mark.parametrize("follower", _FOLLOWERS.split())
def test_a_normalization_that_onnx_cannot_type_binds_before_any_operator(follower):
    text = (
        "g (float[2, 4, 3] x) => (y) <float[4, 1] s = {1, 1, 1, 1}, float[4] c = {1, 1, 1, 1}, "
        "float[3, 2] m = {1, 1, 1, 1, 1, 1}, int64[2] t = {6, 4}, float[1, 4, 1] w = {1, 1, 1, 1}> "
        f"{{ a = GroupNormalization<num_groups=2>(x, c, c) y = {follower} }}"
    )
    graph = sk.bind(sk.load(parsed(text, 21)), backend="none")
    assert str(graph.types["a"]) == "float32[2,4,3]"
    assert "?" not in str(graph.types["y"])


_OPEN = {
    "t = Concat<axis=0>(n, rest) y = Reshape(x, t)": "float32[N,12,2]",
    "t = Concat<axis=0>(n, minus) y = Reshape(x, t)": "float32[N,24]",
    "c = Cast<to=6>(s) d = Cast<to=7>(c) y = Expand(one, d)": "float32[N,3,4,2]",
    "m = Mul(n, unit) y = ConstantOfShape(m)": "float32[N]",
    "m = Mul(n, two) y = ConstantOfShape(m)": "float32[?]",
    "t = Slice(s, two, four) y = Reshape(one, t)": "float32[4,2]",
    "c = Cast<to=6>(s) a = ArgMax(one) y = Slice(c, a, four)": "int32[?]",
    "u = Squeeze(n) v = Unsqueeze(u, zero) y = ConstantOfShape(v)": "float32[N]",
    "g = Gather(s, none) v = Unsqueeze(g, zero) y = ConstantOfShape(v)": "float32[N]",
    "d = Div(s, unit) e, t = Split<num_outputs=2>(d) y = ConstantOfShape(e)": "float32[N,3]",
}


@pytest.mark.parametrize("arithmetic", _OPEN)
def test_arithmetic_on_an_open_size_types_what_it_decides(arithmetic):
    text = (
        "g (float[N, 3, 4, 2] x, float[8] one) => (y) <int64[1] zero = {0}, int64[1] two = {2}, "
        "int64[1] four = {4}, int64[2] rest = {12, 2}, int64[1] minus = {-1}, int64 unit = {1}, "
        "int64 none = {0}> "
        f"{{ s = Shape(x) n = Gather(s, zero) {arithmetic} }}"
    ).replace("float[8] one", "float[1] one" if "Expand" in arithmetic else "float[8] one")
    graph = sk.bind(sk.load(parsed(text)), backend="none")
    assert str(graph.types["y"]) == _OPEN[arithmetic]


@pytest.mark.parametrize(("text", "type_"), [
    ("""g (float[1, 3] x) => (y) <int64[1] two = {2}> {
      t = ConstantOfShape<value = int64[1] {1}>(two) z = Expand(x, t) y = Tile(z, t) }""",
     "float32[1,3]"),
    ("""g (float[2, 3] x) => (y) <int64[1] at = {1}, int64[1] three = {3}> { s = Shape(x)
      n = Gather(s, at) c = Equal(n, three) r = If (c) <
      then_branch = t () => (float[a, b] p) { p = Transpose(x) }, else_branch = e () =>
      (float[c] q) { m = Size(x) u = Unsqueeze(m, at) q = Reshape(x, u) }> y = Relu(r) }""",
     "float32[3,2]"),
    ("""g (float[N, M] x, bool c, int64[K] s) => (y) { r = If (c) <
      then_branch = t () => (p) { p = Reshape(x, s) },
      else_branch = e () => (q) { q = Constant<value = float[1,1] {0.0}>() }> y = Relu(r) }""",
     "float32[...]"),
    ("""g () => (string[3] y) <string[1] a = {"x"}, string[2] b = {"y", "z"}> {
      y = Concat<axis=0>(a, b) }""", "string[3]"),
    ("""g (float[2, -2147483648] x) => (float[2, n] y) <int64[1] from = {0}, int64[1] to = {2},
      int64[1] axis = {1}> { y = Slice(x, from, to, axis) }""", "float32[2,?]"),
], ids=["a shape that is filled", "an if whose branch is known", "an if with one shape of two",
        "stored texts that are joined", "a size below 0"])  # fmt: skip
def test_what_a_node_makes_has_a_type(text, type_):
    assert str(infer(sk.load(parsed(text)), {}, {}).types["y"]) == type_


def test_sizes_that_are_computed_are_known_to_all_that_follows():
    text = (
        "g (float[2, 3, 4] x) => (y) <int64[1] minus = {-1}, float half = {0.5}> { "
        "s = Shape<start=1>(x) p = ReduceProd<keepdims=1>(s) f = Cast<to=1>(p) h = Mul(f, half) "
        "g = Floor(h) i = Cast<to=7>(g) t = Concat<axis=0>(minus, i) z = Reshape(x, t) "
        "w = Shape(z) e = ConstantOfShape(w) y = Add(z, e) }"
    )
    found = infer(sk.load(parsed(text)), {}, {})
    assert str(found.types["y"]) == "float32[4,6]"
    assert found.values["w"].tolist() == [4, 6]


@pytest.mark.parametrize("lists", ["a", "b, u", "b, s"])
def test_a_slice_along_axes_of_which_nothing_is_known_has_no_sizes(lists):
    text = "g (float[4, N] x, int64[] s) => (y) <int64[1] b = {0}, int64[1] e = {2}> "
    nodes = f"{{ u = com.acme.Foo(b) a = Neg(u) y = Slice(x, b, e, {lists}) }}"
    bound = sk.bind(sk.load(parsed(text + nodes, imports='"com.acme": 1')), backend="none")
    assert str(bound.types["y"]) == "float32[?,?]"


def test_a_resize_takes_sizes_whose_number_is_open():
    nodes = 's = Identity(n) y = Resize<mode="nearest">(x, "", "", s)'
    text = "g (float[2, w] x, int64[count] n) => (float[2, v] y) {" + nodes + "}"
    bound = sk.bind(sk.load(parsed(text)), backend="none")
    assert len(bound.types["y"].shape) == 2


def test_no_size_is_computed_from_what_a_model_only_says():
    proto = parsed(
        "g (float[2] x) => (int64[1] y) { a = com.acme.Foo(x) b = Relu(a) y = Shape(b) }",
        imports='"com.acme": 1',
    )
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", 1, [7]))
    found = infer(sk.load(proto), {}, {})
    assert str(found.types["b"]) == "float32[7]"
    assert found.values == {}


def test_a_statement_of_the_model_types_what_follows_an_unknown_operator():
    proto = parsed(
        "g (float[2] x) => (y) { a = com.acme.Foo(x) b = com.acme.Foo(a) y = Relu(b) "
        "c = MaxPool<kernel_shape=[1]>(a) }",
        imports='"com.acme": 1',
    )
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, ["N", 7]))
    graph = sk.bind(sk.load(proto), backend="none")
    assert [str(graph.types[name]) for name in "aby"] == ["unknown[...]"] + ["float32[N,7]"] * 2


@pytest.mark.parametrize(("text", "shapes", "facts"), [
    ("g (float[2, 3] x, float[4, 5] w) => (y) { y = MatMul(x, w) }", None,
     ["#0 MatMul", "'x' float32[2,3]", "'w' float32[4,5]", "contradicts itself"]),
    ("g (float[N, 3] x, float[4, 3] w) => (y) { a = Relu(x) y = Concat<axis=1>(a, w) }", {"N": 5},
     ["#1 Concat", "'a' float32[5,3]", "'w' float32[4,3]", "the shapes you gave"]),
    ("g (float[2] x) => (int32[2] y) { y = Relu(x) }", None,
     ["output 'y' is declared int32", "#0 Relu makes it float32"]),
])  # fmt: skip
def test_a_contradiction_is_told_with_both_facts(text, shapes, facts):
    with pytest.raises(InvalidModelError, match="SGK222") as refusal:
        sk.bind(sk.load(parsed(text)), shapes)
    for fact in facts:
        assert fact in str(refusal.value)


def test_names_that_inference_makes_up_differ_however_many_nodes_are_asked_together(monkeypatch):
    monkeypatch.setattr("subgraphkit.onnx_io.inference._SLICE", 1)
    text = "g (float[4] x, float[4] z) => (a, b, c) { a = NonZero(x) b = NonZero(z) c = Relu(x) }"
    found = infer(sk.load(parsed(text)), {}, {}).types
    assert found["a"].shape[1] != found["b"].shape[1]  # type: ignore[union-attr, index]


_BOMBS = {
    "a chain of doublings": " ".join(
        ["z0 = Identity(start)", *(f"z{i + 1} = Concat<axis=0>(z{i}, z{i})" for i in range(40))]
    ),
    "a filled tensor": "z40 = ConstantOfShape(huge)",
    "a repeated tensor": "z40 = Tile(start, huge)",
    "a broadcast tensor": "z40 = Expand(start, huge)",
    "a range": "z40 = Range(zero, many, one)",
}


@pytest.mark.parametrize("bomb", _BOMBS)
def test_what_would_not_fit_memory_is_not_computed(bomb):
    script = f"""
        import resource
        import onnx.parser
        import subgraphkit as sk
        text = '''<ir_version: 9, opset_import: ["": 18]> g (float[2] x) => (y)
            <int64[1] start = {{3}}, int64[1] huge = {{1099511627776}}, int64 zero = {{0}},
             int64 many = {{1099511627776}}, int64 one = {{1}}> {{
            {_BOMBS[bomb]}
            y = Shape(z40) }}'''
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model = sk.load(onnx.parser.parse_model(text))
        graph = sk.bind(model, backend="none", limits="unlimited")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = run_child(python_command("-c", textwrap.dedent(script)))
    assert int(done.stdout) < 128 << 10, "bind took more than 128 MiB"


def test_nodes_that_look_the_same_share_no_sizes_made_up():
    nodes = "p = Shape(x) a = Slice(x, z, p) b = Slice(x, z, p)"
    text = f"g (float[N, M] x) => (float[A, B] a, float[A, B] b) {{ {nodes} }}"
    types = infer(sk.load(parsed(text, z=[1, 1])), {}, {}).types
    sizes = [dim for name in "ab" for dim in types[name].shape]
    assert len(set(sizes)) == 4


FUNCTION = '<domain: "local", opset_import: ["": 18, "local": 1]>'


def model(*functions, body="y = local.Twice(x)"):
    text = "\n".join(f"{FUNCTION}\n{function}" for function in functions)
    return parsed(f"g (float[2] x) => (float[2] y) {{ {body} }}\n{text}", 18, '"local": 1')


def test_calls_are_replaced_by_the_nodes_of_the_function():
    twice = "Twice (a) => (b) { c = Add(a, a) b = Relu(c) }"
    graph = sk.load(model(twice, body="z = local.Twice(x) y = local.Twice(z)")).graph
    assert [node.op_type for node in graph.nodes] == ["Add", "Relu", "Add", "Relu"]


def test_functions_may_call_functions_and_leave_attributes_to_their_defaults():
    inner = "Inner <s: float = 0.5> (a) => (b) { b = LeakyRelu <alpha: float = @s> (a) }"
    (node,) = sk.load(model("Twice (a) => (b) { b = local.Inner(a) }", inner)).graph.nodes
    assert (node.op_type, dict(node.attributes)) == ("LeakyRelu", {"alpha": 0.5})


def test_functions_and_bodies_in_them_hand_out_what_they_are_given_and_values_twice():
    branch = "(float[2] u, float[2] u, float[2] a) { u = Neg(a) }"
    both = f"p, q, r = If (k) <then_branch = t () => {branch}, else_branch = e () => {branch}>"
    proto = model(f"F (a, k) => (p, q, r, a) {{ {both} }}", body="y, z, p, q = local.F(x, x)")
    assert [node.op_type for node in sk.load(proto).graph.nodes] == ["If", "Identity"]


@pytest.mark.parametrize(
    "functions",
    [
        ["Twice (a) => (b) { b = local.Twice(a) }"],
        ["Twice (a) => (b) { b = local.Inner(a) }", "Inner (a) => (b) { b = local.Twice(a) }"],
    ],
)
def test_functions_that_call_each_other_in_a_circle_are_refused(functions):
    with pytest.raises(InvalidModelError, match=r"SGK212.*Twice"):
        sk.load(model(*functions))


def test_calls_that_multiply_beyond_reason_are_refused_before_they_are_inlined():
    calls = " ".join(f"t{i} = local.F1({'a' if i == 0 else f't{i - 1}'})" for i in range(10))
    functions = [f"Twice (a) => (b) {{ {calls} b = Relu(t9) }}"]
    for level in range(1, 9):
        inner = calls.replace("F1", f"F{level + 1}")
        functions.append(f"F{level} (a) => (b) {{ {inner} b = Relu(t9) }}")
    functions.append("F9 (a) => (b) { b = Relu(a) }")
    with pytest.raises(UnsupportedModelError, match="nodes once its functions are inlined; the li"):
        sk.load(model(*functions))


def test_constants_that_calls_multiply_count_as_well():
    calls = [
        f"F{i} (a) => (b) {{ t = local.F{i + 1}(a) b = local.F{i + 1}(t) }}" for i in range(10)
    ]
    proto = model("Twice (a) => (b) { b = local.F0(a) }", *calls, "F10 (a) => (b) { b = Relu(a) }")
    assert len(sk.load(proto).graph.nodes) > 1 << 9
    constant = helper.make_node("Constant", [], ["c"], value_floats=[0.5] * 100_000)
    proto.functions[-1].node.append(constant)
    with pytest.raises(UnsupportedModelError, match="SGK216"):
        sk.load(proto)


def test_operator_sets_that_only_functions_import_come_along():
    proto = model("Twice (a) => (b) { b = ai.onnx.ml.Binarizer <threshold = 1.0> (a) }")
    proto.functions[0].opset_import.add(domain="ai.onnx.ml", version=3)
    graph = sk.load(proto).graph
    assert graph.nodes[0].qualified_op_type == "ai.onnx.ml::Binarizer"
    assert graph.nodes[0].opset == 3
    assert "ai.onnx.ml" not in {entry.domain for entry in proto.opset_import}


def test_a_function_of_another_operator_set_version_is_converted():
    proto = model("Twice (a) => (b) { b = Unsqueeze <axes = [1]> (a) }")
    proto.functions[0].opset_import[0].version = 11
    proto.graph.output[0].type.tensor_type.shape.dim.add(dim_value=1)
    graph = sk.load(proto).graph
    assert [node.op_type for node in graph.nodes][-1] == "Unsqueeze"
    assert len(graph.nodes[len(graph.nodes) - 1].inputs) == 2


def test_a_function_that_means_the_same_in_the_models_operator_set_needs_no_types():
    # What the function returns depends on the value of a cast, of which onnx infers no type.
    text = """g (float[2] x) => (float[2] y) { a = own.Foo(x) y = local.Twice(a) }
    <domain: "local", opset_import: ["": 21]>
    Twice (a) => (b) { c = Dropout(a) b = Identity(c) }"""
    graph = sk.load(parsed(text, 22, '"local": 1, "own": 1')).graph
    assert [node.op_type for node in graph.nodes] == ["Foo", "Dropout", "Identity"]


def test_sizes_that_windows_leave_open_share_no_name():
    text = """g (float[1,1,N,N] x, float[1,1,3,3] w) => (float[a,b,c,d] u, float[e,f,h,i] v) {
        m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
        u = Conv<strides = [2, 2]>(m, w)
        v = MaxPool<kernel_shape = [3, 3], strides = [3, 3]>(m) }"""
    graph = sk.bind(sk.load(parsed(text)), backend="none")
    sizes = [graph.shape(name)[2] for name in ("m", "u", "v")]
    assert len({"N", *sizes}) == 4


def test_nothing_that_is_padded_to_the_same_size_stays_nothing():
    text = """g (float[1,1,0] x, float[1,1,1] w) => (float[a,b,c] y) {
        y = Conv<auto_pad = "SAME_UPPER", strides = [2]>(x, w) }"""
    assert sk.bind(sk.load(parsed(text)), backend="none").shape("y") == (1, 1, 0)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("taps", [1, 2, 5])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("pad", [0, 1])
def test_a_convolution_makes_as_many_as_its_window_finds_room_for(size, taps, stride, pad):
    text = f"""g (float[1,1,{size}] x, float[1,1,{taps}] w) => (float[a,b,c] y)
    {{ y = Conv<pads = [{pad}, {pad}], strides = [{stride}]>(x, w) }}"""
    graph = sk.bind(sk.load(parsed(text)), backend="none")
    assert graph.shape("y")[2] == max((size + 2 * pad - taps) // stride + 1, 0)
