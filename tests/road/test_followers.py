"""Every operator in every version, with ordinary operators behind it, binds or is not valid.

An operator alone says little of its types: it is the next one that asks for them.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import NodeProto, defs, helper, numpy_helper

from backends.numpy.tests.dtype_sweep import fitting, schemas
from subgraphkit.binding import bind
from subgraphkit.errors import SubgraphkitError
from subgraphkit.onnx_io import load
from subgraphkit.onnx_io.protos import write_value_info
from subgraphkit.types import DataType, MapType, SequenceType, TensorType
from tests.unit.onnx_io.microsoft_cases import CASES

OLDEST_WITH_SHAPE_INPUT = 5
OLDEST_WITH_NUMBERED_TYPES = 6
FOR_OTHER_DOMAINS = 17


@dataclass(frozen=True)
class Case:
    """A node with its inputs and the operator sets it is read under."""

    node: NodeProto
    inputs: tuple[Any, ...]
    opsets: tuple[tuple[str, int], ...]

    @property
    def label(self):
        versions = dict(self.opsets)
        return f"{self.node.domain}::{self.node.op_type} in {versions[self.node.domain]}"


@dataclass(frozen=True, eq=False)
class Follower:
    """An ordinary operator that reads a value, twice or with a constant where it takes two."""

    op_type: str
    operand: np.ndarray[Any, Any] | None = None
    twice: bool = False


def type_of(value):
    if isinstance(value, list):
        return SequenceType(type_of(value[0]) if value else TensorType(DataType.FLOAT))
    if isinstance(value, dict):
        key, item = next(iter(value.items()))
        return MapType(
            DataType.STRING if isinstance(key, str) else DataType.INT64,
            TensorType(DataType.of(np.asarray(item).dtype), ()),
        )
    return TensorType(DataType.of(np.asarray(value).dtype), np.asarray(value).shape)


@lru_cache(maxsize=1)
def versions():
    """Return all versions of every operator, by domain and name."""
    found = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].append(schema.since_version)
    return found


def newest(schema):
    """Return the newest operator set in which a version of an operator is in force."""
    own = schema.since_version
    later = [version for version in versions()[schema.domain, schema.name] if version > own]
    return min(later) - 1 if later else defs.C.schema_version_map()[schema.domain][1]


def standard_cases(count):
    for schema in schemas():
        for opset in {schema.since_version, newest(schema)}:
            for template in islice(fitting(schema), count):
                opsets = {"": FOR_OTHER_DOMAINS, schema.domain: opset}
                yield Case(template.node, template.inputs, tuple(opsets.items()))


def microsoft_cases():
    for case in CASES:
        opsets = tuple((entry.domain, entry.version) for entry in case.model.opset_import)
        yield Case(case.model.graph.node[0], case.inputs, opsets)


def fitting_followers(type_):
    """Return the operators that may follow a value of a type."""
    if isinstance(type_, SequenceType):
        return (Follower("SequenceLength"),)
    if not isinstance(type_, TensorType):
        return ()
    shape = type_.shape
    found = [Follower(op_type) for op_type in ("Identity", "Cast", "Shape", "Transpose")]
    found.append(Follower("Reshape", np.array([-1])))
    if shape != ():
        found.append(Follower("Concat", twice=True))
    if type_.dtype is not DataType.FLOAT:
        return tuple(found)
    found += [Follower("Exp"), Follower("Add", twice=True), Follower("Mul", twice=True)]
    if dims := [dim if isinstance(dim, int) else 1 for dim in shape or ()]:
        found += [Follower("Softmax"), Follower("MatMul", np.ones((dims[-1], 2), np.float32))]
    if len(dims) > 2 and dims[1]:
        ones = (1,) * (len(dims) - 2)
        found.append(Follower("Conv", np.ones((1, dims[1], *ones), np.float32)))
    return tuple(found)


def followed(case, followers):
    """Return a model of the node with operators behind its outputs."""
    nodes, stored, made = [case.node], {}, []
    for value, behind in followers.items():
        for follower in behind:
            node, constants = node_of(follower, value, dict(case.opsets)[""])
            nodes.append(node)
            stored |= constants
            made.append(onnx.ValueInfoProto(name=node.output[0]))
    made += [onnx.ValueInfoProto(name=name) for name in case.node.output if name]
    given = [
        write_value_info(name, type_of(value))
        for name, value in zip(case.node.input, case.inputs, strict=True)
        if name
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    return helper.make_model(
        helper.make_graph(nodes, "g", given, made, initializers),
        opset_imports=[helper.make_opsetid(*opset) for opset in case.opsets],
        ir_version=10,
    )


def node_of(follower, value, opset):
    op_type, made = follower.op_type, f"{value}_{follower.op_type}"
    inputs = [value, value] if follower.twice else [value]
    attributes: dict[str, Any] = {"axis": 0} if op_type in {"Concat", "Softmax"} else {}
    if op_type == "Cast":
        attributes = {"to": 1 if opset >= OLDEST_WITH_NUMBERED_TYPES else "FLOAT"}
    if op_type == "Reshape" and opset < OLDEST_WITH_SHAPE_INPUT:
        return helper.make_node(op_type, inputs, [made], shape=[-1]), {}
    stored = {} if follower.operand is None else {f"{made}_with": follower.operand}
    return helper.make_node(op_type, [*inputs, *stored], [made], **attributes), stored


def binds(model):
    try:
        bind(load(model))
    except SubgraphkitError:
        return False
    return True


def opens(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 (its errors have no common base)
        return False
    return True


def faults(case):
    """Return how many followers were tried, how many bound, and what ought to have bound."""
    alone = followed(case, {})
    if not binds(alone):
        return 1, 0, [f"{case.label} alone"] if opens(alone) else []
    bound = bind(load(alone))
    tried = {name: fitting_followers(bound.types[name]) for name in case.node.output if name}
    count = sum(map(len, tried.values()))
    if binds(followed(case, tried)):
        return count, count, []
    refused = [
        (f"{case.label} -> {follower.op_type} of {name}", model)
        for name, behind in tried.items()
        for follower in behind
        if not binds(model := followed(case, {name: (follower,)}))
    ]
    return count, count - len(refused), [label for label, model in refused if opens(model)]


def test_what_onnx_runtime_opens_binds(pytestconfig):
    count = pytestconfig.getoption("--followed-cases")
    results = [faults(case) for case in (*standard_cases(count), *microsoft_cases())]
    assert sum(bound for _, bound, _ in results) > 10000
    assert [label for _, _, found in results for label in found] == []
