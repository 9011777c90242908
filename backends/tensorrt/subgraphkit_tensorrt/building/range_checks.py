"""Ranges held against a network before the builder sees them.

TensorRT does not check a profile: a wrong name, rank or size is taken, and the build fails later
with words about something else.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.building.profiles import InputRange, shown

__all__ = ["check_names", "check_ranges"]

_LARGEST: Final = 2**31

Dims = tuple[int, ...]


def check_names(ranges: Mapping[str, InputRange], subgraph: Subgraph) -> None:
    """Make sure that there is a range for every input of a subgraph, and no other.

    Raises:
        CompileError: It is not so (SGK169).
    """
    for name in ranges:
        if name not in subgraph.inputs:
            raise _unfit(subgraph.id, f"there is no input {name!r}")
    for name in subgraph.inputs:
        if name not in ranges:
            raise _unfit(subgraph.id, f"input {name!r} has no range")


def check_ranges(
    ranges: Mapping[str, InputRange], network: Any, subgraph: str
) -> dict[str, InputRange]:
    """Hold ranges against the inputs of a network, before the builder sees them.

    Args:
        ranges: A range for every input, see ``check_names``.
        network: The network that was parsed.
        subgraph: Name of the subgraph, for messages.

    Returns:
        What a profile has to say: the ranges of inputs with an open size, and of those that shapes
        are computed from.

    Raises:
        CompileError: They do not fit (SGK169).
    """
    tensors = [network.get_input(place) for place in range(network.num_inputs)]
    needed = {}
    for tensor in tensors:
        shape = tuple(tensor.shape)
        found = ranges[tensor.name]
        _check_one(tensor.name, found, shape, subgraph)
        if -1 not in shape and not tensor.is_shape_tensor:
            continue
        if tensor.is_shape_tensor and found.values is None:
            raise _unfit(
                subgraph,
                f"shapes are computed from the elements of input {tensor.name!r}, whose range is "
                "not known",
                "Give its smallest, usual and largest elements as min_shapes, opt_shapes and "
                "max_shapes, or let the engine be built at the first run.",
            )
        needed[tensor.name] = found
    return needed


def _check_one(name: str, found: InputRange, shape: Dims, subgraph: str) -> None:
    if not len(found.min) == len(found.opt) == len(found.max) == len(shape):
        raise _unfit(
            subgraph,
            f"the range of input {name!r} has {len(found.min)} dimensions, the input {len(shape)}",
        )
    for axis, size in enumerate(shape):
        sizes = (found.min[axis], found.opt[axis], found.max[axis])
        if not 0 <= sizes[0] <= sizes[1] <= sizes[2]:
            raise _unfit(subgraph, f"the range of input {name!r} is {shown(sizes)} at axis {axis}")
        if size not in {-1, sizes[0]} or (size != -1 and sizes[0] != sizes[2]):
            raise _unfit(
                subgraph,
                f"the range of input {name!r} is {shown(sizes)} at axis {axis}, which is {size}",
            )
    if int(np.prod(found.max, dtype=object)) >= _LARGEST:
        raise _unfit(
            subgraph,
            f"the largest shape of input {name!r}, {shown(found.max)}, has {_LARGEST} elements or "
            "more",
            "TensorRT counts elements in 31 bits; give a smaller largest shape.",
        )
    _check_elements(name, found, subgraph)


def _check_elements(name: str, found: InputRange, subgraph: str) -> None:
    if found.values is None:
        return
    rising = all(low <= one <= high for low, one, high in zip(*found.values, strict=False))
    if len({len(one) for one in found.values}) != 1 or not rising:
        raise _unfit(
            subgraph,
            f"the elements of input {name!r} are {', '.join(map(shown, found.values))} (smallest, "
            "usual, largest)",
        )


def _unfit(subgraph: str, problem: str, hint: str = "") -> CompileError:
    return CompileError(
        "SGK169",
        f"a range of shapes does not fit the engine of subgraph {subgraph!r}: {problem}",
        backend="tensorrt",
        subgraph=subgraph,
        hint=hint or "Correct dims, or min_shapes, opt_shapes and max_shapes.",
    )
