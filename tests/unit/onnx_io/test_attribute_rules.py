"""Attributes mean what ONNX says, or are refused before a library or onnx's inference sees them."""

import onnx
import pytest
from onnx import TensorProto, defs, helper

import subgraphkit as sk

BIG = 2**40
X = [1, 4, 6, 6]


GRAMS = {
    "max_gram_length": 2,
    "max_skip_count": 0,
    "min_gram_length": 2,
    "mode": "TF",
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4],
    "pool_int64s": [5, 6, 7, 8, 6, 7],
}


def one_node(op_type, shapes, opset=20, **attributes):
    """Make a model of one node that reads floats of these shapes, None for an input left out."""
    names = ["" if shape is None else f"i{place}" for place, shape in enumerate(shapes)]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
        if name
    ]
    output = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def refusal(model):
    with pytest.raises(sk.errors.InvalidModelError) as refused:
        sk.bind(sk.load(model), backend="numpy")
    return str(refused.value)


REFUSED = [
    ("Softmax", [[2, 3]], {"axis": 2}, "expected -2 to 1, because these are axes of 2"),
    ("Softmax", [[2, 3]], {"axis": 2**32}, "expected -2147483648 to 2147483647"),
    ("Softmax", [[2, 3]], {"axis": -(2**63)}, "expected -2147483648 to 2147483647"),
    ("Softmax", [[2, 3]], {"axis": 1.0}, "is of type FLOAT, expected INT"),
    ("Softmax", [[2, 3]], {"axs": 1}, "has no attribute 'axs'\n  Did you mean 'axis'?"),
    ("Flatten", [[2, 3]], {"axis": 3}, "expected -2 to 2"),
    ("Concat", [[2, 3], [2, 3]], {"axis": -3}, "expected -2 to 1"),
    ("Concat", [[2, 3]], {}, "'axis' is missing, expected a value"),
    ("Transpose", [[2, 3]], {"perm": [0, 0]}, "is [0, 0], expected every axis once"),
    ("Transpose", [[2, 3]], {"perm": [0, 2, 1]}, "expected a list of 2"),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "strides": [2, BIG]}, "[2, 1099511627776]"),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "strides": [2]}, "expected a list of 2"),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "strides": [0, 1]}, "expected 1 to"),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "pads": [0, 0]}, "expected a list of 4"),
    ("AveragePool", [X], {"kernel_shape": [3, -1]}, "'kernel_shape' is [3, -1]"),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "auto_pad": "SAME"}, "one of NOTSET"),
    ("LpPool", [X], {"kernel_shape": [3, 3], "p": 0}, "'p' is 0"),
    ("Conv", [X, [8, 2, 3, 3]], {"group": 0}, "'group' is 0"),
    ("Conv", [X, [8, 2, 3, 3]], {"group": 3}, "expected 4/2"),
    ("Conv", [X, [7, 2, 3, 3]], {"group": 2}, "expected a divisor of 7"),
    ("Conv", [X, [8, 4, 3, 3]], {"kernel_shape": [3, 2]}, "expected [3, 3]"),
    ("Conv", [X, [8, 4, 3, 3]], {"dilations": [0, 1]}, "'dilations' is [0, 1]"),
    ("ConvTranspose", [X, [4, 2, 3, 3]], {"strides": [1, BIG]}, "'strides'"),
    ("ConvTranspose", [X, [4, 2, 3, 3]], {"group": 3}, "expected a divisor of 4"),
    ("DepthToSpace", [X], {"blocksize": 3}, "what squared is a divisor of 4"),
    ("DepthToSpace", [X], {"blocksize": 2, "mode": "RCD"}, "expected one of DCR, CRD"),
    ("SpaceToDepth", [X], {"blocksize": 4}, "expected a divisor of 6, the number of rows"),
    ("LRN", [X], {"size": 0}, "'size' is 0"),
    ("LeakyRelu", [X], {"alpha": "x"}, "is of type STRING, expected FLOAT"),
    ("InstanceNormalization", [X, [4], [4]], {"epsilon": float("nan")}, "a finite number"),
    ("Einsum", [[2, 2]], {"equation": "ij->k"}, "'equation' is 'ij->k'"),
    ("Einsum", [[2, 2]], {"equation": "i1"}, "expected terms of letters"),
    ("Cast", [X], {"to": 99}, "expected a data type of ONNX"),
    ("RNN", [[3, 1, 2], [1, 4, 2], [1, 4, 4]], {"hidden_size": 5}, "expected 4"),
    ("RNN", [[3, 1, 2], [1, 4, 2], [1, 4, 4]], {"direction": "both"}, "one of forward"),
    ("RNN", [[3, 1, 2], [1, 4, 2], [1, 4, 4]], {"direction": "bidirectional"}, "1 directions"),
    ("LSTM", [[3, 1, 2], [1, 4, 2], [1, 4, 1]], {"activations": ["Tanh"]}, "3 names"),
    ("ReduceMax", [X], {"keepdims": 2}, "'keepdims' is 2, expected 0 to 1"),
    ("RoiAlign", [X, [1, 4], [1]], {"sampling_ratio": -1}, "'sampling_ratio' is -1"),
    ("GridSample", [X, [1, 2, 2, 2]], {"padding_mode": "wrap"}, "one of zeros"),
    ("Split", [[6]], {"num_outputs": 2}, "expected what fits 1 outputs"),
    (
        "TfIdfVectorizer",
        [[6]],
        {**GRAMS, "ngram_indexes": [6]},
        "expected 5 places in the output, one for each n-gram of the pool",
    ),
    (
        "TfIdfVectorizer",
        [[6]],
        {**GRAMS, "ngram_counts": [0, 5]},
        "expected ascending places in a pool of 6, with whole n-grams between them",
    ),
    ("RNN", [[1, 3, 3], [1, 5, 3], [1, 5, 5]], {"clip": -1.0}, "expected a number of 0 or more"),
    ("Selu", [[6]], {"alpha": float("-inf")}, "'alpha' is -inf, expected a finite number"),
    ("LayerNormalization", [X, [6]], {"axis": 2**63 - 1}, "'axis' is 9223372036854775807"),
    ("Resize", [X, None, [4]], {"coordinate_transformation_mode": "?"}, "one of half_pixel"),
]


