"""Which nodes one kernel computes, and that it computes what they would one by one."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.numpy.tests.fusing_support import assert_close, both, groups, values
from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit_numpy import parallel
from subgraphkit_numpy.fusing import making, tiles

# -- which nodes ----------------------------------------------------------------------------------

ATTENTION = """
g (float[2, 4, 96, 32] q, float[2, 4, 32, 96] k, float[2, 4, 96, 32] v, float[2, 1, 96, 96] mask)
    => (float[2, 4, 96, 32] y)
<float scale = {0.2}> {
  scores = MatMul(q, k)
  scaled = Mul(scores, scale)
  masked = Add(scaled, mask)
  weights = Softmax(masked)
  y = MatMul(weights, v)
}
"""

GELU = """
g (float[64, 256] x, float[256, 512] w, float[512] b) => (float[64, 512] y)
<float c = {0.044715}, float s = {0.7978846}, float one = {1.0}, float half = {0.5}> {
  p = MatMul(x, w)
  z = Add(p, b)
  square = Mul(z, z)
  cube = Mul(square, z)
  term = Mul(cube, c)
  sum = Add(z, term)
  inner = Mul(sum, s)
  bent = Tanh(inner)
  shifted = Add(bent, one)
  scaled = Mul(z, shifted)
  y = Mul(scaled, half)
}
"""

RMS = """
g (float[2, 300, 256] x, float[256] w) => (float[2, 300, 256] y)
<float eps = {0.00001}, int64[1] last = {-1}> {
  square = Mul(x, x)
  mean = ReduceMean(square, last)
  safe = Add(mean, eps)
  root = Sqrt(safe)
  scale = Reciprocal(root)
  normal = Mul(x, scale)
  y = Mul(normal, w)
}
"""


def test_attention_is_one_kernel() -> None:
    assert groups(compile_model(parsed(ATTENTION))) == ["MatMul + Mul + Add + Softmax + MatMul"]


def test_a_decomposed_gelu_follows_its_product() -> None:
    (found,) = groups(compile_model(parsed(GELU)))
    assert found.startswith("MatMul + Add + Mul + Mul + Mul + Add + Mul + Tanh")


def test_a_decomposed_root_mean_square_normalisation_is_one_kernel() -> None:
    (found,) = groups(compile_model(parsed(RMS)))
    assert found == "Mul + ReduceMean + Add + Sqrt + Reciprocal + Mul + Mul"


@pytest.mark.parametrize("text", [ATTENTION, GELU, RMS], ids=["attention", "gelu", "rms"])
def test_a_group_computes_what_its_nodes_do(text: str) -> None:
    model = parsed(text)
    inputs = [
        values(*(dim.dim_value for dim in given.type.tensor_type.shape.dim))
        for given in model.graph.input
    ]
    assert_close(*both(model, *inputs))


def test_a_value_that_is_read_elsewhere_ends_the_group() -> None:
    model = parsed("""
    g (float[64, 128] x, float[128, 128] w, float[128] b) => (float[64, 128] y, float[64, 128] z) {
      p = MatMul(x, w)
      z = Add(p, b)
      r = Relu(z)
      y = Exp(r)
    }
    """)
    assert groups(compile_model(model)) == ["MatMul + Add", "Relu", "Exp"]
    inputs = values(64, 128), values(128, 128) / 20, values(128)
    assert_close(*both(model, *inputs))


def test_a_residual_is_an_operand_though_others_read_it() -> None:
    model = parsed("""
    g (float[64, 128] x, float[128, 128] w) => (float[64, 128] y, float[64, 128] z) {
      r = Relu(x)
      p = MatMul(r, w)
      y = Add(p, r)
      z = Exp(r)
    }
    """)
    assert groups(compile_model(model)) == ["Relu", "MatMul + Add", "Exp"]
    assert_close(*both(model, values(64, 128), values(128, 128)))


def test_small_results_without_a_product_are_left_alone() -> None:
    compiled = compile_model(parsed("g (float[8] x) => (float[8] y) { a = Exp(x) y = Neg(a) }"))
    assert groups(compiled) == ["Exp", "Neg"]


def test_rows_of_a_product_may_be_arranged_in_other_axes_on_the_way() -> None:
    model = parsed("""
    g (float[64, 256] x, float[256, 96] w, float[96] b, float[2, 32, 96] r) => (float[2, 32, 96] y)
    <int64[3] shape = {2, 32, 96}> {
      p = Gemm(x, w, b)
      a = Reshape(p, shape)
      y = Add(a, r)
    }
    """)
    assert groups(compile_model(model)) == ["Gemm + Reshape + Add"]
    assert_close(*both(model, values(64, 256), values(256, 96), values(96), values(2, 32, 96)))


def test_without_fusion_every_node_is_a_step() -> None:
    assert len(groups(compile_model(parsed(ATTENTION), fusion=False))) == 5


# -- products -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 40, 257])
@pytest.mark.parametrize("columns", [1, 17, 300])
@pytest.mark.parametrize("flipped", [0, 1])
def test_products_of_every_form_are_right(rows: int, columns: int, flipped: int) -> None:
    inner = -(-(1 << 19) // (rows * columns))
    shape = f"{columns}, {inner}" if flipped else f"{inner}, {columns}"
    model = parsed(f"""
    g (float[{rows}, {inner}] x, float[{shape}] w, float[{columns}] b)
        => (float[{rows}, {columns}] y) {{
      p = Gemm <transB = {flipped}> (x, w, b)
      y = Relu(p)
    }}
    """)
    x, w, b = values(rows, inner), values(inner, columns), values(columns)
    compiled = compile_model(model)
    assert groups(compiled) == ["Gemm + Relu"]
    (found,) = compiled(x, w.T.copy() if flipped else w, b)
    expected = np.maximum(x.astype(np.float64) @ w + b, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 * inner**0.5)


@pytest.mark.parametrize("batch", [(1, 1), (3, 1), (1, 5), (3, 5)])
@pytest.mark.parametrize("second", [(1, 1), (3, 1), (1, 5), (3, 5), (5,)])
def test_stacks_of_products_broadcast(batch: tuple[int, ...], second: tuple[int, ...]) -> None:
    x, y = values(*batch, 130, 64), values(*second, 64, 300)
    shape = np.broadcast_shapes(batch, second)
    model = parsed(f"""
    g (float[{", ".join(map(str, x.shape))}] x, float[{", ".join(map(str, y.shape))}] w)
        => (float[{", ".join(map(str, (*shape, 130, 300)))}] y) {{
      p = MatMul(x, w)
      y = Softmax(p)
    }}
    """)
    compiled = compile_model(model)
    assert groups(compiled) == ["MatMul + Softmax"]
    assert_close(compiled(x, y), compile_model(model, fusion=False)(x, y))


def test_views_with_other_strides_are_taken_as_they_are() -> None:
    model = parsed("""
    g (float[1, 96, 4, 32] q, float[1, 96, 4, 32] k, float[1, 96, 4, 32] v)
        => (float[1, 4, 96, 32] y) {
      a = Transpose <perm = [0, 2, 1, 3]> (q)
      b = Transpose <perm = [0, 2, 3, 1]> (k)
      c = Transpose <perm = [0, 2, 1, 3]> (v)
      s = MatMul(a, b)
      w = Softmax(s)
      y = MatMul(w, c)
    }
    """)
    inputs = [values(1, 96, 4, 32) for _ in range(3)]
    assert groups(compile_model(model))[-1] == "MatMul + Softmax + MatMul"
    assert_close(*both(model, *inputs))


# -- any expressions ------------------------------------------------------------------------------

_SHAPES = [(3, 5, 4096), (1, 5, 4096), (3, 1, 4096), (4096,), (5, 4096), (3, 5, 1), (1,), ()]


@st.composite
def expression_models(draw: st.DrawFn) -> tuple[onnx.ModelProto, list[Any]]:
    """Draw a random graph: maybe a product, elementwise nodes, functions of rows; its inputs."""
    shapes = [_SHAPES[0], *draw(st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=3))]
    lines, wide, narrow = [], ["x0"], []
    start = draw(st.sampled_from(["nothing", "product", "stack"]))
    if start != "nothing":
        lines, wide = ["p = MatMul(x0, x1)"], ["p"]
        shapes[:1] = [(3, 5, 7), (7, 4096) if start == "product" else (3, 7, 4096)]
    names = [f"x{place}" for place in range(len(shapes))]
    others = names[2 * (start != "nothing") :]
    for number in range(draw(st.integers(2, 9))):
        name = f"v{number}"
        kind = draw(st.sampled_from(["unary", "binary", "binary", "mean", "softmax"]))
        first = draw(st.sampled_from(wide))
        if kind == "unary":
            lines.append(
                f"{name} = {draw(st.sampled_from(['Tanh', 'Relu', 'Neg', 'Abs']))}({first})"
            )
        elif kind == "softmax":
            lines.append(f"{name} = Softmax({first})")
        elif kind == "mean":
            lines.append(f"{name} = ReduceMean({first}, last)")
            narrow.append(name)
            continue
        else:
            other = draw(st.sampled_from([*others, *wide, *narrow]))
            operator = draw(st.sampled_from(["Add", "Sub", "Mul", "Max"]))
            pair = draw(st.permutations([first, other]))
            lines.append(f"{name} = {operator}({', '.join(pair)})")
        wide.append(name)
    wanted = dict.fromkeys(
        [wide[-1], *draw(st.lists(st.sampled_from(wide[1:] or wide), max_size=1))]
    )
    return _model(dict(zip(names, shapes, strict=True)), lines, list(wanted))


def _model(
    shapes: dict[str, tuple[int, ...]], lines: list[str], wanted: list[str]
) -> tuple[onnx.ModelProto, list[Any]]:
    given_text = ", ".join(
        f"float[{', '.join(map(str, shape))}] {name}" if shape else f"float {name}"
        for name, shape in shapes.items()
    )
    made = [name for name in wanted if name != "x0"]
    if not made:
        lines, made = [*lines, "v = Neg(x0)"], ["v"]
    outputs = ", ".join(f"float[3, 5, 4096] {name}" for name in made)
    body = "\n".join(lines)
    model = parsed(f"g ({given_text}) => ({outputs}) <int64[1] last = {{-1}}> {{ {body} }}")
    return model, [values(*shape) for shape in shapes.values()]


@given(expression_models())
@settings(max_examples=60, deadline=None)
def test_any_graph_of_expressions_computes_the_same_with_fusion(
    drawn: tuple[onnx.ModelProto, list[Any]],
) -> None:
    model, inputs = drawn
    kept = [one.copy() for one in inputs]
    assert_close(*both(model, *inputs))
    for one, before in zip(inputs, kept, strict=True):
        np.testing.assert_array_equal(one, before)


# -- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ATTENTION, GELU, RMS], ids=["attention", "gelu", "rms"])
def test_the_number_of_threads_does_not_change_a_bit(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_WORTH_SHARING_NS", 0)
    model = parsed(text)
    inputs = [
        values(*(dim.dim_value for dim in given_.type.tensor_type.shape.dim))
        for given_ in model.graph.input
    ]
    found = []
    for count in (1, 2, 3, 5):
        for module in (parallel, tiles):
            monkeypatch.setattr(module, "thread_count", lambda count=count: count)
        found.append(compile_model(model)(*inputs)[0])
    for one, other in itertools.pairwise(found):
        np.testing.assert_array_equal(one, other)


def test_several_callers_get_their_own_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH_SHARING_NS", 0)
    compiled = compile_model(parsed(ATTENTION))
    feeds = [
        (values(2, 4, 96, 32), values(2, 4, 32, 96), values(2, 4, 96, 32), values(2, 1, 96, 96))
        for _ in range(6)
    ]
    alone = [compiled(*feed)[0] for feed in feeds]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda feed: compiled(*feed)[0], feeds * 5))
    for index, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[index % 6])


def test_new_weights_reach_the_constants_of_a_group() -> None:
    model = parsed("""
    g (float[64, 128] x) => (float[64, 128] y)
    <float[128, 128] w, float[128] b> {
      p = MatMul(x, w)
      z = Add(p, b)
      y = Relu(z)
    }
    """)
    w, b, x = values(128, 128), values(128), values(64, 128)
    for name, value in (("w", w), ("b", b)):
        stored = next((i for i in model.graph.initializer if i.name == name), None)
        made = onnx.numpy_helper.from_array(value, name)
        if stored is None:
            model.graph.initializer.append(made)
        else:
            stored.CopyFrom(made)
    compiled = compile_model(model)
    assert groups(compiled) == ["MatMul + Add + Relu"]
    assert compiled.operator is not None
    compiled.operator.update_weights({"b": b + 1, "w": w * 2})
    expected = np.maximum(x @ (w * 2) + b + 1, 0)
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_group_that_cannot_be_made_is_computed_node_by_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(making, "_MAKERS", dict.fromkeys(making._MAKERS, lambda *_: None))
    compiled = compile_model(parsed(GELU))
    assert groups(compiled)[:2] == ["MatMul", "Add"]
    inputs = values(64, 256), values(256, 512) / 16, values(512)
    assert_close(compiled(*inputs), compile_model(parsed(GELU), fusion=False)(*inputs))
