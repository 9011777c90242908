"""A cache of its own for every test."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.compiling.caching import keying
from tests.models import parsed


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Keep the cache and its key below the folder of the test."""
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # The backends here are part of the tests, some of which may be edited while they run.
    monkeypatch.setattr(keying, "_is_changed", lambda *_: False)
    return tmp_path


@pytest.fixture
def engines(home):
    """Return the folder in which engines are kept."""
    return home / "cache" / "subgraphkit" / "engines"


LINEAR = """
linear (float[N, 2] x) => (float[N, 2] y)
<float[2, 2] w = {1, 2, 3, 4}, float[2] bias = {10, -20}>
{
  product = MatMul(x, w)
  sum = Add(product, bias)
  y = Relu(sum)
}
"""

Answer = Callable[..., Any]


def run(backend, text=LINEAR, **settings):
    """Bind, compile, run once; returns the operators and the outputs."""
    model = parsed(text) if isinstance(text, str) else text
    graph = sk.bind(sk.load(model), {"N": 3}, backend=[backend], **settings)
    partitioning = sk.partition(graph)
    operators = sk.compile_subgraphs(partitioning)
    session = sk.Session(sk.plan(partitioning, operators))
    feeds = {
        value.name: np.arange(np.prod(graph.shape(value.name)), dtype=np.float32).reshape(
            graph.shape(value.name)
        )
        - 2
        for value in session.get_inputs()
    }
    return operators, session.run(None, feeds)
