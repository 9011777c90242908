"""Backends in a folder of their own, where the child processes of a test find them."""

import re

import pytest

from tests.unit.finding.conftest import _no_settings, install

__all__ = ["_no_settings", "install"]

SOURCE = '''
"""Backends that misbehave, each in its own way, when they run what they claimed."""
import os, sys, time
import numpy as np
import subgraphkit as sk


def _backend(word, act):
    class Operator(sk.SubgraphOperator):
        def __init__(self, subgraph, context):
            self.subgraph, self.options = subgraph, context.options
            self.threads = context.threads

        def run(self, inputs, outputs=None):
            return act(self, [np.maximum(one, 0) for one in inputs])

    class Property(sk.SubgraphProperty):
        def create_selector(self, graph):
            return sk.OpSelector(graph, ["Relu"])

        def create_operator(self, subgraph, context):
            return Operator(subgraph, context)

    class Plugin(sk.Backend):
        name = word
        options = (sk.Option("threads", int, default=0, help="Threads."),)

        def properties(self):
            return [Property()]

    return Plugin


def _crash(operator, results):
    print("the last that was heard", flush=True)
    os.kill(os.getpid(), 11)


def _later(operator, results):
    operator.runs = getattr(operator, "runs", 0) + 1
    return _crash(operator, results) if operator.runs > 3 else results


def _fail(operator, results):
    raise ValueError("out of luck")


def _environment(operator, results):
    told = float(os.environ.get("OMP_NUM_THREADS", -1))
    return [np.full_like(results[0], 100 * told + (operator.options.threads or operator.threads))]


def _off(operator, results):
    factor = float(os.environ.get("OFF_BY_FACTOR", 1))
    return [(one.astype("float64") * factor).astype(one.dtype) for one in results]


class generous(_backend("generous", _off)):
    """Off as much as `off`, and says so of float16; of float64 it says less than is usual."""

    @classmethod
    def conformance(cls, suite):
        suite.tolerance("float16", rtol=2e-2, atol=0.0)
        suite.tolerance("float64", rtol=0.0, atol=0.0)


crashing = _backend("crashing", _crash)
crashing_later = _backend("crashing_later", _later)
hanging = _backend("hanging", lambda operator, results: time.sleep(60))
failing = _backend("failing", _fail)
wrong = _backend("wrong", lambda operator, results: [one + 1 for one in results])
double = _backend("double", lambda operator, results: [one.astype("float64") for one in results])
slow = _backend("slow", lambda operator, results: time.sleep(0.02) or results)
threads = _backend("threads", _environment)
off = _backend("off", _off)
'''

NAMES = re.findall(r'_backend\("(\w+)"', SOURCE)


@pytest.fixture
def misbehaving(install, tmp_path, monkeypatch):
    """Install the backends of ``NAMES``, which claim Relu, and work in a folder of nothing else."""
    lines = [f"{name} = acme_bench:{name}" for name in NAMES]
    install("acme-bench", "acme_bench", SOURCE, "\n".join(["[subgraphkit.backends]", *lines]))
    monkeypatch.chdir(tmp_path)
