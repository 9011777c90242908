"""Shapes of tiled results: which axes are cut together, and which operands span them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


def align(shape: Shape, whole: Shape) -> Shape | None:
    """Return a shape with leading ones up to the rank of ``whole``, if it can be spread over it."""
    if len(shape) > len(whole):
        return None
    padded = (1,) * (len(whole) - len(shape)) + shape
    fits = all(dim in {1, full} for dim, full in zip(padded, whole, strict=True))
    return padded if fits else None


@dataclass(frozen=True, slots=True)
class Space:
    """The shape of a result, and how its axes are merged for cutting it into tiles.

    Attributes:
        groups: Which axes are merged to one, in order; together all of them.
    """

    shape: Shape
    groups: tuple[tuple[int, ...], ...]

    @property
    def merged(self) -> Shape:
        """The shape with its axes merged."""
        return tuple(math.prod(self.shape[axis] for axis in group) for group in self.groups)

    def arranged(self, shape: Shape) -> "Space | None":
        """Return the space of an array with the same merged axes, or with rows of one element.

        Returns:
            None if the merged axes differ.
        """
        if align(shape, self.shape) in {self.shape, (*self.shape[:-1], 1)}:
            return self
        if len(self.groups) != 2 or len(self.groups[1]) != 1:  # noqa: PLR2004 (rows and columns)
            return None
        if math.prod(shape[:-1]) != self.merged[0] or shape[-1] not in {self.merged[1], 1}:
            return None
        last = len(shape) - 1
        return Space((*shape[:-1], self.merged[1]), (tuple(range(last)), (last,)))

    def spans(self, shape: Shape) -> tuple[bool, ...] | None:
        """Say which merged axes an operand spans.

        Returns:
            True for axes it runs along, False for those it is repeated along; None if it cannot be
            spread over the space, or spans one merged axis in part.
        """
        padded = align(shape, self.shape)
        if padded is None:
            return None
        spans = []
        for group in self.groups:
            full = {padded[axis] == self.shape[axis] for axis in group if self.shape[axis] > 1}
            if len(full) > 1:
                return None
            spans.append(full == {True})
        return tuple(spans)

    def view(self, shape: Shape) -> Shape | None:
        """Return the shape an operand has with its axes merged, or None if that is not possible."""
        spans = self.spans(shape)
        if spans is None:
            return None
        return tuple(dim if full else 1 for dim, full in zip(self.merged, spans, strict=True))


def grouped_by_use(whole: Shape, operands: Sequence[Shape], *, keep_last: bool) -> Space:
    """Merge as many axes as the operands allow.

    ``keep_last``: Whether the last axis must stay on its own.
    """
    groups: list[list[int]] = []
    # the operands that span the axes merged last; None while those have one element each
    spanning: tuple[bool, ...] | None = None
    for axis, dim in enumerate(whole):
        use = tuple(operand[axis] == dim for operand in operands) if dim > 1 else None
        fits = use is None or spanning is None or use == spanning
        if not groups or not fits or (keep_last and axis == len(whole) - 1):
            groups.append([])
            spanning = None
        groups[-1].append(axis)
        spanning = spanning or use
    return Space(whole, tuple(tuple(group) for group in groups))
