"""Bounds of whole numbers hold, whatever is fed to whatever graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.ir import emptied_values, integer_bounds
from tests.models import parsed

UNARY = (
    "Abs({a})", "Neg({a})", "Sign({a})", "Identity({a})", "Relu({a})", "CumSum({a}, zero)",
    "ArgMax<axis = 0>({a})", "ReduceSum({a})", "ReduceMax({a})", "ReduceMin({a})", "Shape({a})",
    "Clip({a}, low, high)", "Clip({a}, , high)", "Div({a}, c)", "Mod({a}, c)",
    "Gather({a}, first)",
)  # fmt: skip
BINARY = ("Add({a}, {b})", "Sub({a}, {b})", "Mul({a}, {b})", "Max({a}, {b})", "Min({a}, {b})")
CHAINS = (
    ("Less({a}, {b})", "Where({r}0, {a}, {b})"),
    ("Cast<to = 6>({a})", "Cast<to = 7>({r}0)"),
    ("Cast<to = 9>({a})", "Cast<to = 7>({r}0)"),
    ("Equal({a}, {b})", "Not({r}0)", "Cast<to = 7>({r}1)"),
    ("Slice({a}, from, far)", "ReduceSum({r}0)"),
    ("Pad({a}, pads)", "ReduceSum({r}0)"),
    ("NonZero({a})", "ReduceSum<keepdims = 0>({r}0)", "Unsqueeze({r}1, first)"),
    ("Expand({a}, rows)", "ReduceMax<keepdims = 0>({r}0)", "Unsqueeze({r}1, first)"),
    (
        "Shape({a})", "Cast<to = 1>({r}0)", "Div({r}1, half)", "Ceil({r}2)", "Sub({r}3, half)",
        "Mul({r}4, half)", "Clip({r}5, none)", "Cast<to = 7>({r}6)",
    ),
    ("Size({a})", "Unsqueeze({r}0, first)"),
    ("Reshape({a}, from)", "Concat<axis = 0>({r}0)"),
    ("Slice({a}, first, c)", "Shape({r}0)", "Expand({a}, {r}1)"),
    ("Slice({a}, c, far)", "Shape({r}0)", "ConstantOfShape({r}1)", "Shape({r}2)"),
    (
        "ReduceMax<keepdims = 0>({a})", "Clip({r}0, low, high)", "Range(low, {r}1, step)",
        "ReduceSum({r}2)",
    ),
)  # fmt: skip
CONSTANTS = (
    "int64 zero = {0}, int64[1] first = {0}, int64[1] from = {-1}, int64[2] pads = {1, 2}, "
    "int64[1] far = {9223372036854775807}, int64 low = {-7}, int64 high = {9}, int64[1] c = {13}, "
    "int64 step = {3}, int64[2] rows = {2, 1}, float half = {2.5}, float none = {0.0}, "
    "float part = {0.5}, int64[1] two = {2}"
)


@st.composite
def graphs(draw):
    known, lines = ["x", "y", "c"], []
    for number in range(draw(st.integers(1, 7))):
        names = {"a": draw(st.sampled_from(known)), "b": draw(st.sampled_from(known))}
        chain = draw(st.sampled_from((*((one,) for one in UNARY + BINARY), *CHAINS)))
        inner = f"t{number}_"
        for step, text in enumerate(chain):
            made = f"v{number}" if step == len(chain) - 1 else f"{inner}{step}"
            lines.append(f"{made} = {text.format(**names, r=inner)}")
        known.append(f"v{number}")
    outputs = ", ".join(f"int64[?] {name}".replace("[?]", f"[{name}_n]") for name in known[3:])
    body = " ".join(lines)
    return f"g (int64[N] x, int64[N] y) => ({outputs}) <{CONSTANTS}> {{ {body} }}"


@settings(max_examples=60, deadline=None)
@given(text=graphs(), data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_element_lies_between_the_bounds(text, data):
    proto = parsed(text)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    limit = data.draw(st.sampled_from([1, 40, 2**31, 2**63 - 1]))
    numbers = st.integers(-limit, limit)
    count = data.draw(st.integers(1, 4))
    feeds = {
        name: np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)))
        for name in ("x", "y")
    }
    with sk.InferenceSession(proto, "numpy", fold=data.draw(st.booleans())) as session:
        results = dict(zip(session.graph.outputs, session.run(None, feeds), strict=True))
        bounds = integer_bounds(session.graph, given=dict.fromkeys(feeds, (-limit, limit)))
        emptied = emptied_values(session.graph)
    for name, result in results.items():
        assert result.size or name in emptied or 0 in (session.graph.shape(name) or ())
        low, high = bounds[name]
        assert result.size == 0 or (low <= result.min() and result.max() <= high), name


def test_bounds_are_found_where_they_matter():
    text = f"""g (int64[N] x, float[B, 3, H] image) => (int64[M] y) <{CONSTANTS}> {{
        mask = Greater(x, zero)
        ones = Cast <to = 7> (mask)
        sizes = Shape(image)
        batch = Gather(sizes, first)
        best = ArgMax <axis = 1, keepdims = 0> (image)
        twice = Mul(batch, batch)
        size = Cast <to = 1> (batch)
        some = Div(size, half)
        whole = Ceil(some)
        steps = Cast <to = 7> (whole)
        filled = ConstantOfShape(batch)
        cut = Slice(x, first, batch)
        rest = Slice(x, c, far)
        y = Add(ones, c)
    }}"""
    graph = sk.bind(sk.load(parsed(text)), backend="none", fold=False)
    bounds = integer_bounds(graph)
    assert bounds["mask"] == bounds["ones"] == (0, 1)
    assert bounds["sizes"] == (0, 2**31 - 1)
    assert bounds["best"] == (0, 2)
    assert bounds["y"] == (13, 14)
    assert bounds["x"] == (-(2**63), 2**63 - 1)
    assert bounds["twice"] == (0, (2**31 - 1) ** 2)
    low, high = bounds["steps"]
    assert low == 0
    assert (2**31 - 1) / 3 <= high < 2**31
    assert emptied_values(graph).keys() == {"rest"}
    assert integer_bounds(graph, given={"x": (0, 7)}, longest=9)["twice"] == (0, 81)


def test_an_older_operator_states_how_many_it_leaves():
    text = "g (float[N, 4] x) => (float[N, 2] y, int64[N, 2] i) { y, i = TopK<k = 2>(x) }"
    graph = sk.bind(sk.load(parsed(text, 9)), backend="none")
    assert emptied_values(graph) == {}


@pytest.mark.parametrize("line", [
    "e = Sub(s, two) y = Slice(x, first, e)",
    "r = Cast<to = 1>(s) h = Mul(r, part) w = Cast<to = 7>(h) y = Expand(zero, w)",
    "h = Div(s, two) f = Expand(zero, h) y = Neg(f)",
])  # fmt: skip
def test_what_leaves_nothing_of_a_short_feed_is_found(line):
    text = f"g (int64[N] x) => (int64[M] y) <{CONSTANTS}> {{ s = Shape(x) {line} }}"
    assert "y" in emptied_values(sk.bind(sk.load(parsed(text)), backend="none"))