@pytest.mark.parametrize(("op_type", "shapes", "attributes", "says"), REFUSED)
def test_an_attribute_out_of_its_range_is_refused(op_type, shapes, attributes, says):
    said = refusal(one_node(op_type, shapes, **attributes))
    assert said.startswith("[SGK218] node #0 ")
    assert says in said


@pytest.mark.parametrize("heads", [(3, 2**32), (3, 0), (3, -1), (3, 2), (5, 5), (0, 1)])
def test_heads_that_do_not_divide_what_they_share_are_refused(heads):
    model = one_node(
        "Attention", [[1, 2, 12]] * 3, opset=23, q_num_heads=heads[0], kv_num_heads=heads[1]
    )
    assert "[SGK218]" in refusal(model)


@pytest.mark.parametrize(("op_type", "shapes", "place"), [
    ("Max", [[3], None], 1),
    ("Max", [None, [3]], 0),
    ("Add", [[3], None], 1),
    ("Relu", [None], 0),
])  # fmt: skip
def test_an_input_that_is_needed_is_not_left_out(op_type, shapes, place):
    said = refusal(one_node(op_type, shapes))
    assert f"[SGK215] node #0 {op_type} leaves out input {place}, " in said


def test_an_output_that_is_needed_is_not_left_out():
    model = one_node("Relu", [[3]])
    model.graph.node.add(op_type="Relu", input=["y"], output=[""])
    assert "[SGK215] node #1 Relu leaves out output 0, 'Y'" in refusal(model)


def test_every_whole_number_of_every_operator_that_counts_fits_into_32_bits():
    unlimited = {
        f"{schema.name}.{name}"
        for schema in defs.get_all_schemas_with_history()
        for name, one in schema.attributes.items()
        if schema.domain == "" and one.type.name in {"INT", "INTS"}
        if _loads(schema, name, BIG if one.type.name == "INT" else [BIG])
    }
    assert unlimited == {
        "Constant.value_int", "Constant.value_ints", "Dropout.seed", "Shape.end", "Shape.start",
        "NegativeLogLikelihoodLoss.ignore_index", "SoftmaxCrossEntropyLoss.ignore_index",
        "Slice.ends", "Slice.starts", "StringSplit.maxsplit", "TfIdfVectorizer.pool_int64s",
    }  # fmt: skip


def _loads(schema, name, value):
    """Say whether an attribute may have a value, whatever else is wrong with its node."""
    model = one_node(schema.name, [[1]] * schema.min_input, schema.since_version, **{name: value})
    model.graph.node[0].output.extend(f"y{place}" for place in range(1, schema.min_output))
    try:
        sk.load(model)
    except sk.errors.InvalidModelError as error:
        return f"attribute '{name}'" not in str(error)
    return True


