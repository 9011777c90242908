"""Ways to spoil a model: its attributes, edges, types, weights, names, feeds and bytes."""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

INTEGERS: Final = (
    *(0, 1, -1, 2, -2, 3, 5, 7, 63, 1000, 2**16, 2**20, 2**31 - 1, 2**31, 2**32, 2**32 + 1),
    *(2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**31) - 1, -(2**62), -(2**63)),
)
FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, np.inf, -np.inf, np.nan, 2.0**31)
NAMES: Final = (
    *("", "x", "y", "\x00", "a\nb", "\x1b[2J", "N" * 10_000, "../../x", "class", "__import__"),
    *("\u202etxt", "\U0001f600", "0", "-", "'\"", "{}", "%s", "_", "numpy", "outputs", "self"),
)
TEXTS: Final = (
    *NAMES,
    *("(a+)+$", "(", "linear", "ij,jk->ik", "...", "ii->i", "SAME_UPPER", "VALID", "constant"),
    *("wrap", "nearest", "cubic", "add", "max", "bidirectional", "Tanh", "\\", "[[:alpha:]]"),
)
DOMAINS: Final = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x", "ai.onnx.preview.training")

Mutation = Callable[["Mutator"], None]


class Mutator:
    """Spoils one model with the draws of one generator.

    Args:
        model: The model, which is changed.
        feeds: What is fed, which is changed.
        rng: Where chance comes from.
        strange: A node of another model, an operator's name and attributes of which are borrowed.
    """

    def __init__(
        self,
        model: ModelProto,
        feeds: dict[str, Any],
        rng: random.Random,
        strange: NodeProto,
    ) -> None:
        self.model, self.feeds, self.rng, self.strange = model, feeds, rng, strange

    @property
    def graph(self) -> GraphProto:
        return self.rng.choice([*graphs(self.model.graph)]) if self._deep else self.model.graph

    @property
    def _deep(self) -> bool:
        return self.rng.random() < 0.5

    def node(self) -> NodeProto:
        return self.rng.choice(self.graph.node)

    def value(self) -> str:
        """Return the name of some value, or one that nobody has."""
        nodes = self.model.graph.node
        names = [name for node in nodes for name in (*node.input, *node.output)]
        names += [one.name for one in self.model.graph.input]
        return self.rng.choice([*names, *names, *names, self.rng.choice(NAMES)])

    def number(self) -> int:
        return self.rng.choice(INTEGERS)

    def tensors(self) -> list[TensorProto]:
        """Return every tensor that the model holds."""
        held = [tensor for graph in graphs(self.model.graph) for tensor in graph.initializer]
        for graph in graphs(self.model.graph):
            held += [one.t for node in graph.node for one in node.attribute if one.HasField("t")]
        return held


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Go through a graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def mutate(mutator: Mutator, count: int) -> list[str]:
    """Spoil a model in so many ways; return the names of those that could be taken."""
    taken = []
    for _ in range(count):
        way = mutator.rng.choices(WAYS, WEIGHTS)[0]
        try:
            way(mutator)
        except Exception:  # noqa: BLE001 (protobuf and NumPy have many)
            continue  # there is no such thing in this model
        taken.append(way.__name__.strip("_"))
    return taken


def spoiled_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, remove, repeat or put in bytes anywhere."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        start = rng.randrange(len(spoiled) + 1)
        end = min(len(spoiled), start + rng.choice((1, 1, 2, 8, 64)))
        match rng.randrange(5):
            case 0:
                spoiled[start:end] = bytes(rng.randrange(256) for _ in range(end - start))
            case 1:
                del spoiled[start:end]
            case 2:
                spoiled[start:start] = spoiled[start:end] * rng.choice((1, 2, 100))
            case 3:
                spoiled[start:end] = b"\xff" * (end - start)
            case _ if start < len(spoiled):
                spoiled[start] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def _attribute_value(m: Mutator) -> None:
    rng, attribute = m.rng, m.rng.choice(m.node().attribute)
    kinds = AttributeProto
    match attribute.type:
        case kinds.INT:
            attribute.i = m.number()
        case kinds.FLOAT:
            attribute.f = rng.choice(FLOATS)
        case kinds.STRING:
            attribute.s = rng.choice((*(text.encode() for text in TEXTS), b"\xff\xfe"))
        case kinds.INTS:
            _list(rng, attribute.ints, INTEGERS)
        case kinds.FLOATS:
            _list(rng, attribute.floats, FLOATS)
        case kinds.STRINGS:
            _list(rng, attribute.strings, [text.encode() for text in TEXTS])
        case _:
            attribute.type = rng.randrange(15)


