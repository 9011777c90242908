"""Registering converters, which are checked first."""

from collections.abc import Callable, Iterable

from subgraphkit_tensorrt.lowering.registry import Converter, Lowering, add
from subgraphkit_tensorrt.lowering.samples import Sample

__all__ = ["converter"]


def converter(
    op_type: str, *, domain: str = "", since: int = 1, samples: Iterable[Sample] = ()
) -> Callable[[Lowering], Lowering]:
    """Register a function as the converter of an operator, after checking it on samples.

    Args:
        op_type: Name of the operator.
        domain: Domain of the operator; empty for ONNX's own.
        since: The first version of the operator set it is for; a node is given to the newest
            converter that is not newer than its operator set.
        samples: Nodes and arrays to check it on. For an operator of ONNX, what is expected follows
            from ``onnx.reference``, and a float32 sample from the schema if none is given.

    Returns:
        The decorator; it returns the function as it is.

    Raises:
        BackendError: It computes something else than the operator, makes no valid model, or cannot
            be checked for want of samples (SGK166).

    Thread-safety: may be called from any thread; sessions bound before do not see it.
    """
    from subgraphkit_tensorrt.lowering.proving import (  # noqa: PLC0415 (onnx.reference is slow)
        prove,
    )

    def register(lower: Lowering) -> Lowering:
        add(prove(Converter(op_type, domain, since, lower, tuple(samples))))
        return lower

    return register
