"""The operator implementations of ``onnx.reference``, bound once and called directly.

They are right for nearly all of ONNX and slow for some of it; they serve the operators that have
no kernel here.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from math import prod
from typing import Any, Final

import numpy as np
from onnx import defs

from subgraphkit.backend import Refusal, Unsupported
from subgraphkit_numpy.kernels.microsoft import MICROSOFT, is_foreign
from subgraphkit_numpy.kernels.registry import Implementation, Kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import pad_values

_MODULES: Final = {
    "": "onnx.reference.ops._op_list",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml._op_list",
    "ai.onnx.preview": "onnx.reference.ops.aionnx_preview._op_list",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training._op_list",
}
_NO_DOMAIN: Final = "no implementation of the domain"
_NOT_HERE: Final = {
    MICROSOFT: "no implementation",
    f"{MICROSOFT}.nchwc": (
        "its layout is that of the processor the model was optimised on; "
        "optimise with ORT_ENABLE_EXTENDED for any"
    ),
}
"""By domain of ONNX Runtime's, why an operator of it is refused."""

_RANDOM: Final = frozenset({"Bernoulli", "Dropout", "Multinomial"})


@lru_cache(maxsize=1024)
def reference_entry(domain: str, op_type: str, opset: int) -> Implementation | Refusal:
    """Return an entry that runs an operator on ``onnx.reference``, or why there is none.

    The operator is not a ``missing_operator``.
    """
    if (implementation := _load(domain, op_type, opset)) is None:
        text = f"operator {qualified_name(domain, op_type)} has no implementation for opset {opset}"
        return Refusal("op_unsupported", text)

    def factory(site: Site) -> Kernel:
        # some of them multiply matrices
        return Kernel(_bind(site, implementation), shares=True)

    return Implementation(factory, aliases=True, is_random=op_type in _RANDOM)


_INSTEAD: Final = {"Scatter": "ScatterElements", "Upsample": "Resize"}
"""By operators that were withdrawn, those that took their place."""


@lru_cache(maxsize=1024)
def missing_operator(domain: str, op_type: str, opset: int) -> Refusal | None:
    """Return a refusal if neither ONNX has such an operator in an opset nor we have, else None."""
    label = qualified_name(domain, op_type)
    if is_foreign(domain, op_type):
        return None
    if domain not in _MODULES:
        return Refusal("op_unsupported", f"operator {label}: {_NOT_HERE.get(domain, _NO_DOMAIN)}")
    try:
        schema = defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        if defs.has(op_type, domain):
            return Refusal("opset", f"operator {label} does not exist in opset {opset}")
        return Refusal("op_unsupported", f"operator {label} is unknown")
    if schema.deprecated:
        instead = f", or with {_INSTEAD[op_type]} in its place" if op_type in _INSTEAD else ""
        return Refusal(
            "opset",
            f"operator {label} is withdrawn in opset {opset}; export the model for one below "
            f"{schema.since_version}{instead}",
        )
    return None


def qualified_name(domain: str, op_type: str) -> str:
    """Return an operator with its domain, if that is not the default one."""
    return f"{domain}::{op_type}" if domain else op_type


def _load(domain: str, op_type: str, opset: int) -> type[Any] | None:
    """Return the class that implements an operator, or None."""
    module = import_module(_MODULES[domain])
    load_op: Callable[..., Any] = module.load_op
    try:
        loaded = load_op(domain, op_type, opset)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError):
        return None
    return loaded if isinstance(loaded, type) else None


def _bind(site: Site, implementation: type[Any]) -> Callable[..., Any]:
    node = site.node
    assert node.graph.writer is not None  # noqa: S101 (graphs that are run were read from ONNX)
    proto = node.graph.writer.node_proto(node)
    parameters = {
        "log": lambda *_: None,
        "opsets": dict(node.graph.opset_imports),
        "verbose": 0,
        "new_ops": None,
        "evaluator_cls": import_module("onnx.reference").ReferenceEvaluator,
    }
    operator = implementation(proto, parameters)
    if node.op_type == "TfIdfVectorizer":  # which reads weights by place of output, not by n-gram
        weights = dict(zip(operator.ngram_indexes, operator.weights or (), strict=False))
        operator.weights_ = [weights.get(at, 0.0) for at in range(max(weights, default=-1) + 1)]
    attributes = {name: getattr(operator, name) for name in operator.attributes_names_}
    if attributes.get("post_transform", "NONE") != "NONE" and node.op_type.endswith("Regressor"):
        raise Unsupported(f"{node.label} transforms what it adds up", code="attribute")
    compute = operator._run  # noqa: SLF001 (``run`` looks the attributes up again at every call)
    if mend := _MENDINGS.get(node.op_type):
        compute = partial(mend, compute)
    dtypes = [site.output_dtype(index) for index in range(site.output_count)]
    if len(dtypes) == 1:
        dtype = dtypes[0]
        return lambda *inputs: _fix(compute(*inputs, **attributes)[0], dtype)
    return lambda *inputs: tuple(
        map(_fix, pad_values(compute(*inputs, **attributes), len(dtypes)), dtypes)
    )


