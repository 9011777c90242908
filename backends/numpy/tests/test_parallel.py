"""Threads: every part once, errors reach the caller, and results are the same to the bit."""

import itertools
import os
import threading
import time
from contextvars import copy_context

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

import subgraphkit as sk
from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.types import DataType
from subgraphkit_numpy import parallel
from subgraphkit_numpy.kernels import elementwise, matrix
from subgraphkit_numpy.parallel import BlasAlone, cut, share
from tests.interrupting import interrupt
from tests.scripts import in_child


@pytest.fixture(params=[1, 2, 4])
def threads(request, monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: request.param)
    monkeypatch.setattr(parallel, "_pool", parallel._Pool())
    return int(request.param)


@given(st.integers(0, 10_000), st.integers(1, 64), st.integers(1, 64))
def test_slices_cover_a_range_once_and_start_at_multiples(length, parts, multiple):
    slices = cut(length, parts, multiple)
    assert 1 <= len(slices) <= parts
    covered = [index for part in slices for index in range(part.start, part.stop)]
    assert covered == list(range(length))
    assert all(part.start % multiple == 0 for part in slices)


def test_every_part_is_done_once(threads):
    done = np.zeros(200, np.int64)

    def work(part, step):
        done[part] += step

    share(work, range(200), 3)
    assert done.tolist() == [3] * 200


def test_an_error_reaches_the_caller_and_the_pool_goes_on(threads):
    def fail(part):
        if part == 2:
            raise ValueError("part 2")

    for _ in range(3):
        with pytest.raises(ValueError, match="part 2"):
            share(fail, range(8))
    seen: list[int] = []
    share(seen.append, range(8))
    assert sorted(seen) == list(range(8))


def test_interrupted_work_leaves_no_helper_writing(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 2)
    monkeypatch.setattr(parallel, "_pool", parallel._Pool())
    target = np.zeros(2, np.int64)
    caller = threading.current_thread()

    def work(part):
        if threading.current_thread() is caller:
            time.sleep(0.0002)
        else:
            time.sleep(0.004)
        target[part] += 1

    for number in range(60):
        interrupt(lambda: share(work, range(2)), after=number * 1e-4)
        left = target.copy()
        time.sleep(0.006)
        assert target.tolist() == left.tolist()


def test_other_threads_take_parts_while_one_is_busy(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 2)
    monkeypatch.setattr(parallel, "_pool", parallel._Pool())
    names: set[str] = set()

    def work(part):
        names.add(threading.current_thread().name)
        time.sleep(0.02)

    share(work, range(8))
    assert len(names) == 2


def test_floating_point_exceptions_are_silent_on_the_pools_threads(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 3)
    monkeypatch.setattr(parallel, "_pool", parallel._Pool())
    zeros = np.zeros(1000, np.float32)

    def work(part):
        time.sleep(0.005)
        with np.errstate(all="ignore" if threading.current_thread().name == caller else None):
            assert np.isnan(zeros / zeros).all()

    caller = threading.current_thread().name
    share(work, range(9))


def blas_threads():
    info = threadpoolctl.threadpool_info()
    return [one["num_threads"] for one in info if one["user_api"] == "blas"]


@pytest.fixture
def _libraries_of_now(monkeypatch):
    """Look BLAS libraries up anew: another test may have loaded one since the first look."""
    monkeypatch.setattr(parallel, "_blas", parallel._Blas())


@pytest.mark.usefixtures("_libraries_of_now")
def test_blas_gets_its_threads_back_when_the_last_user_leaves():
    before = blas_threads()
    assert before, "no BLAS library was found"
    with BlasAlone():
        assert blas_threads() == [1] * len(before)
        with pytest.raises(KeyError), BlasAlone():
            raise KeyError
        assert blas_threads() == [1] * len(before)
    assert blas_threads() == before


def test_a_session_takes_the_threads_of_its_setting(monkeypatch):
    pool = parallel._Pool()
    monkeypatch.setattr(parallel, "_pool", pool)
    seen: dict[int, set[int]] = {}

    def run(count):
        parallel.allow_threads(count)
        seen[count] = set()
        share(lambda _: (time.sleep(0.002), seen[count].add(threading.get_ident())), range(32))

    for count in (1, 3, 2):
        copy_context().run(run, count)
        assert len(seen[count]) <= count
        assert pool._started == max(seen) - 1


