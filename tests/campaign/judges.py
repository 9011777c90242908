"""Two other runtimes, asked for what a node or a model computes."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator

from subgraphkit.comparing.differences import first_difference
from tests.campaign.children import Child
from tests.campaign.models import case_of, feeds_of, model_of, read_values, write_values
from tests.campaign.mutations import messages
from tests.campaign.trials import Case, Outcome


def named(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


MOVING: Final = frozenset(
    named(
        "Compress Concat ConcatFromSequence DepthToSpace Dropout Expand Flatten Gather "
        "GatherElements GatherND GlobalMaxPool Identity If Max MaxPool MaxUnpool Min Neg Abs "
        "Optional OptionalGetElement Pad Relu Reshape ReverseSequence Scatter ReduceMax ReduceMin "
        "SequenceAt SequenceConstruct SequenceErase SequenceInsert Slice SpaceToDepth Split "
        "SplitToSequence Squeeze Tile TensorScatter TopK Transpose Trilu Unique Unsqueeze Where"
    )
)
"""Operators that compute no new numbers."""

NOT_HEARD: Final = {
    **dict.fromkeys(("RNN", "GRU", "LSTM"), "ignores sequence_lens, layout, clip and activations"),
    "BatchNormalization": "trains before opset 14, where one output means inference",
    "Clip": "lets infinity pass where a bound is left out",
    "ConvTranspose": "lays the filters of groups, and dilations, out otherwise",
    "Erf": "computes float64 in float32 and rounds integers",
    "Loop": "runs no round without a condition, and joins what rounds make",
    "GlobalMaxPool": "leaves an axis out of inputs of three",
    "LpNormalization": "divides by the sum of elements with their signs where p is 1",
    "LpPool": "multiplies by more than it divides by where a window reaches beyond the padding",
    "LRN": "leaves the last channel out of windows of an even size",
    "OptionalGetElement": "returns a list of one",
    "SequenceInsert": "takes the place behind the last for the first",
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), "rounds behind the zero point"),
    "StringNormalizer": "takes accents from letters",
    "RoiAlign": "takes one point of a bin for all",
}
"""Operators that ``onnx.reference`` computes otherwise than the specification says, and how."""


_SUMS: Final = "AveragePool CumSum GlobalAveragePool ReduceL1 ReduceL2 ReduceMean ReduceSum"
_ADDING: Final = frozenset((*named(_SUMS), "ReduceSumSquare"))
"""Operators of which ``onnx.reference`` rounds every sum to few bits, where elements have few."""


def operators(model: ModelProto) -> set[str]:
    """Return the operators of a model and of the bodies in it."""
    return {one.op_type for one in messages(model) if isinstance(one, NodeProto)}


def read_names(node: NodeProto) -> list[str]:
    """Return what a node reads, what its bodies capture included, each name once."""
    captured = (name for one in node.attribute if one.HasField("g") for name in _captured(one.g))
    return list(dict.fromkeys([*(name for name in node.input if name), *captured]))


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    own = {one.name for one in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in read_names(node) if name not in own)
    yield from (one.name for one in graph.output if one.name not in own)


def _alone(node: NodeProto, kinds: Mapping[str, TypeProto], opset: int) -> ModelProto:
    """Return a model of one node."""
    inputs = [helper.make_value_info(name, kinds[name]) for name in read_names(node)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def inferred(node: NodeProto, kinds: Mapping[str, TypeProto], opset: int) -> dict[str, TypeProto]:
    """Return the types of what a node makes; empty if it is not valid."""
    try:
        model = onnx.shape_inference.infer_shapes(
            _alone(node, kinds, opset), check_type=True, strict_mode=True, data_prop=True
        )
    except Exception:  # noqa: BLE001 (whatever it is, the node is not valid)
        return {}
    return {one.name: one.type for one in model.graph.output if one.type.WhichOneof("value")}


def node_results(
    node: NodeProto, kinds: Mapping[str, TypeProto], feeds: Mapping[str, Any], opset: int
) -> tuple[list[Any] | None, bool]:
    """Return what a node computes by a judge that is right about types, and whether both say so."""
    types = inferred(node, kinds, opset)
    if len(types) != len([name for name in node.output if name]):
        return None, False
    model = _alone(node, kinds, opset)
    for output in model.graph.output:
        output.type.CopyFrom(types[output.name])
    several = [
        found
        for judge in (reference, runtime)
        if (found := judge(model, feeds)) is not None
        and all(_is_of(one, kind) for one, kind in zip(found, types.values(), strict=True))
    ]
    if not several:
        return None, False
    if len(several) == 1:
        alone = node.op_type in NOT_HEARD or any(
            map(_is_of_few_bits, (*feeds.values(), *several[0]))
        )
        return several[0], alone
    return several[0], not differs(*several)


def has_few_bits(model: ModelProto) -> bool:
    """Say whether ONNX Runtime cannot be fed a model, or not asked for what it computes."""
    values = (*model.graph.input, *model.graph.output)
    kinds = {one.type.tensor_type.elem_type for one in values}
    return any(np.dtype(helper.tensor_dtype_to_np_dtype(one)).kind == "V" for one in kinds if one)


def _is_of_few_bits(value: Any) -> bool:
    """Say whether ONNX Runtime cannot be fed a value: NumPy has no such numbers."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "V"


