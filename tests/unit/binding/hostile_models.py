"""Small models that ask for far more than they are, and what opening and running them comes to.

``python -m tests.unit.binding.hostile_models`` opens all of them, one after the other in one
process, and writes as JSON what each came to.
"""

import json
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

import subgraphkit as sk

HUGE: Final = 2**40
Feeds = dict[str, Any]

_FLOAT, _INT, _BOOL, _TEXT = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
_value = helper.make_tensor_value_info
_node = helper.make_node


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    stored: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 20,
) -> onnx.ModelProto:
    """Return a model whose output is y."""
    graph = helper.make_graph(nodes, "hostile", inputs, [onnx.ValueInfoProto(name="y")], stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    made: onnx.ModelProto = helper.make_model(
        graph, opset_imports=opsets, functions=functions, ir_version=10
    )
    return made


def ints(name: str, *values: int) -> onnx.TensorProto:
    """Return a list of integers as an initializer."""
    return helper.make_tensor(name, _INT, [len(values)], values)


def doubled(op_type: str, times: int, first: str = "x", **attributes: Any) -> list[onnx.NodeProto]:
    """Return nodes that each read what the one before made twice; the last makes y."""
    names = [first, *[f"d{i}" for i in range(times - 1)], "y"]
    return [_node(op_type, [read, read], [made], **attributes) for read, made in pairwise(names)]


def body(nodes: Sequence[onnx.NodeProto], made: str = "y") -> onnx.GraphProto:
    """Return a body without inputs."""
    return helper.make_graph(nodes, "body", [], [onnx.ValueInfoProto(name=made)])


def _functions(depth: int) -> onnx.ModelProto:
    functions = [
        helper.make_function(
            "local",
            f"F{i}",
            ["a"],
            ["b"],
            [_node(f"F{i + 1}", ["a"], ["t"], "", domain="local"),
             _node(f"F{i + 1}", ["t"], ["b"], "", domain="local")]
            if i < depth
            else [_node("Relu", ["a"], ["b"])],
            [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)],
        )
        for i in range(depth + 1)
    ]  # fmt: skip
    call = _node("F0", ["x"], ["y"], domain="local")
    return model([call], [_value("x", _FLOAT, [1])], functions=functions)


def _window(op_type: str, image: Sequence[int], **attributes: Any) -> onnx.ModelProto:
    is_pool = op_type.endswith("Pool")
    weight = [] if is_pool else [helper.make_tensor("w", _FLOAT, [1, 1, 2, 2], [1.0] * 4)]
    if is_pool:
        attributes.setdefault("kernel_shape", [2, 2])
    read = ["x"] if is_pool else ["x", "w"]
    return model([_node(op_type, read, ["y"], **attributes)], [_value("x", _FLOAT, image)], weight)


X: Final = _value("x", _FLOAT, [1])
OPEN: Final = _value("x", _FLOAT, ["n", "m"])
COLUMN: Final = _value("x", _FLOAT, ["n", 1])
ROW: Final = _value("z", _FLOAT, [1, "m"])
TALL: Final = {"x": np.zeros((1 << 20, 1), np.float32), "z": np.zeros((1, 1 << 20), np.float32)}
SIZES: Final = {"x": np.zeros(1, np.float32), "s": np.full(1, HUGE)}