@pytest.mark.parametrize("element", ["float", "float16", "bfloat16", "double"])
def test_blas_is_alone_during_a_large_product_of_any_fractions(element, monkeypatch):
    """Its threads would wait for the next by spinning, for tens of milliseconds."""
    entered: list[object] = []
    enter = BlasAlone.__enter__
    monkeypatch.setattr(BlasAlone, "__enter__", lambda self: (entered.append(self), enter(self)))
    text = f"""product ({element}[128, 256] a, {element}[256, 512] b) => ({element}[128, 512] y)
        {{ y = MatMul(a, b) }}"""
    model = parsed(text, 22)
    dtype = DataType[element.upper()].numpy
    feeds = {"a": np.ones((128, 256), dtype), "b": np.ones((256, 512), dtype)}
    with sk.InferenceSession(model, "numpy", threads=1) as session:
        session.run(None, feeds)
    assert entered


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 2)
    share(lambda _: time.sleep(0.001), range(4))
    seen: list[int] = []

    def elsewhere():
        share(seen.append, range(6))
        return sorted(seen)

    assert in_child(elsewhere) == "[0, 1, 2, 3, 4, 5]"
    assert seen == []


GRAPHS = {
    "product": "g (float[128,300] x, float[300,900] w) => (float[128,900] y) { y = MatMul(x, w) }",
    "wide": "g (float[31,301] x, float[301,3001] w) => (float[31,3001] y) { y = MatMul(x, w) }",
    "high": "g (float[2011,130] x, float[130,90] w) => (float[2011,90] y) { y = MatMul(x, w) }",
    "stack times matrix": "g (float[7,60,200] x, float[200,530] w) => (float[7,60,530] y) "
    "{ y = MatMul(x, w) }",
    "stack": "g (float[3,200,130] x, float[3,130,310] w) => (float[3,200,310] y) "
    "{ y = MatMul(x, w) }",
    "stack of one": "g (float[1,200,330] x, float[1,330,410] w) => (float[1,200,410] y) "
    "{ y = MatMul(x, w) }",
    "gemm": "g (float[330,257] x, float[500,330] w) => (float[257,500] y) "
    "{ y = Gemm<transA=1, transB=1>(x, w) }",
    "einsum": "g (float[4,100,128] x, float[4,128,130] w) => (float[4,100,130] y) "
    '{ y = Einsum<equation="bij,bjk->bik">(x, w) }',
    "transposed convolution": "g (float[1,128,14,14] x, float[128,32,4,4] w) "
    "=> (float[1,32,28,28] y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w) }",
    "lstm": "g (float[5,16,130] x, float[1,512,130] w, float[1,512,128] r) "
    "=> (float[5,1,16,128] y) { y = LSTM<hidden_size=128>(x, w, r) }",
    "gru": "g (float[5,16,130] x, float[1,384,130] w, float[1,384,128] r) "
    "=> (float[5,1,16,128] y) { y = GRU<hidden_size=128>(x, w, r) }",
    "attention": "g (float[1,4,150,64] q, float[1,4,150,64] k, float[1,4,150,64] v) "
    "=> (float[1,4,150,64] y) { y = Attention(q, k, v) }",
}


def _inputs(model):
    rng = np.random.default_rng(5)
    shapes = [[it.dim_value for it in one.type.tensor_type.shape.dim] for one in model.graph.input]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", GRAPHS)
def test_the_number_of_threads_does_not_change_a_bit(name, monkeypatch):
    model = parsed(GRAPHS[name], opset=23)
    inputs = _inputs(model)
    found = []
    for count, of_blas in itertools.product((1, 2, 3, 7), (1, 2)):
        for module in (parallel, matrix, elementwise):
            monkeypatch.setattr(module, "thread_count", lambda count=count: count)
        with threadpoolctl.threadpool_limits(of_blas, "blas"):
            found.append(compile_model(model)(*inputs)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