@dataclass
class Intermediates:
    """All values of a model, with their types; those that no judge computes are missing.

    ``sure`` says whether two judges, or one where the other is known to be wrong, computed each.
    """

    now: dict[str, Any]
    kinds: dict[str, TypeProto]
    sure: bool = True


def intermediates(model: ModelProto, feeds: Mapping[str, Any]) -> Intermediates:
    """Compute a model node by node, each node by a judge that can do it."""
    opset = next(one.version for one in model.opset_import if not one.domain)
    stored = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    kinds = {one.name: one.type for one in model.graph.input}
    for tensor in model.graph.initializer:
        kinds[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    values = Intermediates({**stored, **feeds}, kinds)
    for node in model.graph.node:
        if any(name not in values.now for name in read_names(node)):
            continue
        read = {name: values.now[name] for name in read_names(node)}
        found, is_sure = node_results(node, kinds, read, opset)
        values.sure &= is_sure
        if found is not None:
            kinds |= inferred(node, kinds, opset)
            values.now.update(zip((name for name in node.output if name), found, strict=True))
    return values


def node_by_node(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Return what a model computes, None where it is not sure of each node."""
    found = intermediates(model, feeds)
    return [found.now[one.name] for one in model.graph.output] if found.sure else None


def _is_of(value: Any, kind: TypeProto) -> bool:
    if kind.HasField("optional_type"):
        return value is None or _is_of(value, kind.optional_type.elem_type)
    if kind.HasField("sequence_type"):
        return isinstance(value, list) and all(isinstance(one, np.ndarray) for one in value)
    if not isinstance(value, np.ndarray):
        return False
    label = kind.tensor_type.elem_type
    if label == onnx.TensorProto.STRING:
        return value.dtype.kind in "OUS"
    dims = kind.tensor_type.shape.dim
    fits = not kind.tensor_type.HasField("shape") or (
        len(dims) == value.ndim
        and all(
            not one.HasField("dim_value") or one.dim_value == size
            for one, size in zip(dims, value.shape, strict=True)
        )
    )
    return bool(value.dtype == helper.tensor_dtype_to_np_dtype(label)) and fits


def _padded(model: ModelProto, feeds: Mapping[str, Any]) -> ModelProto:
    """Return a model that states the padding to the same size where judges compute it otherwise.

    Both leave dilations out, and cut off where steps go beyond a window; onnx's inference does not.
    """
    odd = [place for place, node in enumerate(model.graph.node) if _is_oddly_padded(node)]
    if not odd:
        return model
    copy = ModelProto.FromString(model.SerializeToString())
    for one in copy.graph.input:
        if isinstance(feeds.get(one.name), np.ndarray):
            shape = feeds[one.name].shape
            one.type.tensor_type.CopyFrom(
                helper.make_tensor_type_proto(one.type.tensor_type.elem_type, shape).tensor_type
            )
    graph = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    known = {one.name: one.type for one in (*graph.value_info, *graph.input)}
    known |= {one.name: helper.make_tensor_type_proto(1, one.dims) for one in graph.initializer}
    for place in odd:
        node = copy.graph.node[place]
        sizes = [dim.dim_value for dim in known[node.input[0]].tensor_type.shape.dim][2:]
        kept = [one for one in node.attribute if one.name not in {"auto_pad", "pads"}]
        pads = helper.make_attribute("pads", _same_pads(node, sizes))
        del node.attribute[:]
        node.attribute.extend([*kept, pads])
    return copy


def _is_oddly_padded(node: NodeProto) -> bool:
    said = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if not said.get("auto_pad", b"").startswith(b"SAME") or node.op_type == "ConvTranspose":
        return False
    taps = said.get("kernel_shape", [1] * 3)
    far = any(map(int.__gt__, said.get("strides", ()), taps)) and node.op_type.endswith("Pool")
    return far or max(said.get("dilations", [1])) > 1


def _same_pads(node: NodeProto, sizes: Sequence[int]) -> list[int]:
    said = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    ones = [1] * len(sizes)
    both = []
    steps = (said.get(name, ones) for name in ("strides", "dilations"))
    rows = zip(sizes, said["kernel_shape"], *steps, strict=True)
    for size, taps, step, dilation in rows:
        last = (-(-size // step) - 1) * step
        total = max(last + (taps - 1) * dilation + 1 - size, 0)
        less = total // 2
        both.append(
            (less, total - less) if said["auto_pad"] == b"SAME_UPPER" else (total - less, less)
        )
    return [one for side in zip(*both, strict=True) for one in side]


def is_valid(model: ModelProto) -> bool:
    """Say whether the checker of ONNX accepts a model."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # noqa: BLE001 (it has several)
        return False
    return True


def reference(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Return what ``onnx.reference`` computes; None where it cannot, or is known to be wrong."""
    unheard = NOT_HEARD.keys() | (_ADDING if has_few_bits(model) else set())
    if not unheard.isdisjoint(operators(model)):
        return None
    try:
        copy = ModelProto.FromString(_padded(model, feeds).SerializeToString())
        for at, one in enumerate(messages(copy)):  # what nobody reads, it keeps as what is absent
            if isinstance(one, NodeProto):
                one.output[:] = [name or f"unread {at} {n}" for n, name in enumerate(one.output)]
        with np.errstate(all="ignore"):
            found = list(ReferenceEvaluator(copy).run(None, _copies(feeds)))
        return [np.asarray(one) if isinstance(one, np.generic) else one for one in found]
    except Exception:  # noqa: BLE001 (a judge that cannot answer says nothing)
        return None


def runtime(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """Return what ONNX Runtime computes, nothing optimised; None where it cannot, or ends."""
    try:
        case = case_of(_padded(model, feeds).SerializeToString(), feeds)
    except Exception:  # noqa: BLE001 (what is not known here, is not judged)
        return None
    outcome = _runtime_child(os.getpid()).only(case)
    return read_values(outcome.text) if outcome.kind == "ran" else None


@cache
def _runtime_child(_: int) -> Child:
    """Return the child of a process in which ONNX Runtime may end it."""
    return Child(_run, 20.0, Path(tempfile.gettempdir()))


def _run(case: Case) -> Outcome:
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model_of(case), options, providers=["CPUExecutionProvider"]
        )
        return Outcome("ran", text=write_values(session.run(None, feeds_of(case))))
    except Exception as error:  # noqa: BLE001 (a judge that cannot answer says nothing)
        return Outcome("coded", text=str(error)[:300])


def _copies(feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in feeds.items()
    }


def differs(results: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """Return in words where results are beyond the tolerance of their type."""
    with np.errstate(all="ignore"):
        for place, (got, want) in enumerate(zip(results, expected, strict=True)):
            if (difference := first_difference(got, want)) is not None:
                return f"output {place}: {difference.text}"
    return None
