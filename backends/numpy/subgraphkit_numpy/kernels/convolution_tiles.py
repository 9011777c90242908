"""The common parts of all convolutions: sizes, and the tiles of an output.

How an output is cut depends on sizes alone, never on the number of threads, and so do the results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.windows import Geometry

Finish = Callable[..., None]
"""``finish(tile, place, *operands)`` continues in place with a finished tile of the output.

``place`` is (image, filters, pixels): an index and two slices of the output seen as an array of
(images, filters, pixels). The tile is the matrix there.
"""

TILE_BYTES: Final = 1 << 20
"""Scratch memory of a tile, and what is finished at once, so that both stay in cache."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The sizes of a convolution, and what follows it."""

    batch: int
    channels: int
    filters: int
    groups: int
    size: tuple[int, ...]
    geometry: Geometry
    dtype: np.dtype[Any]
    finish: Finish | None = None

    @property
    def pixels(self) -> int:
        """Elements of one channel of the output."""
        return prod(self.geometry.out)

    @property
    def taps(self) -> int:
        """Elements of a window in one channel."""
        return prod(self.geometry.kernel)

    @property
    def is_point(self) -> bool:
        """Whether windows are one element, one step apart, without padding."""
        return self.taps == prod(self.geometry.strides) == 1 and not self.geometry.is_padded

    def reach(self, axis: int, count: int) -> int:
        """Return how many elements ``count`` windows read along an axis."""
        geometry = self.geometry
        extent = (geometry.kernel[axis] - 1) * geometry.dilations[axis]
        return (count - 1) * geometry.strides[axis] + extent + 1

    def complete(
        self, tile: "Tile", y: Array, bias: Array | None, operands: Sequence[Array]
    ) -> None:
        """Add the bias to a tile of the output, then do what follows, some filters at a time."""
        width = tile.pixels.stop - tile.pixels.start
        height = max(1, TILE_BYTES // (width * self.dtype.itemsize))
        stop = tile.filters.stop
        for first in range(tile.filters.start, stop, height):
            rows = slice(first, min(first + height, stop))
            band = y[tile.image, rows, tile.pixels]
            if bias is not None:
                np.add(band, bias[rows, None], band)
            if self.finish is not None:
                self.finish(band, (tile.image, rows, tile.pixels), *operands)


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the output: some filters of an image, and pixels or whole rows of them."""

    image: int
    groups: slice
    filters: slice
    rows: slice
    pixels: slice


Work = Callable[..., None]
"""Takes a tile, the input, the output as (images, filters, pixels), and operands of ``Finish``."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles and what computes one of them.

    Attributes:
        shape: The shape in which the input is wanted.
        scratch: Bytes that computing a tile takes beside its operands and its result.
        packed: Bytes of what is made of the weights.
        prepare: Reads the weights; to be called before the first tile is computed.
    """

    tiles: Sequence[Tile]
    work: Work
    shape: tuple[int, ...]
    scratch: int = 0
    packed: int = 0
    prepare: Callable[[], object] = lambda: None
