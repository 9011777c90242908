"""Attention as ONNX Runtime has it: with projection, with cached keys, with shared heads, rotated.

Heads are computed in float32 as arrays of (batch, heads, positions, size of a head).

Source: operators of the domain ``com.microsoft``. Where ONNX Runtime's documentation is silent,
what it computes on a CPU holds.
"""

from math import sqrt
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels import rows
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import pad_values, widen

LOWEST: Final = np.finfo(np.float32).min
"""The score of what is not seen."""

_FILTER: Final = -10000.0


def split_heads(x: Array, heads: int) -> Array:
    """Return (batch, positions, heads * size) as (batch, heads, positions, size)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def merge_heads(x: Array) -> Array:
    """Return (batch, heads, positions, size) as (batch, positions, heads * size)."""
    batch, heads, positions, size = x.shape
    return x.swapaxes(1, 2).reshape(batch, positions, heads * size)


def _attention_of(
    q: Array, k: Array, v: Array, bias: Array | None, scale: float
) -> tuple[Array, Array]:
    """Return what queries attend to, heads merged, and their scores before the softmax."""
    scores = scores_of(q, k, scale)
    if bias is not None:
        scores = scores + bias
    return merge_heads(multiply(rows.in_rows(rows.softmax, scores, scores.shape[-1]), v)), scores


def scores_of(q: Array, k: Array, scale: float) -> Array:
    """Return scaled products of queries and keys."""
    factor = np.float32(scale or 1 / sqrt(q.shape[-1]))
    return np.asarray(multiply(np.multiply(q, factor), k.swapaxes(-1, -2)))


# -- masks -----------------------------------------------------------------------------------------


def _addend(site: Site, mask: Array | None, bias: Array | None, q: Array, k: Array) -> Array | None:
    """Return what is added to scores, for a mask of any form and a bias; None for nothing."""
    batch, queries, keys = len(q), q.shape[2], k.shape[2]
    total = None
    if mask is not None:
        seen = _seen_keys(mask, batch, queries, keys)
        deep = np.float32(site.attribute("mask_filter_value", _FILTER))
        total = np.where(seen, np.float32(0), deep)
    if site.attribute("unidirectional", 0):
        later = np.arange(keys) > np.arange(queries)[:, None] + max(keys - queries, 0)
        total = np.where(later, LOWEST, np.float32(0) if total is None else total)
    if bias is None:
        return total
    return widen(bias) if total is None else total + widen(bias)


def _seen_keys(mask: Array, batch: int, queries: int, keys: int) -> Array:
    """Return whether queries see keys, in a shape that broadcasts to the scores."""
    if mask.ndim == 1:
        place = np.arange(keys)
        seen = place < mask[:batch, None]
        if mask.size == 2 * batch:
            seen &= place >= mask[batch:, None]
        return seen[:, None, None]
    seen = mask > 0
    if mask.ndim == 4:  # noqa: PLR2004 (a mask of the longest sequence)
        return seen[:, :, keys - queries : keys, :keys]
    return seen[:, None, None] if mask.ndim == 2 else seen[:, None]  # noqa: PLR2004 (one for all)


# -- operators -------------------------------------------------------------------------------------


@kernel("Attention", domain=MICROSOFT)
def attention(site: Site) -> Made:
    """Project to queries, keys and values, and attend."""

    def compute(
        x: Array, weights: Array, shift: Array | None = None, mask: Array | None = None,
        past: Array | None = None, bias: Array | None = None,
    ) -> Any:  # fmt: skip
        projected = np.asarray(multiply(widen(x), widen(weights)))
        if shift is not None:
            np.add(projected, widen(shift), projected)
        return attend_projected(site, projected, x.dtype, mask, past, bias)

    return Kernel(compute, shares=True)


def attend_projected(
    site: Site, projected: Array, dtype: Any, mask: Array | None, past: Array | None,
    bias: Array | None = None,
) -> Any:  # fmt: skip
    """Attend to projected queries, keys and values, which lie beside each other."""
    heads, sizes = site.attribute("num_heads"), site.ints("qkv_hidden_sizes")
    cuts = (1, 2) if sizes is None else (sizes[0], sizes[0] + sizes[1])
    if sizes is None:
        cuts = tuple(cut * (projected.shape[-1] // 3) for cut in cuts)
    q, k, v = (split_heads(x, heads) for x in np.split(projected, cuts, -1))
    if past is not None:
        k, v = (np.concatenate((widen(a), b), 2) for a, b in zip(past, (k, v), strict=True))
    added = _addend(site, mask, bias, q, k)
    y = _attention_of(q, k, v, added, site.attribute("scale", 0.0))[0].astype(dtype, copy=False)
    return y if site.output_count == 1 else (y, np.stack((k, v)).astype(dtype, copy=False))


@kernel("MultiHeadAttention", domain=MICROSOFT, aliases=True)
def multi_head_attention(site: Site) -> Made:
    """Attend to keys and values, which may come packed, with heads split, and after cached ones."""
    heads, scale = site.attribute("num_heads"), site.attribute("scale", 0.0)
    count = site.output_count

    def compute(*given: Any) -> Any:
        query, key, value, shift, mask, bias, past_key, past_value = pad_values(given, 8)
        parts = _split_inputs(query, key, value, heads)
        q, k, v = (widen(part) for part in _add_shift(parts, shift, key))
        if past_key is not None and past_value is not None:
            k = np.concatenate((widen(past_key), k), 2)
            v = np.concatenate((widen(past_value), v), 2)
        y, scores = _attention_of(q, k, v, _addend(site, mask, bias, q, k), scale)
        found = (y, k, v, scores)[:count]
        results = tuple(result.astype(query.dtype, copy=False) for result in found)
        return results if count > 1 else results[0]

    return Kernel(compute, shares=True)


def _split_inputs(
    query: Array, key: Array | None, value: Array | None, heads: int
) -> tuple[Array, Array, Array]:
    """Return queries, keys and values with heads split, from any of the forms they come in."""
    if key is None:
        q, k, v = (query[:, :, :, place].swapaxes(1, 2) for place in range(3))
        return q, k, v
    q = split_heads(query, heads)
    if value is None:
        return q, key[:, :, :, 0].swapaxes(1, 2), key[:, :, :, 1].swapaxes(1, 2)
    if key.ndim == 4:  # noqa: PLR2004 (heads are split already)
        return q, key, value
    return q, split_heads(key, heads), split_heads(value, heads)


def _add_shift(
    parts: tuple[Array, Array, Array], shift: Array | None, key: Array | None
) -> tuple[Array, ...]:
    """Add the bias of the projection; keys and values that were split before have theirs."""
    if shift is None:
        return parts
    sizes = [part.shape[1] * part.shape[3] for part in parts]
    shifts = np.split(shift, (sizes[0], sizes[0] + sizes[1]))
    count = 1 if key is not None and key.ndim == 4 else 3  # noqa: PLR2004 (heads are split)
    added = [
        np.add(widen(part), widen(one).reshape(1, part.shape[1], 1, -1))
        for part, one in zip(parts[:count], shifts, strict=False)
    ]
    return (*added, *parts[count:])