def _list(rng: random.Random, items: Any, values: Any) -> None:
    match rng.randrange(4):
        case 0:
            items.append(rng.choice(values))
        case 1:
            items.pop(rng.randrange(len(items)))
        case 2:
            del items[:]
        case _:
            items[rng.randrange(len(items))] = rng.choice(values)


def _attribute(m: Mutator) -> None:
    node, rng = m.node(), m.rng
    match rng.randrange(5):
        case 0:
            node.attribute.pop(rng.randrange(len(node.attribute)))
        case 1:
            node.attribute.append(rng.choice(m.strange.attribute))
        case 2:
            node.attribute.append(rng.choice(node.attribute))
        case 3:
            rng.choice(node.attribute).name = rng.choice((*NAMES, "axis", "axes", "to"))
        case _:
            attribute = rng.choice(node.attribute)
            value = rng.choice((m.number(), rng.choice(FLOATS), rng.choice(TEXTS), [1, 2], [0.5]))
            attribute.CopyFrom(onnx.helper.make_attribute(attribute.name, value))


def _known_attribute(m: Mutator) -> None:
    """Give an attribute that the operator's schema knows and the model leaves out."""
    node = m.node()
    known = onnx.defs.get_schema(node.op_type, domain=node.domain).attributes
    kind = known[name := m.rng.choice(sorted(known))].type
    types = onnx.defs.OpSchema.AttrType
    values: dict[Any, Any] = {
        types.INT: m.number(),
        types.INTS: [m.number() for _ in range(m.rng.randrange(1, 5))],
        types.FLOAT: m.rng.choice(FLOATS),
        types.FLOATS: [m.rng.choice(FLOATS) for _ in range(m.rng.randrange(1, 5))],
        types.STRING: m.rng.choice(TEXTS),
    }
    if kind not in values:
        raise ValueError(name)
    node.attribute.append(onnx.helper.make_attribute(name, values[kind]))


def _input(m: Mutator) -> None:
    node, rng = m.node(), m.rng
    match rng.randrange(4):
        case 0:
            node.input.pop(rng.randrange(len(node.input)))
        case 1:
            node.input.append(m.value())
        case 2:
            node.input[rng.randrange(len(node.input))] = ""
        case _:
            node.input[rng.randrange(len(node.input))] = m.value()


def _output(m: Mutator) -> None:
    node, rng = m.node(), m.rng
    match rng.randrange(4):
        case 0:
            node.output.pop(rng.randrange(len(node.output)))
        case 1:
            node.output.append(rng.choice((m.value(), f"more{rng.randrange(9)}")))
        case 2:
            node.output[rng.randrange(len(node.output))] = ""
        case _:
            m.model.graph.output.add().name = rng.choice((m.value(), node.output[0]))


def _operator(m: Mutator) -> None:
    node, rng = m.node(), m.rng
    if rng.randrange(4):
        node.op_type, node.domain = m.strange.op_type, m.strange.domain
    else:
        node.op_type = rng.choice((*NAMES, "Loop", "If", "Identity", "Constant"))
        node.domain = rng.choice(DOMAINS)


def _nodes(m: Mutator) -> None:
    nodes, rng = m.graph.node, m.rng
    place = rng.randrange(len(nodes))
    match rng.randrange(5):
        case 0:
            del nodes[place]
        case 1:
            nodes.append(nodes[place])
        case 2:
            nodes.insert(place, m.strange)
        case 3:
            copy = NodeProto.FromString(nodes[place].SerializeToString())
            copy.output[:] = [f"{name}_again" for name in copy.output]
            nodes.append(copy)
        case _:
            nodes.insert(rng.randrange(len(nodes)), nodes.pop())


def _tensor(m: Mutator) -> None:
    tensor, rng = m.rng.choice(m.tensors()), m.rng
    match rng.randrange(7):
        case 0:
            tensor.dims[rng.randrange(len(tensor.dims))] = m.number()
        case 1:
            tensor.dims.append(rng.choice((0, 1, 2, m.number())))
        case 2:
            tensor.data_type = rng.choice((*range(28), 99, -1))
        case 3:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data))]
        case 4:
            tensor.name = rng.choice((*NAMES, m.value()))
        case 5:
            tensor.data_location = TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", rng.choice((*NAMES, ".", "/etc/passwd", "a" * 300))
        case _:
            _numbers(tensor, rng)


