"""Pools of processes that open one session each, by a spec, whatever way they are started."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest

import subgraphkit as sk
from tests.serving.recipes import SECONDS, expected_of, prepare, run_script, spec_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("recipes"))


def test_a_pool_of_processes_answers_as_one_process_does(folder):
    answers = run_script("process_pool", folder, "forkserver")
    np.testing.assert_allclose(answers, expected_of(folder), rtol=1e-5, atol=1e-6)


def _answer(spec, feeds):
    return spec.get().run(None, feeds)[0]


@pytest.mark.parametrize("method", ["spawn", "fork"])  # the third is that of the script
def test_a_pool_answers_bad_feeds_with_the_coded_error_and_goes_on(folder, method):
    spec, rows = spec_of(folder), np.load(folder / "rows.npy")
    with multiprocessing.get_context(method).Pool(1) as pool:
        good = pool.apply_async(_answer, (spec, {"x": rows})).get(SECONDS)
        with pytest.raises(sk.errors.InputError, match="SGK142") as caught:
            pool.apply_async(_answer, (spec, {})).get(5.0)
        again = pool.apply_async(_answer, (spec, {"x": rows})).get(SECONDS)
    assert (caught.value.code, caught.value.fault) == ("SGK142", "caller")
    np.testing.assert_array_equal(good, again)
    np.testing.assert_allclose(good, expected_of(folder), rtol=1e-5, atol=1e-6)


def test_an_executor_is_not_broken_by_bad_feeds(folder):
    spec, rows = spec_of(folder), np.load(folder / "rows.npy")
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        bad = [pool.submit(_answer, spec, {"x": rows[..., :count]}) for count in (1, 2)]
        assert [future.exception(SECONDS).code for future in bad] == ["SGK140"] * 2
        good = pool.submit(_answer, spec, {"x": rows}).result(SECONDS)
    np.testing.assert_allclose(good, expected_of(folder), rtol=1e-5, atol=1e-6)


def test_joblib_sends_a_session_in_a_closure_as_its_spec(folder):
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    spec, batches = spec_of(folder), np.split(np.load(folder / "rows.npy"), 4)
    with spec.open() as session:

        def closed_over(fed):
            return session.run(None, fed)[0]

        assert len(cloudpickle.dumps(closed_over)) < 4096
        ways = [closed_over, partial(_answer, spec)] * 2
        jobs = (joblib.delayed(way)({"x": rows}) for way, rows in zip(ways, batches, strict=True))
        answers = joblib.Parallel(n_jobs=2, backend="loky")(jobs)
    np.testing.assert_allclose(np.concatenate(answers), expected_of(folder), rtol=1e-5, atol=1e-6)
