"""The public names are a short list that changes on purpose only."""

import subprocess
import sys

import pytest

import subgraphkit

PUBLIC = [
    "load",
    "bind",
    "partition",
    "compile_subgraphs",
    "plan",
    "Session",
    "InferenceSession",
    "SessionSpec",
    "RunOptions",
    "register_property",
    "SubgraphSelector",
    "OpSelector",
    "PatternSelector",
    "SubgraphProperty",
    "SubgraphOperator",
    "Subgraph",
    "Node",
    "Batcher",
    "Graph",
    "Refusal",
    "Unsupported",
    "Backend",
    "Option",
    "LoadLimits",
    "ProbeResult",
    "register_backend",
    "unregister_backend",
    "list_backends",
    "get_backend",
    "register_extension",
    "unregister_extension",
    "config",
    "hookimpl",
    "errors",
    "SubgraphkitError",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(subgraphkit.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_used_first_in_a_new_interpreter(name: str) -> None:
    # One interpreter for each: a name must not lean on another one having been imported before.
    program = f"import subgraphkit as sk; assert sk.{name} is not None; print(sk.{name}.__doc__)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() not in {"", "None"}, f"{name} has no docstring"


def test_dir_shows_every_public_name() -> None:
    assert set(PUBLIC) <= set(dir(subgraphkit))


def test_a_star_import_brings_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from subgraphkit import *", namespace)
    assert set(PUBLIC) <= set(namespace)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'partitoin'"):
        _ = subgraphkit.partitoin
