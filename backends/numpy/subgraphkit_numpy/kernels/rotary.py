"""Positions as rotations of pairs, and attention whose heads share keys that are cached.

Source: operators ``RotaryEmbedding`` and ``GroupQueryAttention`` of the domain ``com.microsoft``.
"""

from typing import Any

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels import rows
from subgraphkit_numpy.kernels.attention import LOWEST, merge_heads, scores_of, split_heads
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import pad_values, widen


def _rotate_pairs(x: Array, cos: Array, sin: Array, places: Array, *, interleaved: bool) -> Array:
    """Rotate pairs of the first elements of every head by the angles of its position."""
    if places.size and not (places.min() >= 0 and places.max() < len(cos)):
        raise ValueError(f"a position is outside the table of {len(cos)} rows")
    cosines, sines = (widen(table)[places][:, None] for table in (cos, sin))
    half = cos.shape[1]
    y = widen(x).copy()
    first, second = slice(0, half), slice(half, 2 * half)
    if interleaved:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    a, b = widen(x)[..., first], widen(x)[..., second]
    y[..., first] = a * cosines - b * sines
    y[..., second] = a * sines + b * cosines
    return y


@kernel("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(site: Site) -> Made:
    """Rotate the heads of (batch, positions, all heads) or (batch, heads, positions, size)."""
    heads, interleaved = site.attribute("num_heads", 0), bool(site.attribute("interleaved", 0))

    def compute(x: Array, position: Array, cos: Array, sin: Array) -> Array:
        is_split = x.ndim == 4  # noqa: PLR2004 (heads have an axis)
        split = x if is_split else split_heads(x, (heads or x.shape[-1] // (2 * cos.shape[1])))
        places = position
        if position.ndim == 1:
            places = position.reshape(1, 1) + np.arange(split.shape[2])
        y = _rotate_pairs(split, cos, sin, places, interleaved=interleaved)
        return (y if is_split else merge_heads(y)).astype(x.dtype, copy=False)

    return compute


@kernel("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(site: Site) -> Made:
    """Attend with several heads of queries to each head of keys and values, which are cached."""
    return Kernel(_GroupQuery(site), shares=True)


class _GroupQuery:
    """A node of ``GroupQueryAttention``.

    Thread-safety: holds nothing that changes.
    """

    def __init__(self, site: Site) -> None:
        self.heads, self.shared = site.attribute("num_heads"), site.attribute("kv_num_heads")
        self.scale = site.attribute("scale", 0.0)
        self.softcap = site.attribute("softcap", 0.0)
        self.window = site.attribute("local_window_size", -1)
        self.causal = bool(site.attribute("causal", 1))
        self.rotates = bool(site.attribute("do_rotary", 0))
        self.interleaved = bool(site.attribute("rotary_interleaved", 0))
        self.smooth = site.attribute("smooth_softmax", -1) == 1
        self.shows = site.attribute("qk_output", 0)
        self.count = site.output_count
        if self.window > 0 and not self.causal:
            text = f"{site.node.label} has a local_window_size, which needs causal=1"
            raise Unsupported(text, code="attribute")

    def __call__(self, *given: Any) -> Any:
        """Compute the outputs."""
        query, key, value, past_key, past_value, lengths, longest, *rest = pad_values(given, 12)
        cos, sin, position, bias, sink = rest
        q, k, v = self._split(query, key, value)
        positions, total = q.shape[2], int(longest.item())
        is_prompt = positions == total
        ends = lengths.reshape(-1, 1).astype(np.int64) + 1
        places = (np.zeros_like(ends) if is_prompt else ends - positions) + np.arange(positions)
        if places.size and places.min() < 0:
            raise ValueError(f"seqlens_k {lengths} leave no room for {positions} new positions")
        if self.rotates and cos is not None and sin is not None:
            at = places
            if position is not None:
                at = position.reshape(-1)[0] + np.arange(positions)[None] if is_prompt else position
            q, k = (_rotate_pairs(x, cos, sin, at, interleaved=self.interleaved) for x in (q, k))
        keys = _fill_cache(past_key, k, places, total, query.dtype)
        values = _fill_cache(past_value, v, places, total, query.dtype)
        seen = self._seen_keys(places, ends, total)
        y, shown = self._attention_of(widen(q), widen(keys), widen(values), seen, bias, sink)
        results: tuple[Any, ...] = (y, keys, values, shown)[: self.count]
        results = tuple(None if x is None else x.astype(query.dtype, copy=False) for x in results)
        return results if self.count > 1 else results[0]

    def _split(
        self, query: Array, key: Array | None, value: Array | None
    ) -> tuple[Array, Array, Array]:
        if key is not None and value is not None:
            q = split_heads(query, self.heads)
            return q, split_heads(key, self.shared), split_heads(value, self.shared)
        packed = split_heads(query, self.heads + 2 * self.shared)
        k = packed[:, self.heads : self.heads + self.shared]
        return packed[:, : self.heads], k, packed[:, self.heads + self.shared :]

    def _seen_keys(self, places: Array, ends: Array, total: int) -> Array:
        """Return which keys the queries of every sequence see: (batch, 1, queries, keys)."""
        key = np.arange(total)
        seen = key < ends[:, :, None]
        if self.causal:
            seen = seen & (key <= places[:, :, None])
        if self.window > 0:
            seen = seen & (key > places[:, :, None] - self.window)
        return np.broadcast_to(seen, (*places.shape, total))[:, None]

    def _attention_of(
        self, q: Array, k: Array, v: Array, seen: Array, bias: Array | None, sink: Array | None
    ) -> tuple[Array, Array | None]:
        batch, _, queries, size = q.shape
        total = seen.shape[-1]
        # heads of queries that share keys lie beside each other
        scores = scores_of(q.reshape(batch, self.shared, -1, size), k[:, :, :total], self.scale)
        scores = scores.reshape(batch, self.heads, queries, total)
        if self.softcap > 0:
            scores = np.tanh(scores / np.float32(self.softcap)) * np.float32(self.softcap)
        if bias is not None:
            scores = scores + widen(bias)[..., :total]
        scores = np.where(seen, scores, LOWEST)
        weights = self._weights(scores, sink)
        y = multiply(weights.reshape(batch, self.shared, -1, total), v[:, :, :total])
        shown = (None, np.where(seen, scores, 0), weights)[self.shows]
        return merge_heads(y.reshape(batch, self.heads, queries, -1)), shown

    def _weights(self, scores: Array, sink: Array | None) -> Array:
        """Return the softmax, with the sink of every head among what is summed up."""
        if sink is None and not self.smooth:
            return rows.in_rows(rows.softmax, scores, scores.shape[-1])
        level = np.float32(0) if sink is None else widen(sink).reshape(-1, 1, 1)
        largest = np.maximum(scores.max(-1, keepdims=True), level)
        weights = np.exp(scores - largest)
        return np.asarray(weights / (weights.sum(-1, keepdims=True) + np.exp(level - largest)))


def _fill_cache(past: Array | None, new: Array, places: Array, total: int, dtype: Any) -> Array:
    """Return cached keys or values with new ones at their places, as long as the longest needs.

    What comes after the new ones is 0.
    """
    batch, heads, _, size = new.shape
    known = 0 if past is None else past.shape[2]
    cache = np.zeros((batch, heads, max(known, total), size), dtype)
    if past is not None:
        is_kept = np.arange(known)[:, None] < places[:, :1, None, None]
        np.copyto(cache[:, :, :known], past, where=is_kept)
    for sequence, at in enumerate(places):
        cache[sequence, :, at] = new[sequence].swapaxes(0, 1)
    return cache