AT_BIND: Final[dict[str, Callable[[], onnx.ModelProto]]] = {
    "functions that double": lambda: _functions(20),
    "a chain of concatenations": lambda: model(
        [_node("Constant", [], ["c"], value_ints=[1, 2]), *doubled("Concat", 26, "c", axis=0)]
    ),
    "a filled shape": lambda: model(
        [_node("ConstantOfShape", ["s"], ["f"]), _node("ReduceSum", ["f"], ["y"])],
        stored=[ints("s", 1 << 28)],
    ),
    "a filled shape of many dimensions": lambda: model(
        [_node("ConstantOfShape", ["s"], ["y"])], [_value("s", _INT, [1 << 26])]
    ),
    "a shape of many elements": lambda: model(
        [_node("Neg", ["s"], ["t"]), _node("Reshape", ["x", "t"], ["y"])],
        [X, _value("s", _INT, [1 << 26])],
    ),
    "a list of axes": lambda: model(
        [_node("Neg", ["s"], ["t"]), _node("Unsqueeze", ["x", "t"], ["y"])],
        [X, _value("s", _INT, [1 << 26])],
    ),
    "ranks that double": lambda: model(doubled("Gather", 30), [_value("x", _INT, [1, 1])]),
    "ranks that double in a body": lambda: model(
        [_node("If", ["c"], ["y"], then_branch=body(doubled("Gather", 30)),
               else_branch=body(doubled("Gather", 30)))],
        [_value("c", _BOOL, []), _value("x", _INT, [1, 1])],
    ),
    "ranks that grow one by one": lambda: model(
        [_node("OneHot", [f"t{i}" if i else "x", "d", "v"], [f"t{i + 1}"]) for i in range(2000)]
        + [_node("Identity", ["t2000"], ["y"])],
        [_value("x", _INT, [1])],
        [helper.make_tensor("d", _INT, [], [1]), ints("v", 0, 1)],
    ),
    "a padded convolution": lambda: _window("Conv", [1, 1, 2, 2], pads=[1 << 20] * 4),
    "a dilated convolution": lambda: _window(
        "Conv", [1, 1, 2, 2], pads=[1 << 19] * 4, dilations=[1 << 20] * 2
    ),
    "a dilated convolution of few steps": lambda: _window(
        "Conv", [1, 1, 2, 2], pads=[1 << 20] * 4, dilations=[1 << 20] * 2, strides=[1 << 20] * 2
    ),
    "a padded pool": lambda: _window("MaxPool", [1, 1, 2, 2], pads=[1 << 20] * 4),
    "a padded pool of few steps": lambda: _window(
        "AveragePool", [1, 1, "n", 2], pads=[1 << 20] * 4, strides=[1 << 20] * 2
    ),
    "a transposed convolution": lambda: _window(
        "ConvTranspose", [1, 1, 9, 9], strides=[1 << 20] * 2
    ),
    "a transposed convolution cut off": lambda: _window(
        "ConvTranspose", [1, 1, 2, 2], dilations=[1 << 20] * 2, pads=[1 << 19] * 4
    ),
    "a broadcast sum": lambda: model(
        [_node("Add", ["x", "z"], ["y"])],
        [_value("x", _FLOAT, [1 << 22, 1]), _value("z", _FLOAT, [1, 1 << 22])],
    ),
    "an outer product": lambda: model(
        [_node("MatMul", ["x", "z"], ["y"])],
        [_value("x", _FLOAT, [1 << 22, 1]), _value("z", _FLOAT, [1, 1 << 22])],
    ),
    "an outer product by equation": lambda: model(
        [_node("Einsum", ["x", "z"], ["y"], equation="i,j->ij")],
        [_value("x", _FLOAT, [1 << 22]), _value("z", _FLOAT, [1 << 22])],
    ),
    "many rows gathered": lambda: model(
        [_node("Gather", ["x", "i"], ["y"])],
        [_value("x", _FLOAT, [2, 1 << 22]), _value("i", _INT, [1 << 22])],
    ),
    "an expanded element": lambda: model(
        [_node("Expand", ["x", "s"], ["y"])], [X], [ints("s", HUGE)]
    ),
    "a tiled element": lambda: model([_node("Tile", ["x", "s"], ["y"])], [X], [ints("s", HUGE)]),
    "padding": lambda: model([_node("Pad", ["x", "s"], ["y"])], [X], [ints("s", HUGE, HUGE)]),
    "a resized image": lambda: model(
        [_node("Resize", ["x", "", "", "s"], ["y"])], [_value("x", _FLOAT, [1, 1, 2, 2])],
        [ints("s", 1, 1, 1 << 20, 1 << 20)],
    ),
    "one hot of many": lambda: model(
        [_node("OneHot", ["x", "s", "v"], ["y"])], [_value("x", _INT, [1])],
        [ints("s", HUGE), ints("v", 0, 1)],
    ),
    "a long window": lambda: model(
        [_node("HannWindow", ["s"], ["y"])], stored=[helper.make_tensor("s", _INT, [], [HUGE])]
    ),
    "many random numbers": lambda: model([_node("RandomNormal", [], ["y"], shape=[HUGE])]),
    "a long input": lambda: model(
        [_node("Relu", ["x"], ["y"])], [_value("x", _FLOAT, [2, 2, 2**63 - 1])]
    ),
    "a node of many inputs": lambda: model(
        [_node("Relu", ["x"], ["v"]), _node("Sum", ["v"] * 100_000, ["y"])], [X]
    ),
    "parts beyond count": lambda: model([_node("Split", ["x"], ["y"], num_outputs=HUGE)], [X]),
    "a weighted window of channels": lambda: model(
        [_node("LRN", ["x"], ["y"], size=2**62 + 1)], [_value("x", _FLOAT, [1, 1, 2, 2])]
    ),
}  # fmt: skip

