"""Work that would keep the interpreter from all else: done in parts, to the same results."""

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import subgraphkit as sk
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.errors import ExecutionError, RunTimeoutError
from subgraphkit_numpy.kernels import leases
from subgraphkit_numpy.kernels.wrapping import PART
from tests.house.tree import ROOT
from tests.scripts import run_child

MANY = PART + PART // 2
DICE = np.random.default_rng(0)
WORDS = [f"{'É' * (k % 3)}a {k % 700}" for k in range(MANY)]
TEXTS = np.array(WORDS, object)
OBJECT, BOOL, INT = np.dtype(object), np.dtype(bool), np.dtype(np.int64)


def results(op_type, inputs, types, **more):
    return compile_model(node_model(op_type, inputs, types, **more))(*inputs)


def test_texts_are_as_if_computed_at_a_stroke():
    pieces, counts = results("StringSplit", [TEXTS], [OBJECT, INT], delimiter=" ")
    assert pieces.tolist() == [word.split() for word in WORDS]
    assert set(counts.tolist()) == {2}
    (found,) = results("RegexFullMatch", [TEXTS], [BOOL], pattern="a 1.*")
    assert found.tolist() == [word.startswith("a 1") for word in WORDS]
    more = {"case_change_action": "LOWER", "stopwords": [WORDS[0].swapcase()]}
    (plain,) = results("StringNormalizer", [TEXTS], [OBJECT], **more)
    assert plain.tolist() == [word.lower() for word in WORDS if word != WORDS[0]]
    other = np.array(WORDS[1:] + WORDS[:1], object)
    (same,) = results("Equal", [TEXTS, other], [BOOL])
    assert same.tolist() == [a == b for a, b in zip(WORDS, other, strict=True)]
    places = DICE.integers(-MANY, MANY, (2, MANY))
    (read,) = results("Gather", [TEXTS, places], [OBJECT])
    np.testing.assert_array_equal(read, TEXTS[places])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 1, 3), (300, 1000)])
def test_elements_are_repeated_at_edges_as_numpy_does(mode, shape):
    x = DICE.integers(0, 99, shape)
    for most in (1, 9):
        widths = DICE.integers(0, most + 1, (x.ndim, 2))
        (found,) = results("Pad", [x, widths.T.reshape(-1)], [INT], mode=mode)
        np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))


def test_texts_are_repeated_as_numpy_does():
    for x, times in ((TEXTS[:9], [2000]), (TEXTS[:6].reshape(3, 2), [3, 2000]), (TEXTS, [0])):
        (tiled,) = results("Tile", [x, np.array(times)], [OBJECT])
        np.testing.assert_array_equal(tiled, np.tile(x, times))
    (spread,) = results("Expand", [TEXTS[:3], np.array([5, 2000, 1])], [OBJECT])
    assert spread.flags.c_contiguous
    np.testing.assert_array_equal(spread, np.broadcast_to(TEXTS[:3], (5, 2000, 3)))


def test_texts_are_no_more_than_numpy_makes_and_frees_at_a_stroke():
    with pytest.raises(ExecutionError, match=r"string\[5000000\]; a text counts as 4 elements"):
        results("Expand", [TEXTS[:1], np.array([5_000_000])], [OBJECT])


@pytest.mark.parametrize("kind", ["strings", "int64s", "floats"])
@pytest.mark.parametrize("other", ["strings", "int64s", "floats"])
def test_labels_are_encoded_as_by_onnx(kind, other):
    lists: dict[str, list[Any]] = {
        "strings": ["a", "b", "c"], "int64s": [1, 5, -7], "floats": [0.1, 5.0, -7.5]
    }  # fmt: skip
    dtypes = {"strings": OBJECT, "int64s": INT, "floats": np.dtype(np.float32)}
    x = np.resize(np.array([*lists[kind], "z" if kind == "strings" else 3], dtypes[kind]), MANY)
    default = {"strings": "?", "int64s": 9, "floats": 0.25}[other]
    more = {f"keys_{kind}": lists[kind], f"values_{other}": lists[other]}
    more[f"default_{other.removesuffix('s')}"] = default
    model = node_model("LabelEncoder", [x], [dtypes[other]], domain="ai.onnx.ml", **more)
    model.opset_import.add(domain="ai.onnx.ml", version=4)
    (found,) = compile_model(model)(x)
    assert found.dtype == dtypes[other]
    wanted = np.array([*lists[other], default], dtypes[other])
    np.testing.assert_array_equal(found, np.resize(wanted, MANY))


