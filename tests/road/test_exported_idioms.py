"""What exporters of networks write again and again, with open sizes, stays in one piece.

A library that takes such a network whole must get it whole, with the same results.
"""

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import parsed

RNG = np.random.default_rng(3)
COMMON = {"none": np.array(0), "one": np.array(1), "from": np.array([0]), "last": np.array([1])}

IDIOMS = {
    "distances that are told apart by their logarithm": (
        """g (float[B,S,2] x) => (float[a,b,2] y)
        <int64 few = {8}, int64 most = {15}, float half = {4.0}, float scale = {2.0}> {
        sizes = Shape(x) count = Gather(sizes, one) at = Range(none, count, one)
        row = Unsqueeze(at, from) column = Unsqueeze(at, last) apart = Sub(row, column)
        far = Abs(apart) real = Cast<to = 1>(far) part = Div(real, half) log = Log(part)
        long = Mul(log, scale) step = Cast<to = 7>(long) more = Add(step, few)
        kept = Min(more, most) is_near = Less(far, few) bucket = Where(is_near, far, kept)
        y = Gather(table, bucket) }""",
        {"table": RNG.standard_normal((16, 2), np.float32)},
        [(2, 9, 2), (1, 1, 2), (1, 20, 2)],
    ),
    "one token for each row, before the others": (
        """g (float[B,S,4] x) => (float[B,4] y)
        <int64[1] keep = {-1}, int64[3] all = {-1, -1, -1}, int64[3] single = {1, 1, 1}> {
        sizes = Shape(x) rows = Slice(sizes, from, last) asked = Concat<axis = 0>(rows, keep, keep)
        is_kept = Equal(asked, all) target = Where(is_kept, single, asked)
        first = Expand(token, target) both = Concat<axis = 1>(first, x) e = Exp(both)
        y = ReduceMean<axes = [1], keepdims = 0>(e) }""",
        {"token": RNG.standard_normal((1, 1, 4), np.float32)},
        [(2, 3, 4), (1, 1, 4), (3, 2, 4)],
    ),
    "padding for as many windows as there are steps": (
        """g (float[1,2,N,6] x) => (float[a,b,c,d] y)
        <float two = {2.0}, float least = {0.0}, int64 axis = {2}, int64[7] rest = {0,0,0,0,0,0,0},
        int64[4] before = {0,0,0,0}, int64[3] behind = {0,0,0}, int64[2] end = {0,0}> {
        sizes = Shape(x) size = Gather(sizes, axis) real = Cast<to = 1>(size) part = Div(real, two)
        steps = Ceil(part) further = Sub(steps, unit) reach = Mul(further, two)
        covered = Add(reach, three) over = Sub(covered, real) pad = Clip(over, least)
        whole = Cast<to = 7>(pad) pads = Unsqueeze(whole, from)
        amounts = Concat<axis = 0>(before, end, pads, from) wide = Pad(x, amounts)
        y = Conv<strides = [2, 1]>(wide, w) }""",
        {
            "w": RNG.standard_normal((3, 2, 3, 3), np.float32),
            "unit": np.float32(1),
            "three": np.float32(3),
        },
        [(1, 2, 7, 6), (1, 2, 8, 6), (1, 2, 3, 6)],
    ),
    "positions stretched to what is fed": (
        """g (float[B,4,H,W] x) => (float[a,b,c,d] y)
        <int64[1] two = {2}, int64[1] end = {4}, int64 deep = {3}, int64[1] some = {-1}> {
        sizes = Shape(x) width = Gather(sizes, deep) channels = Unsqueeze(width, from)
        target = Concat<axis = 0>(last, two, two, some) grid = Reshape(table, target)
        turned = Transpose<perm = [0, 3, 1, 2]>(grid) own = Shape(turned)
        kept = Slice(own, from, two) new = Slice(sizes, two, end)
        asked = Concat<axis = 0>(kept, new)
        y = Resize<mode = "cubic">(turned, , , asked) }""",
        {"table": RNG.standard_normal((1, 4, 4), np.float32)},
        [(1, 4, 5, 6), (2, 4, 2, 2), (1, 4, 7, 3)],
    ),
    "a mask of rows by columns": (
        """g (float[B,S] x, int64[B,S] mask) => (float[a,b,c] y)
        <float low = {-1.0}, int64[1] deep = {2}> {
        row = Unsqueeze(mask, last) column = Unsqueeze(mask, deep) seen = Mul(row, column)
        is_seen = Cast<to = 9>(seen) wide = Unsqueeze(x, last) y = Where(is_seen, wide, low) }""",
        {},
        [(2, 3), (1, 1), (3, 2)],
    ),
    "the two best, added up where they belong": (
        """g (float[N,4] x) => (float[N,4] y) <int64[1] two = {2}, int64[1] some = {-1}> {
        best, place = TopK(x, two) first = Slice(place, from, last, last)
        flat = Reshape(first, some) sizes = Shape(x) rows = Slice(sizes, from, last)
        count = Squeeze(rows) next = Sub(count, one) low = Min(flat, next)
        high = Max(low, none) wide = Unsqueeze(high, last) at = Expand(wide, sizes)
        nothing = ConstantOfShape(sizes)
        y = ScatterElements<axis = 0, reduction = "add">(nothing, at, x) }""",
        {},
        [(6, 4), (1, 4), (3, 4)],
    ),
    "channels from the first on, pooled": (
        """g (float[N,6,H,W] x) => (float[a,b,c,d] y) <int64[1] four = {4}, int64[1] far = {9}> {
        part = Slice(x, from, four, last) all = Slice(part, from, far, from) r = Relu(all)
        p = GlobalAveragePool(r) m = ReduceMax<axes = [2, 3]>(r) y = Add(p, m) }""",
        {},
        [(2, 6, 3, 5), (1, 6, 1, 1), (3, 6, 4, 4)],
    ),
    "a causal convolution of far steps": (
        """g (float[1,2,N] x) => (float[1,2,M] y) <int64[6] p = {0, 0, 64, 0, 0, 0}> {
        a = Pad(x, p) y = Conv<dilations = [64], kernel_shape = [2]>(a, w) }""",
        {"w": RNG.standard_normal((2, 2, 2), np.float32)},
        [(1, 2, 100), (1, 2, 65), (1, 2, 300)],
    ),
}


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("idiom", IDIOMS)
def test_what_exporters_write_stays_in_one_piece(idiom, backend):
    pytest.importorskip(f"subgraphkit_{backend}")
    text, weights, sizes = IDIOMS[idiom]
    model = parsed(text, 17, **COMMON, **weights)
    with sk.InferenceSession(model, backend) as opened, sk.InferenceSession(model, "numpy") as own:
        assert {one.backend for one in opened.partitioning.subgraphs} == {backend}
        for shape in sizes:
            feeds = {"x": RNG.standard_normal(shape, np.float32)}
            if len(opened.get_inputs()) > 1:
                feeds["mask"] = RNG.integers(0, 2, shape)
            for found, expected in zip(opened.run(None, feeds), own.run(None, feeds), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