_Run = Callable[..., Any]


def _resize(run: _Run, x: Any, roi: Any, scales: Any = None, sizes: Any = None, **how: Any) -> Any:
    """Count axes from the front, and let the last element lie on the end of a region.

    How many axes there are may be known at a run alone. By a last digit, it would lie behind it. Of
    nothing, one element is resized, and cut off.
    """
    if not x.size:
        made = _resize(run, np.zeros(np.maximum(x.shape, 1), x.dtype), roi, scales, sizes, **how)
        return (made[0][tuple(slice(size and None) for size in x.shape)],)
    if how.get("axes"):
        how["axes"] = [axis % x.ndim for axis in how["axes"]]
    crops = how.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops and sizes is not None and how.get("keep_aspect_ratio_policy") in {None, "stretch"}:
        lengths = np.maximum([x.shape[axis] for axis in how.get("axes") or range(x.ndim)], 1)
        scales, wanted, sizes = sizes / lengths, sizes, None
        scales = np.where(scales * lengths < wanted, np.nextafter(scales, np.inf), scales)
    return run(x, roi, scales, sizes, **how)


def _lose(run: _Run, x: Any, target: Any, *weight: Any, **how: Any) -> tuple[Any, ...]:
    """Let one axis follow the classes, of a size that need not be found by dividing by nothing."""
    size = prod(target.shape[1:])
    rows = x.reshape(*x.shape[:2], size), target.reshape(len(target), size)
    shapes = (target.shape if how["reduction"] == "none" else ()), x.shape
    return tuple(one.reshape(to) for one, to in zip(run(*rows, *weight, **how), shapes))  # noqa: B905 (the last may not be wanted)


def _attend(run: _Run, *inputs: Any, **how: Any) -> Any:
    """Take a mask of integers as floats, since it is to hold infinities."""
    if len(inputs) > _MASK and inputs[_MASK] is not None and inputs[_MASK].dtype.kind in "iu":
        inputs = (*inputs[:_MASK], inputs[_MASK].astype(inputs[0].dtype), *inputs[_MASK + 1 :])
    return run(*inputs, **how)


def _order(run: _Run, x: Any, *count: Any, **how: Any) -> Any:
    """Refuse a negative number of elements, which slicing would take for one from the end."""
    if count and count[0].item() < 0:
        raise ValueError(f"k is {count[0].item()}, expected 0 or more")
    return run(x, *count, **how)


def _encode(run: _Run, x: Any, **how: Any) -> Any:
    """Take texts and numbers of any number of axes."""
    return tuple(y.reshape(*x.shape, y.shape[-1]) for y in run(x.reshape(-1), **how))


def _normalise(run: _Run, x: Any, **how: Any) -> Any:
    """Take floats: of integers, square roots are written back in place."""
    return run(x.astype(np.float64) if x.dtype.kind in "iu" else x, **how)


def _classify(run: _Run, x: Any, **how: Any) -> Any:
    """Choose by the scores before they are transformed, which makes large ones equal."""
    return run(x, **{**how, "post_transform": "NONE"})[0], run(x, **how)[1]


_MASK: Final = 3
_MENDINGS: Final[Mapping[str, Callable[..., Any]]] = {
    # The axis is [1] in PyTorch.
    **dict.fromkeys(("CumProd", "CumSum"), lambda run, x, at, **to: run(x, at.reshape(()), **to)),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _lose),
    "Attention": _attend, "Normalizer": _normalise, "OneHotEncoder": _encode, "TopK": _order,
    "LinearClassifier": _classify, "Resize": _resize,
}  # fmt: skip
"""By operator, what calls its implementation, the first argument, otherwise."""


def _fix(value: Any, dtype: np.dtype[Any] | None) -> Any:
    """Make an array of what an implementation returned, of the declared element type."""
    if value is None or isinstance(value, list | dict):
        return value
    if hasattr(value, "todense"):
        value = value.todense()
    array = np.asarray(value)
    if array.dtype.kind in "UST":
        return array.astype(object)
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def reference_kernel(site: Site) -> Callable[..., Any]:
    """Return a kernel on ``onnx.reference``, for rare cases; Unsupported if there is none."""
    node = site.node
    entry = reference_entry(node.domain, node.op_type, node.opset)
    if not isinstance(entry, Implementation):
        raise Unsupported(f"{node.label}: {entry.text}", code=entry.code)
    made = entry.factory(site)
    assert isinstance(made, Kernel)  # noqa: S101 (see ``reference_entry``)
    return made.call
