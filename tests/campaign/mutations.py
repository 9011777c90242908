"""Ways to spoil a model: any field of it, its edges, its feeds and its bytes."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

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
    *("Loop", "If", "Identity", "Constant", "axis", "axes", "to", "N", "M", "location", "."),
    *("ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training", "/etc/passwd"),
)
_OF_KIND: Final = {"INT": INTEGERS, "FLOAT": FLOATS, "STRING": TEXTS}
_CODES: Final = (*range(28), 99, -1)
"""What a version, a data type or the like is drawn from, half of the time."""
_WEIGHTS: Final = {
    **dict.fromkeys(("attribute", "dims", "dim_value", "i", "input", "ints"), 4),
    **dict.fromkeys(("data_type", "elem_type", "floats", "output", "s", "version"), 2),
}
"""How often fields are drawn that mean more than others; these are drawn once."""
_LARGEST: Final = 4096
"""Elements of a list that is looked at: weights are spoiled by way of ``_element_of_tensor``."""


class Mutator:
    """Spoils one model with the draws of one generator."""

    def __init__(
        self, model: ModelProto, feeds: dict[str, Any], rng: random.Random, strange: NodeProto
    ) -> None:
        self.model, self.feeds, self.rng, self.strange = model, feeds, rng, strange

    def value(self) -> str:
        """Return the name of some value, or one that nobody has."""
        nodes = self.model.graph.node
        names = [name for node in nodes for name in (*node.input, *node.output)]
        names += [one.name for one in self.model.graph.input]
        return self.rng.choice([*names, *names, *names, self.rng.choice(NAMES)])


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Go through a graph and the bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def mutate(mutator: Mutator, count: int) -> None:
    """Spoil a model in so many ways, or in fewer."""
    for way in mutator.rng.choices([*_WAYS], [*_WAYS.values()], k=count):
        with suppress(Exception):  # there is no such thing in this model
            way(mutator)


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


def messages(message: Message) -> Iterator[Message]:
    """Go through a message and all in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from messages(one)


def _field(m: Mutator) -> None:
    """Change, clear, repeat or put in some field of some message, as any writer of files might."""
    places: dict[str, list[tuple[Message, FieldDescriptor]]] = {}
    for message in messages(m.model):
        for field in message.DESCRIPTOR.fields:
            places.setdefault(field.name, []).append((message, field))
    names = sorted(places)
    name = m.rng.choices(names, [_WEIGHTS.get(name, 1) for name in names])[0]
    # What is there is more interesting than what might be.
    stated = [(one, field) for one, field in places[name] if _is_stated(one, field)]
    message, field = m.rng.choice(stated if stated and m.rng.random() < 0.8 else places[name])
    if field.is_repeated:
        _change_list(m, getattr(message, name), field)
    elif m.rng.random() < 0.1 or field.message_type is not None:
        message.ClearField(name)
    else:
        setattr(message, name, _strange(m, field))


def _is_stated(message: Message, field: FieldDescriptor) -> bool:
    value = getattr(message, field.name)
    return 0 < len(value) <= _LARGEST if field.is_repeated else message.HasField(field.name)


def _change_list(m: Mutator, items: Any, field: FieldDescriptor) -> None:
    rng, place = m.rng, m.rng.randrange(len(items) or 1)
    match rng.randrange(5):
        case 0:
            del items[place]
        case 1:
            del items[:]
        case 2:
            items.append(items[place])
        case 3 if field.message_type is not None:
            items.insert(place, items.pop(rng.randrange(len(items))))
        case 3:
            items[place] = _strange(m, field)
        case _:
            items.append(_strange(m, field))


def _strange(m: Mutator, field: FieldDescriptor) -> Any:
    """Return something that is rarely thought of, for a field or an element of one."""
    rng = m.rng
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice(FLOATS)
        case FieldDescriptor.CPPTYPE_STRING:
            borrowed = m.value() if field.name != "op_type" else m.strange.op_type
            text = rng.choice((rng.choice(TEXTS), borrowed))
            is_raw = field.type == FieldDescriptor.TYPE_BYTES
            raw = text.encode() if rng.random() < 0.9 else b"\xff\xfe"
            return raw if is_raw else text
        case FieldDescriptor.CPPTYPE_MESSAGE:
            found = ([*messages(one)] for one in (m.strange, m.model))
            same = [
                [one for one in several if field.message_type == one.DESCRIPTOR]
                for several in found
            ]
            return rng.choice(rng.choice([several for several in same if several]))
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.randrange(15)
        case kind:
            number = rng.choice((rng.choice(INTEGERS), rng.choice(_CODES)))
            is_long = kind in {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
            return number if is_long else (number + 2**31) % 2**32 - 2**31


def _known_attribute(m: Mutator) -> None:
    """Give an attribute that the operator's schema knows; all of its elements at one end, often."""
    node = m.rng.choice([node for graph in graphs(m.model.graph) for node in graph.node])
    known = onnx.defs.get_schema(node.op_type, domain=node.domain).attributes
    kind = known[name := m.rng.choice(sorted(known))].type
    drawn = _OF_KIND[kind.name.removesuffix("S")]
    count = m.rng.randrange(5)
    several = [m.rng.choice(drawn) for _ in range(count)]
    several = [m.rng.choice(drawn)] * count if m.rng.random() < 0.5 else several
    value = several if kind.name.endswith("S") else m.rng.choice(drawn)
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=int(kind.value)))


def _element_of_tensor(m: Mutator) -> None:
    """Change an element of a tensor."""
    tensor = m.rng.choice([one for one in messages(m.model) if isinstance(one, TensorProto)])
    array = np.array(onnx.numpy_helper.to_array(tensor))
    array.flat[m.rng.randrange(array.size)] = _element(array.dtype, m.rng)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _element(dtype: Any, rng: random.Random) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(rng.choice(INTEGERS), limits.min), limits.max)
    return rng.choice(TEXTS) if dtype.kind in "OUS" else rng.choice(FLOATS)


def _operator(m: Mutator) -> None:
    """Have a node computed by an operator of another model."""
    node = m.rng.choice(m.rng.choice([*graphs(m.model.graph)]).node)
    node.op_type, node.domain = m.strange.op_type, m.strange.domain


def _copy(m: Mutator) -> None:
    """Compute a node twice."""
    copy = m.model.graph.node.add()
    copy.CopyFrom(m.rng.choice(m.model.graph.node[:-1]))
    copy.output[:] = [f"{name}_again" for name in copy.output]


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
    match rng.randrange(7):
        case 0:
            m.feeds[name] = array[..., :0] if array.ndim else array.reshape(1)
        case 1:
            m.feeds[name] = array.reshape((1, *array.shape))
        case 2:
            m.feeds[name] = array.astype(rng.choice(("float32", "int64", "float16", "bool")))
        case 3:
            m.feeds[name] = np.full_like(array, _element(array.dtype, rng))
        case _:
            for _ in range(rng.choice((1, 1, 3))):
                array.flat[rng.randrange(array.size)] = _element(array.dtype, rng)
            m.feeds[name] = array


_WAYS: Final[dict[Callable[[Mutator], None], int]] = {
    _field: 26,
    _known_attribute: 7,
    _element_of_tensor: 3,
    _operator: 2,
    _copy: 1,
    _rename: 2,
    _stored: 5,
    _follow: 3,
    _branch: 1,
    _fed: 5,
}
