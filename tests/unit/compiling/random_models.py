"""Random models for the key of an engine, and single changes to them that must not go unnoticed."""

import copy
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper


def typed(name: str, *dims: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Make a model of up to eight nodes over values of one shape, with weights and an If."""
    values = ["x0", "x1", "w0", "w1"]
    nodes = []
    for index in range(draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(["Add", "Mul", "Relu", "Neg", "LeakyRelu", "If"]))
        pick = st.sampled_from(values)
        made = f"v{index}"
        if kind == "If":
            nodes.append(choice(made, index, draw(pick), draw(pick)))
        elif kind == "LeakyRelu":
            alpha = draw(st.integers(1, 9)) / 10
            nodes.append(helper.make_node(kind, [draw(pick)], [made], f"n{index}", alpha=alpha))
        else:
            arity = 2 if kind in {"Add", "Mul"} else 1
            read = [draw(pick) for _ in range(arity)]
            nodes.append(helper.make_node(kind, read, [made], f"n{index}"))
        values.append(made)
    # Every value is read in the end, so that no node and no weight is without effect.
    nodes.append(helper.make_node("Concat", values, ["y"], "last", axis=0))
    weights = [numpy_helper.from_array(np.array([i, 2.5], np.float32), f"w{i}") for i in range(2)]
    graph = helper.make_graph(
        nodes,
        "g",
        [typed("flag", dtype=TensorProto.BOOL), typed("x0", 2), typed("x1", 2)],
        [typed("y", 2 * len(values))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def choice(made: str, index: int, one: str, other: str) -> onnx.NodeProto:
    """Make an If whose branches read values from outside."""
    bodies = [
        helper.make_graph(
            [helper.make_node("Add", [name, f"k{index}_{branch}"], [f"b{index}_{branch}"])],
            branch,
            [],
            [typed(f"b{index}_{branch}", 2)],
            [numpy_helper.from_array(np.array([3, index], np.float32), f"k{index}_{branch}")],
        )
        for branch, name in (("then", one), ("else", other))
    ]
    return helper.make_node(
        "If", ["flag"], [made], f"n{index}", then_branch=bodies[0], else_branch=bodies[1]
    )


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_graphs(attribute.g)


def renamed(model: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
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


def swap_operator(model: onnx.ModelProto, pick: int) -> bool:
    other = {"Add": "Mul", "Mul": "Add", "Relu": "Neg", "Neg": "Relu"}
    nodes = [node for g in all_graphs(model.graph) for node in g.node if node.op_type in other]
    if nodes:
        node = nodes[pick % len(nodes)]
        node.op_type = other[node.op_type]
    return bool(nodes)


def change_attribute(model: onnx.ModelProto, pick: int) -> bool:
    nodes = [node for node in model.graph.node if node.op_type == "LeakyRelu"]
    if nodes:
        nodes[pick % len(nodes)].attribute[0].f += 1e-6
    return bool(nodes)


def change_weight(model: onnx.ModelProto, pick: int) -> bool:
    weights = [w for g in all_graphs(model.graph) for w in g.initializer]
    weight = weights[pick % len(weights)]
    array = numpy_helper.to_array(weight).copy()
    array[pick % 2] = np.nextafter(array[pick % 2], np.float32(9))
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return True


def rewire(model: onnx.ModelProto, pick: int) -> bool:
    nodes = [node for node in model.graph.node if node.op_type in {"Add", "Mul", "Relu", "Neg"}]
    if nodes:
        node = nodes[pick % len(nodes)]
        node.input[0] = "x1" if node.input[0] != "x1" else "w1"
    return bool(nodes)


def reverse_last(model: onnx.ModelProto, pick: int) -> bool:
    last = model.graph.node[-1]
    last.input[:] = [*last.input[1:], last.input[0]]
    return True


def grow(model: onnx.ModelProto, pick: int) -> bool:
    last = model.graph.node[-1]
    last.output[0] = "before"
    model.graph.node.append(helper.make_node(("Neg", "Relu")[pick % 2], ["before"], ["y"]))
    return True


def other_opset(model: onnx.ModelProto, pick: int) -> bool:
    model.opset_import[0].version = 19 + pick % 2
    return True


def other_dtype(model: onnx.ModelProto, pick: int) -> bool:
    for graph in all_graphs(model.graph):
        for info in (*graph.input, *graph.output):
            if info.type.tensor_type.elem_type == TensorProto.FLOAT:
                info.type.tensor_type.elem_type = TensorProto.DOUBLE
        for weight in graph.initializer:
            array = numpy_helper.to_array(weight).astype(np.float64)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return True


def other_input_shape(model: onnx.ModelProto, pick: int) -> bool:
    model.graph.input[1 + pick % 2].type.tensor_type.shape.dim[0].dim_value = 1
    return not any(node.op_type == "If" for node in model.graph.node)


def another_output(model: onnx.ModelProto, pick: int) -> bool:
    made = model.graph.node[pick % (len(model.graph.node) - 1)].output[0]
    model.graph.output.append(typed(made, 2))
    return True


def swap_branches(model: onnx.ModelProto, pick: int) -> bool:
    nodes = [node for node in model.graph.node if node.op_type == "If"]
    for node in nodes[:1]:
        one, other = (copy.deepcopy(attribute.g) for attribute in node.attribute)
        if [n.input[0] for n in one.node] == [n.input[0] for n in other.node]:
            return False
        node.attribute[0].g.CopyFrom(other)
        node.attribute[1].g.CopyFrom(one)
    return bool(nodes)


CHANGES: dict[str, Callable[[onnx.ModelProto, int], bool]] = {
    change.__name__: change
    for change in (
        swap_operator,
        change_attribute,
        change_weight,
        rewire,
        reverse_last,
        grow,
        other_opset,
        other_dtype,
        other_input_shape,
        another_output,
        swap_branches,
    )
}