@pytest.mark.parametrize("stops", [[], ["A", "a b"]])
@pytest.mark.parametrize("is_early", [0, 1])
@pytest.mark.parametrize("case", ["LOWER", "UPPER", "NONE"])
def test_texts_are_normalised_as_by_onnxruntime(case, is_early, stops):
    more = {"case_change_action": case, "is_case_sensitive": is_early, "stopwords": stops}
    more = {name: value for name, value in more.items() if value != []}
    for texts in (["a", "A", "ab", "a b"], [["A", "b c"]], ["A"]):
        x = np.array(texts, object)
        model = node_model("StringNormalizer", [x], [OBJECT], locale="C", **more)
        library = onnxruntime.InferenceSession(model.SerializeToString())
        (expected,) = library.run(None, {"x0": x})
        (found,) = compile_model(model)(x)
        assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())


def test_pieces_beyond_the_limit_are_refused_before_they_are_made():
    x = np.array(["a " * 1000, *["b"] * 1000], object)
    model = node_model("StringSplit", [x], [OBJECT, INT], delimiter=" ")
    with pytest.raises(ExecutionError, match=r"SGK217.*the output would be"):
        compile_model(model, max_output_bytes=1 << 20)(x)


def test_pieces_that_are_far_more_than_the_texts_are_refused_before_they_are_made():
    x = np.array(["b" * 20_000] + [""] * 20_000, object)
    with pytest.raises(ExecutionError, match=r"string\[20001, 20001\]; a text counts as 4"):
        results("StringSplit", [x], [OBJECT, INT], delimiter="b")


def test_texts_without_number_end_at_the_deadline():
    x = np.array(["b " * 20_000] + ["b"] * 20_000, object)
    model = node_model("StringSplit", [x], [OBJECT, INT], delimiter=" ")
    with sk.InferenceSession(model, "numpy", limits="unlimited") as session:
        started = time.perf_counter()
        with pytest.raises(RunTimeoutError):
            session.run(None, {"x0": x}, timeout_s=0.4)
        assert time.perf_counter() - started < 2  # an array of them takes NumPy 10 s, and 1 to free


def test_no_operator_gets_what_is_beyond_the_limits(pytestconfig):
    step = "1" if pytestconfig.getoption("--all-cases") else "12"
    environment = {
        **os.environ, "SUBGRAPH_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"
    }  # fmt: skip
    done = run_child(
        [sys.executable, "-W", "ignore", "-m", "backends.numpy.tests.asking_for_much", step],
        cwd=ROOT,
        env=environment,
        timeout=600,
    )
    operators, outcomes, got = json.loads(done.stdout)
    assert got == []
    assert operators > 190
    assert outcomes["SGK217"] > 0


def test_large_values_are_counted_while_they_live():
    text = "g (float[N] x, int64[1] n) => (float[M] y) {{ {} }}"
    chain = "a = Expand(x, n) " + " ".join(f"{b} = Neg({a})" for a, b in ("ab", "bc", "cd"))
    add = " ".join(f"s{b} = Add({a}, {b})" for a, b in (("a", "b"), ("sb", "c"), ("sc", "d")))
    limits = {"max_run_bytes": 12 << 20}
    feeds = {"x": np.ones(1, np.float32), "n": np.array([1 << 20])}
    short = parsed(text.format(f"{chain} y = Neg(d)"))
    with sk.InferenceSession(short, "numpy", limits=limits) as session:
        for _ in range(3):  # what was let go counts no more
            assert session.run(None, feeds)[0].size == 1 << 20
    wide = parsed(text.format(f"{chain} {add} y = Neg(sd)"))
    for words in ({"limits": limits}, {"max_memory": 12 << 20}):
        session = sk.InferenceSession(wide, "numpy", **words)
        with pytest.raises(ExecutionError, match=r"the limit is 12,582,912 bytes \(max_run"):
            session.run(None, feeds)