AT_THE_STEP: Final[dict[str, tuple[Callable[[], onnx.ModelProto], Feeds]]] = {
    "a broadcast sum": (lambda: model([_node("Add", ["x", "z"], ["y"])], [COLUMN, ROW]), TALL),
    "a sum and what follows": (
        lambda: model(
            [_node("Sub", ["x", "z"], ["d"]), _node("Relu", ["d"], ["e"]),
             _node("ReduceSum", ["e"], ["y"])], [COLUMN, ROW]
        ),
        TALL,
    ),
    "an outer product": (lambda: model([_node("MatMul", ["x", "z"], ["y"])], [COLUMN, ROW]), TALL),
    "an outer product by equation": (
        lambda: model([_node("Einsum", ["x", "z"], ["y"], equation="ik,kj->ij")], [COLUMN, ROW]),
        TALL,
    ),
    "many rows gathered": (
        lambda: model([_node("Gather", ["x", "i"], ["y"])], [OPEN, _value("i", _INT, ["k"])]),
        {"x": np.zeros((1, 1 << 20), np.float32), "i": np.zeros(1 << 20, np.int64)},
    ),
    "a chain of concatenations": (
        lambda: model(doubled("Concat", 40, axis=0), [_value("x", _FLOAT, ["n"])]),
        {"x": np.zeros(1, np.float32)},
    ),
    "texts that double": (
        lambda: model(doubled("StringConcat", 60), [_value("x", _TEXT, ["n"])]),
        {"x": np.array(["ab"], object)},
    ),
    "a tiled element": (
        lambda: model([_node("Tile", ["x", "s"], ["y"])], [X, _value("s", _INT, [1])]), SIZES,
    ),
    "a long window": (
        lambda: model([_node("HannWindow", ["s"], ["y"])], [_value("s", _INT, [])]),
        {"s": np.array(HUGE)},
    ),
}  # fmt: skip


def outcomes() -> Iterator[tuple[str, str, int]]:
    """Open and run every model; yield its name, the code of the error, and the MiB it took."""
    before = _peak()
    limits = {"max_value_bytes": "64MiB"}
    for name, make in AT_BIND.items():
        yield name, _code(make().SerializeToString(), None), _peak() - before
    for name, (make, feeds) in AT_THE_STEP.items():
        code = _code(make().SerializeToString(), feeds, limits=limits)
        yield f"{name}, at the step", code, _peak() - before


def _code(data: bytes, feeds: Feeds | None, **settings: Any) -> str:
    try:
        with sk.InferenceSession(data, "numpy", **settings) as session:
            if feeds is None:
                return "opened"
            session.run(None, feeds)
    except sk.SubgraphkitError as error:
        return error.code
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is told)
        return repr(error)
    return "ran"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Write what every model came to."""
    _code(model([_node("Relu", ["x"], ["y"])], [X]).SerializeToString(), None)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    sys.stdout.write(json.dumps([*outcomes()]))


if __name__ == "__main__":
    main()
