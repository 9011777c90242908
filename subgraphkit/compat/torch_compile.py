"""The backend of ``torch.compile`` that is called ``subgraphkit``.

``torch.compile(module, backend="subgraphkit", options={"backends": "openvino,numpy"})`` hands each
graph that PyTorch captures to ``torch.onnx``, and the model it makes to a session. PyTorch itself
runs the code that it cannot capture, between the graphs. Parameters and buffers become weights of
the model; the graph is compiled again after they were changed or exchanged. Dimensions that PyTorch
calls dynamic stay open. If that fails, each set of sizes has its own model.

This module alone imports PyTorch.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from torch._guards import tracing
from torch.export import Dim
from torch.nn import functional

from subgraphkit.errors import CallerError, InputError, UnsupportedModelError, describe_exception
from subgraphkit.placing import InferenceSession


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Compile a graph that PyTorch captured.

    Returns:
        A function that computes the same. Tensors go in and out without copies where the memory
        is the host's. Gradients cannot be computed through it; to try raises an error.

    Raises:
        UnsupportedModelError: PyTorch cannot export the graph, or it changes its inputs (SGK240).
        SubgraphkitError: As ``subgraphkit.InferenceSession``.
    """
    settings = dict(options or {})
    backend = settings.pop("backends", None)
    if (layout := _Layout.of(gm)) is None:
        # Nothing is computed, or sizes are, which is PyTorch's affair.
        eager: Callable[..., Any] = gm.forward
        return eager
    compiled = _Compiled(gm.eval(), layout, {"backend": backend, **settings})
    compiled.prepare(example_inputs)
    return compiled


@dataclass(frozen=True)
class _Layout:
    """Where the arguments of a graph and its results are.

    Attributes:
        sizes: Places of sizes. Each has the tensor, counted among those fed, and the axis of this
            size; None if no tensor has it.
        open_axes: For each tensor fed, the axes whose sizes may change.
        results: For each result, its place among those computed, or its value.
    """

    fixed: tuple[int, ...]
    fed: tuple[int, ...]
    sizes: Mapping[int, tuple[int, int] | None]
    open_axes: tuple[tuple[int, ...], ...]
    results: tuple[tuple[bool, Any], ...]

    @classmethod
    def of(cls, gm: torch.fx.GraphModule) -> "_Layout | None":
        """Read the layout of a graph; None if it is not for us."""
        inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        values = [node.meta.get("example_value") for node in inputs]
        is_tensor = [isinstance(value, torch.Tensor) for value in values]
        fixed = tuple(i for i, node in enumerate(inputs) if is_tensor[i] and _is_fixed(node))
        fed = tuple(i for i, tensor in enumerate(is_tensor) if tensor and i not in fixed)
        shapes = [tuple(values[i].shape) for i in fed]
        sizes = {i: _axis_of(values[i], shapes) for i, tensor in enumerate(is_tensor) if not tensor}
        open_axes = tuple(
            tuple(axis for axis, dim in enumerate(shape) if isinstance(dim, torch.SymInt))
            for shape in shapes
        )
        results = _results(gm, inputs)
        computes = results is not None and any(computed for computed, _ in results)
        return cls(fixed, fed, sizes, open_axes, results) if computes and results else None