def _numbers(tensor: TensorProto, rng: random.Random) -> None:
    """Change an element of a tensor to something that is rarely thought of."""
    array = np.array(onnx.numpy_helper.to_array(tensor))
    array.flat[rng.randrange(array.size)] = _element(array.dtype, rng)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _element(dtype: Any, rng: random.Random) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(rng.choice(INTEGERS), limits.min), limits.max)
    return rng.choice(TEXTS) if dtype.kind in "OUS" else rng.choice(FLOATS)


def _type(m: Mutator) -> None:
    graph, rng = m.graph, m.rng
    value = rng.choice([*graph.input, *graph.output, *graph.value_info])
    tensor = value.type.tensor_type
    match rng.randrange(7):
        case 0:
            tensor.elem_type = rng.choice((*range(28), 99, -1))
        case 1:
            rng.choice(tensor.shape.dim).dim_value = m.number()
        case 2:
            rng.choice(tensor.shape.dim).dim_param = rng.choice(("N", "M", *NAMES))
        case 3:
            tensor.ClearField("shape")
        case 4:
            value.ClearField("type")
        case 5:
            tensor.shape.dim.add().dim_value = rng.choice((1, 2, m.number()))
        case _:
            value.type.sequence_type.elem_type.tensor_type.elem_type = 1


def _header(m: Mutator) -> None:
    rng, imports = m.rng, m.model.opset_import
    match rng.randrange(5):
        case 0:
            m.model.ir_version = rng.choice((*range(1, 14), m.number()))
        case 1:
            imports.add(domain=rng.choice(DOMAINS), version=rng.choice((*range(1, 28), m.number())))
        case 2:
            del imports[:]
        case _:
            rng.choice(imports).version = rng.choice((*range(1, 28), m.number()))


def _rename(m: Mutator) -> None:
    """Give a value a strange name, everywhere."""
    old, new = m.value(), m.rng.choice(NAMES)
    for graph in graphs(m.model.graph):
        for node in graph.node:
            node.input[:] = [new if name == old else name for name in node.input]
            node.output[:] = [new if name == old else name for name in node.output]
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = new if value.name == old else value.name
    if old in m.feeds:
        m.feeds[new] = m.feeds.pop(old)


def _stored(m: Mutator) -> None:
    """Make a constant of an input, so that it is known at bind."""
    name = m.rng.choice(sorted(m.feeds))
    m.model.graph.initializer.append(onnx.numpy_helper.from_array(m.feeds.pop(name), name))
    for place, value in enumerate(m.model.graph.input):
        if value.name == name:
            del m.model.graph.input[place]


def _follow(m: Mutator) -> None:
    """Put the borrowed node behind the model."""
    (before, *_), after = m.model.graph.output, NodeProto()
    after.CopyFrom(m.strange)
    after.output[:] = [f"after{place}" for place in range(len(after.output))]
    after.input[:] = [before.name if not place else m.value() for place in range(len(after.input))]
    m.model.graph.node.append(after)
    m.model.graph.output.add().name = "after0"


def _branch(m: Mutator) -> None:
    """Move the last node into both branches of an If."""
    graph = m.model.graph
    last = graph.node.pop()
    outputs = [onnx.ValueInfoProto(name=name) for name in last.output if name]
    body = onnx.helper.make_graph([last], "body", [], outputs)
    graph.initializer.append(onnx.helper.make_tensor("chosen", TensorProto.BOOL, [], [True]))
    names = [one.name for one in outputs]
    made = onnx.helper.make_node("If", ["chosen"], names, then_branch=body, else_branch=body)
    graph.node.append(made)


def _fed(m: Mutator) -> None:
    name, rng = m.rng.choice(sorted(m.feeds)), m.rng
    array = np.array(m.feeds[name])
    match rng.randrange(6):
        case 0:
            m.feeds[name] = array[..., :0] if array.ndim else array.reshape(1)
        case 1:
            m.feeds[name] = array.reshape((1, *array.shape))
        case 2:
            m.feeds[name] = array.astype(rng.choice(("float32", "int64", "float16", "bool")))
        case _:
            for _ in range(rng.choice((1, 1, 3))):
                array.flat[rng.randrange(array.size)] = _element(array.dtype, rng)
            m.feeds[name] = array


_CHOSEN: Final[dict[Mutation, int]] = {
    _attribute_value: 6,
    _attribute: 3,
    _known_attribute: 5,
    _input: 4,
    _output: 3,
    _operator: 2,
    _nodes: 2,
    _tensor: 4,
    _type: 3,
    _header: 2,
    _rename: 2,
    _stored: 5,
    _follow: 3,
    _branch: 1,
    _fed: 5,
}
WAYS: Final = tuple(_CHOSEN)
WEIGHTS: Final = tuple(_CHOSEN.values())
