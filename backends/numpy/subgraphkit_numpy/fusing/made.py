"""The common parts of the kernels that groups of nodes become."""

from collections.abc import Sequence
from dataclasses import dataclass

from subgraphkit_numpy.fusing.spaces import Shape
from subgraphkit_numpy.fusing.tails import Tail
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Site

__all__ = ["MadeGroup", "made", "seen", "shape_of"]


@dataclass(frozen=True, slots=True)
class MadeGroup:
    """The kernel of a group.

    Attributes:
        kernel: The kernel; it makes one output.
        operands: Names of the values it takes.
        reads: Constants it was made from.
    """

    kernel: Kernel
    operands: tuple[str, ...]
    reads: frozenset[str]


def made(kernel: Kernel, site: Site, places: Sequence[int], tail: Tail | None) -> MadeGroup:
    """Put together a kernel that takes inputs of its anchor and then the operands of its tail."""
    names = [site.node.inputs[place] for place in places]
    reads = frozenset(site.reads)
    if tail is not None:
        names += tail.operands
        reads |= tail.reads
    return MadeGroup(kernel, tuple(names), reads)


def seen(operands: Sequence[Array], views: Sequence[Shape]) -> list[Array]:
    """Return operands with their axes merged as a tail wants them."""
    return [value.reshape(view) for value, view in zip(operands, views, strict=True)]


def shape_of(site: Site, index: int | None = None) -> Shape:
    """Return the shape of an input, or of the output; the menu lets nothing unknown in."""
    shape = site.output_shape() if index is None else site.shape(index)
    assert shape is not None  # noqa: S101 (see above)
    return shape