def _is_fixed(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    said = node.meta.get("tensor_dict") or {}
    return isinstance(value, torch.nn.Parameter) or "_dynamo_static_input_type" in said


def _axis_of(size: Any, shapes: Sequence[tuple[Any, ...]]) -> tuple[int, int] | None:
    if isinstance(size, torch.SymInt):
        for place, shape in enumerate(shapes):
            for axis, dim in enumerate(shape):
                if isinstance(dim, torch.SymInt) and dim.node.expr == size.node.expr:
                    return place, axis
    return None


def _results(
    gm: torch.fx.GraphModule, inputs: Sequence[torch.fx.Node]
) -> tuple[tuple[bool, Any], ...] | None:
    """Tell tensors that are computed from constants; None if sizes are computed."""
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    found: list[tuple[bool, Any]] = []
    computed = 0
    for one in output.args[0]:
        if not isinstance(one, torch.fx.Node):
            found.append((False, one))
        elif isinstance(one.meta.get("example_value"), torch.Tensor) and one not in inputs:
            found.append((True, computed))
            computed += 1
        else:
            return None
    return tuple(found)


class _Whole(torch.nn.Module):
    """A captured graph with its parameters inside and its sizes read from its tensors."""

    def __init__(
        self, gm: torch.fx.GraphModule, layout: _Layout, arguments: Sequence[Any], *, is_open: bool
    ) -> None:
        super().__init__()
        self.gm = gm
        self._layout = layout
        self._count = len(arguments)
        self._constants = {
            place: arguments[place]
            for place, axis in layout.sizes.items()
            if axis is None or not is_open
        }
        for place in layout.fixed:
            self.register_buffer(f"fixed_{place}", arguments[place].detach(), persistent=True)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layout = self._layout
        arguments: list[Any] = [None] * self._count
        for place in layout.fixed:
            arguments[place] = getattr(self, f"fixed_{place}")
        for place, tensor in zip(layout.fed, tensors, strict=True):
            arguments[place] = tensor
        for place, axis in layout.sizes.items():
            if place in self._constants:
                arguments[place] = self._constants[place]
            elif axis is not None:
                arguments[place] = tensors[axis[0]].shape[axis[1]]
        results = self.gm(*arguments)
        pairs = zip(results, layout.results, strict=True)
        return tuple(result for result, (computed, _) in pairs if computed)


class _NoGradient(torch.autograd.Function):
    """Carries results of which no gradient can be computed."""

    @staticmethod
    def forward(_: Any, run: Callable[[], Any], *__: torch.Tensor) -> Any:
        return run()

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:
        raise CallerError(
            "SGK241",
            "no gradient can be computed through a graph that subgraphkit runs",
            hint="Train without torch.compile or with another backend, and compile for inference.",
        )


@dataclass(eq=False)
class _Compiled:
    """A graph with its sessions: one for open sizes, or one for each set of them."""

    gm: torch.fx.GraphModule
    layout: _Layout
    settings: Mapping[str, Any]
    sessions: dict[tuple[int, ...] | None, InferenceSession] = field(default_factory=dict)
    weights: list[tuple[torch.Tensor, int]] = field(default_factory=list)

    def prepare(self, arguments: Sequence[Any]) -> None:
        """Make the session for the example inputs of the captured graph."""
        self.weights = [(arguments[i], arguments[i]._version) for i in self.layout.fixed]  # noqa: SLF001 (how PyTorch counts changes)
        if not any(self.layout.open_axes):
            self._add((), arguments)
            return
        try:
            if None not in self.layout.sizes.values():
                self._add(None, arguments)
        except UnsupportedModelError as error:
            warnings.warn(f"{error.message}; a model is made for each set of sizes", stacklevel=2)

    def __call__(self, *arguments: Any) -> Any:
        if self._are_weights_changed(arguments):
            self.sessions.clear()
            self.prepare(arguments)
        tensors = [arguments[place] for place in self.layout.fed]
        if not torch.is_grad_enabled() or not any(
            isinstance(one, torch.Tensor) and one.requires_grad for one in arguments
        ):
            return self._run(arguments, tensors)
        given = [one for one in arguments if isinstance(one, torch.Tensor)]
        return _NoGradient.apply(lambda: self._run(arguments, tensors), *given)

    def _are_weights_changed(self, arguments: Sequence[Any]) -> bool:
        for place, (weight, version) in zip(self.layout.fixed, self.weights, strict=True):
            if arguments[place] is not weight or weight._version != version:  # noqa: SLF001 (as above)
                return True
        return False

    def _run(self, arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        feeds = [_array(tensor) for tensor in tensors]
        sizes = tuple(int(arguments[place]) for place in self.layout.sizes)
        session = self.sessions.get(None) or self._session_for(sizes, arguments)
        try:
            found = _run_session(session, feeds)
        except InputError as error:
            if error.code != "SGK140" or session is not self.sessions.get(None):
                raise
            # The exporter has found that a size left open cannot change.
            del self.sessions[None]
            found = _run_session(self._session_for(sizes, arguments), feeds)
        results = [_tensor(one) for one in found]
        return tuple(results[which] if made else which for made, which in self.layout.results)

    def _session_for(self, sizes: tuple[int, ...], arguments: Sequence[Any]) -> InferenceSession:
        if sizes not in self.sessions:
            self._add(sizes, arguments)
        return self.sessions[sizes]

    def _add(self, sizes: tuple[int, ...] | None, arguments: Sequence[Any]) -> None:
        program = _export(self.gm, self.layout, arguments, is_open=sizes is None)
        self.sessions[sizes] = InferenceSession(program, **self.settings)


def _export(
    gm: torch.fx.GraphModule, layout: _Layout, arguments: Sequence[Any], *, is_open: bool
) -> Any:
    """Export a graph."""
    whole = _Whole(gm, layout, arguments, is_open=is_open).eval()
    tensors = tuple(arguments[place].detach() for place in layout.fed)
    shapes = [dict.fromkeys(axes, Dim.AUTO) for axes in layout.open_axes]
    try:
        # Facts on sizes from the export must not become guards of the captured graph.
        with warnings.catch_warnings(), torch.no_grad(), tracing(None):
            warnings.simplefilter("ignore")
            exported = torch.export.export(
                whole, tensors, dynamic_shapes={"tensors": tuple(shapes)} if is_open else None
            )
            if any(node.target in _FAST_PATHS for node in exported.graph.nodes):
                exported = exported.run_decompositions(_FAST_PATHS)
            changed = _changed_in_place(exported)
            if not changed:
                return torch.onnx.export(exported, dynamo=True, verbose=False)
    except Exception as error:
        raise UnsupportedModelError(
            "SGK240",
            f"a graph of {len(gm.graph.nodes)} nodes cannot be exported by torch.onnx: "
            f"{describe_exception(error)}",
            hint="Keep the part that PyTorch names out of the graph, with torch.compiler.disable.",
        ) from error
    raise UnsupportedModelError(
        "SGK240",
        f"a graph changes {len(changed)} of its inputs or buffers in place, which ONNX cannot say",
        hint="Compile the module in eval mode, or keep that part out with torch.compiler.disable.",
    )


def _attend(
    x: torch.Tensor, count: int, weights: Sequence[Any], mask: Any = None, kind: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the attention of a sequence to itself; masks are those of the fast path."""
    inner, inner_bias, outer, outer_bias = weights
    parts = functional.linear(x, inner, inner_bias).chunk(3, -1)
    query, key, value = (one.unflatten(-1, (count, -1)).transpose(1, 2) for one in parts)
    scores = query @ key.transpose(-2, -1) / math.sqrt(x.shape[-1] // count)
    if mask is not None:
        places = {0: (None, None), 1: (slice(None), None, None)}.get(kind or 0, ())
        scores = scores.masked_fill(mask.to(torch.bool)[places], -math.inf)
    shares = scores.softmax(-1)
    mixed = (shares @ value).transpose(1, 2).flatten(2)
    return functional.linear(mixed, outer, outer_bias), shares


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001 (the same as the query on this path)
    value: torch.Tensor,  # noqa: ARG001 (likewise)
    width: int,  # noqa: ARG001 (known from the query)
    count: int,
    *more: Any,
    **named: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    weights = more[:4]
    names = ("mask", "need_weights", "average_attn_weights", "mask_type")
    told = dict(zip(names, more[4:], strict=False)) | named
    result, shares = _attend(query, count, weights, told.get("mask"), told.get("mask_type"))
    if told.get("average_attn_weights", True):
        shares = shares.mean(1)
    return result, shares if told.get("need_weights", True) else None


def _encoder_layer(x: torch.Tensor, width: int, count: int, *more: Any) -> torch.Tensor:
    """Compute a layer of a transformer's encoder, of which the fast path makes one operator."""
    (gelu, norm_first, epsilon), mask = more[4:7], more[15:]
    first, second = more[7:9], more[9:11]
    activation = functional.gelu if gelu else functional.relu

    def norm(value: torch.Tensor, pair: Sequence[torch.Tensor]) -> torch.Tensor:
        return functional.layer_norm(value, (width,), *pair, epsilon)

    def feed(value: torch.Tensor) -> torch.Tensor:
        return functional.linear(activation(functional.linear(value, *more[11:13])), *more[13:15])

    if norm_first:
        x = x + _attend(norm(x, first), count, more[:4], *mask)[0]
        return x + feed(norm(x, second))
    x = norm(x + _attend(x, count, more[:4], *mask)[0], first)
    return norm(x + feed(x), second)


_FAST_PATHS: Final = {
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,  # noqa: SLF001 (its name)
    torch.ops.aten._native_multi_head_attention.default: _attention,  # noqa: SLF001 (its name)
}
"""Operators that PyTorch makes of attention where no gradient is wanted; ONNX has none of them."""


def _changed_in_place(exported: Any) -> dict[str, str]:
    """Return the inputs and buffers that a graph writes into; known once it is written without."""
    targets = [getattr(node.target, "_schema", None) for node in exported.graph.nodes]
    if any(schema is not None and schema.is_mutable for schema in targets):
        exported = exported.run_decompositions({})
    signature = exported.graph_signature
    return {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}


def _run_session(session: InferenceSession, feeds: Sequence[Any]) -> list[Any]:
    names = session.graph.inputs
    return session.run(None, dict(zip(names, feeds, strict=True)))


def _array(tensor: torch.Tensor) -> Any:
    """Return the memory of a tensor as an array; a tensor of a device is fed as it is."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.device.type != "cpu":
        return tensor
    if tensor.dtype == torch.bfloat16:
        return np.from_dlpack(tensor.view(torch.int16)).view(ml_dtypes.bfloat16)
    return np.from_dlpack(tensor)


def _tensor(array: Any) -> torch.Tensor:
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            array = array.copy()
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(array)