@pytest.mark.parametrize(("call", "says"), [
    ("ReduceSum(x, far)", "input 'axes' is [9], expected -3 to 2, because these are axes of 3"),
    ("ReduceMean(x, huge)", "input 'axes' is [4294967297], expected -3 to 2"),
    ("Squeeze(x, far)", "input 'axes' is [9], expected -3 to 2"),
    ("Unsqueeze(x, far)", "input 'axes' is [9], expected -4 to 3"),
    ("Slice(x, one, one, huge)", "input 'axes' is [4294967297], expected -3 to 2"),
    ("Pad(x, pair, , huge)", "input 'axes' is [4294967297], expected -3 to 2"),
    ("CumSum(x, three)", "input 'axis' is 3, expected -3 to 2"),
    ("Reshape(x, pair)", "input 'shape' is [1, 1], expected that of 24 elements"),
    ("Reshape(x, none)", "input 'shape' is [0, 7], expected that of 24 elements"),
    ("Resize(x, , , below)", "input 'sizes' is [2, -3, 4], expected sizes of 0 or more"),
    ("ReverseSequence(x, long)", "is [4294967297, 1, 1], expected lengths up to 2, the size"),
    ("PRelu(x, wide)", "input 'slope' is of shape [4, 1, 4], expected what is repeated"),
])  # fmt: skip
def test_a_constant_input_that_steers_is_judged_as_an_attribute_is(call, says):
    said = refusal(steered(call))
    assert said.startswith("[SGK218] node #0 ")
    assert says in said


def steered(call, inputs="float[2,3,4] x, float[4,1,4] wide"):
    """Make a model of one node, with constants by which it may be steered."""
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 20]> g ({inputs}) => (y) '
        "<int64[1] far = {9}, int64[1] huge = {4294967297}, int64[1] one = {1}, int64 three = {3}, "
        "int64[2] pair = {1, 1}, int64[3] below = {2, -3, 4}, int64[2] none = {0, 7}, "
        "int64[3] long = {4294967297, 1, 1}, int64[3] kept = {0, -1, 0}, int64[3] free = {0, 0, 4}>"
        f" {{ y = {call} }}"
    )


@pytest.mark.parametrize(
    "call", ["ReduceSum(x, one)", "Reshape(x, kept)", "Reshape(x, free)", "PRelu(x, wide)"]
)
def test_an_input_that_steers_is_left_alone_where_shapes_are_open(call):
    sk.bind(sk.load(steered(call, "float[N, M, 4] x, float[M, 4] wide")), backend="numpy")


def test_what_a_shape_leaves_open_contradicts_nothing():
    model = one_node("Softmax", [None], axis=7)
    model.graph.node[0].input[0] = "x"
    model.graph.input.add(name="x").type.tensor_type.elem_type = TensorProto.FLOAT
    sk.bind(sk.load(model), backend="numpy")


def test_attributes_in_bodies_are_judged_beside_the_shapes_there():
    inner = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["z"], axis=2)],
        "body",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    model = one_node("If", [[1]], then_branch=inner, else_branch=inner)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.BOOL
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]))
    assert "attribute 'axis' is 2, expected -2 to 1" in refusal(model)


def test_attributes_of_operators_of_other_domains_are_left_alone():
    model = one_node("Softmax", [[2, 3]], axis=BIG, strides=[0], foo="x")
    model.graph.node[0].domain = "mine"
    model.opset_import.add(domain="mine", version=1)
    assert sk.load(model).graph.nodes[0].attribute("axis") == BIG


def damaged(change):
    model = one_node("Softmax", [[2, 3]], axis=1)
    change(model.graph.node[0].attribute)
    return model


@pytest.mark.parametrize(
    "change",
    [
        lambda stated: stated.append(stated[0]),
        lambda stated: stated[0].ClearField("type"),
        lambda stated: stated[0].ClearField("name"),
        lambda stated: setattr(stated[0], "ref_attr_name", "outer"),
        lambda stated: (stated[0].ClearField("i"), setattr(stated[0], "f", 1.0)),
    ],
    ids=["twice", "no type", "no name", "refers to a function", "value of another type"],
)
def test_an_attribute_that_is_not_one_breaks_the_specification(change):
    assert "[SGK214] node #0 Softmax has an attribute" in refusal(damaged(change))
