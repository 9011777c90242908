"""The public names are a short list that changes on purpose only."""

import importlib
import os
import re
import subprocess
import sys

import pytest

import subgraphkit

PUBLIC = [
    "load", "bind", "partition", "compile_subgraphs", "plan", "Session", "InferenceSession",
    "SessionSpec", "RunOptions", "register_property", "SubgraphSelector", "OpSelector",
    "PatternSelector", "SubgraphProperty", "SubgraphOperator", "Traits", "Subgraph", "Node",
    "Batcher", "Graph", "Refusal", "Unsupported", "Backend", "Option", "LoadLimits",
    "ProbeResult", "register_backend", "unregister_backend", "list_backends", "get_backend",
    "register_extension", "unregister_extension", "config", "hookimpl", "errors",
    "SubgraphkitError", "unregister_property", "Constraints", "bench", "tune", "verify", "State",
]  # fmt: skip


def test_the_public_names_are_these_and_no_others():
    assert sorted(subgraphkit.__all__) == sorted(PUBLIC)


FIRST = """
import os, sys, numpy, onnx
import subgraphkit as sk
for name in sys.argv[1:]:
    if not os.fork():
        print(name if getattr(sk, name).__doc__ else f"{name} has no docstring")
        break
    os.wait()
"""


def test_a_public_name_can_be_used_first_of_all():
    # A process for each: a name must not lean on another one having been imported before.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST, *PUBLIC],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # who forks has no other threads
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == PUBLIC, done.stderr


def test_a_name_that_is_not_there_is_answered_with_the_one_that_is():
    for name, text in (
        ("partitoin", "did you mean 'partition'?"),
        ("convert", "it is subgraphkit.precision.rewrite"),
    ):
        with pytest.raises(AttributeError, match=re.escape(text)):
            getattr(subgraphkit, name)


def test_names_that_live_elsewhere_are_there():
    for place in subgraphkit._ELSEWHERE.values():
        room, name = place.split(".")
        assert callable(getattr(importlib.import_module(f"subgraphkit.{room}"), name))