def test_unique_orders_rows_and_texts_as_numpy_does():
    types = [None, INT, INT, INT]
    for x, axis in (
        (DICE.integers(0, 2, (300, 5)).astype(np.float32), 0),
        (DICE.integers(0, 2, (3, 40, 7)), 1),
        (np.zeros((4, 0), np.int64), 0),
        (np.repeat(DICE.random((50, 40)), 3, axis=0), -2),
    ):
        model = node_model("Unique", [x], [x.dtype, *types[1:]], axis=axis)
        y, first, inverse, counts = compile_model(model)(x)
        values, *expected = np.unique(x, True, True, True, axis=axis)  # noqa: FBT003 (data)
        np.testing.assert_array_equal(y, values)
        for found, right in zip((first, inverse, counts), expected, strict=True):
            np.testing.assert_array_equal(found, right.reshape(-1))
    words, *_ = results("Unique", [TEXTS], [OBJECT, INT, INT, INT])
    assert words.tolist() == sorted(set(WORDS))


def test_the_determinant_of_a_large_matrix_is_that_of_its_parts():
    # blocks along the diagonal, in another order of rows, of which the determinant is known
    small = DICE.random((8, 8)) + np.eye(8)
    small /= abs(np.linalg.det(small)) ** (1 / 8)
    large = np.kron(np.eye(129), small)
    large[[0, 1]] = large[[1, 0]]
    (found,) = results("Det", [large], [large.dtype])
    np.testing.assert_allclose(found, -(np.linalg.det(small) ** 129), rtol=1e-6)
    (none,) = results("Det", [np.ones((1030, 1030))], [large.dtype])
    assert abs(none) < 1e-6


@pytest.mark.parametrize("above", [0, 1, -1, 2, -2, 3, -3, 2**31, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (1, 1)])
def test_diagonals_may_be_beside_the_matrix(above, shape):
    x = np.ones(shape, np.float32)
    near = max(-4, min(4, above))
    stated = max(-(2**31), min(2**31 - 1, above))
    (eye,) = results("EyeLike", [x], [x.dtype], clashing={"k": stated})
    assert eye.tolist() == np.eye(*shape, k=near).tolist()
    for upper, cut in ((0, np.tril), (1, np.triu)):
        k = np.array(above, np.int64)
        (found,) = results("Trilu", [x, k], [x.dtype], upper=upper)
        assert found.tolist() == cut(x, near).tolist()


ENDLESS = """g (float[N] x, int64 n) => (float[N] y) {
    on = Constant <value: tensor = bool {1}> ()
    y = Loop (n, on, x) <
        body = turn (int64 i, bool on1, float[N] a) => (bool on2, float[N] b) {
            on2 = Identity (on1)
            b = Neg (a)
        }
    >
}"""


def test_loops_that_wait_for_the_interpreter_take_turns(monkeypatch):
    feeds, options = {"x": np.ones(4, np.float32), "n": np.array(2**60)}, sk.RunOptions()
    monkeypatch.setattr(leases, "_lease", lease := leases._Lease())
    with sk.InferenceSession(parsed(ENDLESS), "numpy") as session, ThreadPoolExecutor(4) as pool:
        loops = [pool.submit(session.run, None, feeds, options) for _ in range(4)]
        owners, end = {lease.owner}, time.monotonic() + 60
        while len(owners - {0}) < len(loops) and time.monotonic() < end:
            owners.add(lease.owner)
        options.cancel()
    assert {type(one.exception()) for one in loops} == {sk.errors.RunCancelledError}
    assert len(owners - {0}) == len(loops)  # each has had its turn


@pytest.mark.parametrize(("computed", "slept"), [(0.05, []), (0.01, [pytest.approx(0.02)])])
def test_a_loop_waits_only_if_it_waits_for_the_interpreter_anyway(computed, slept, monkeypatch):
    clock, waits, lease = [100.0, 0.0], [], leases._Lease()

    def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    times = {"monotonic": lambda: clock[0], "thread_time": lambda: clock[1], "sleep": sleep}
    monkeypatch.setattr(leases, "time", SimpleNamespace(**times))
    monkeypatch.setattr(leases, "_lease", lease)
    monkeypatch.setattr(leases, "_here", leases._Here())
    leases.let_others_by()
    clock[:] = 100.05, computed
    lease.owner, lease.until = -1, 100.07  # another's
    leases.let_others_by()
    assert waits == slept
    assert (lease.owner == threading.get_ident()) is bool(slept)
