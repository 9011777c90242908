"""The contract is light until it is used, and its version is written down once."""

import sys

from subgraphkit.backend import contract, plugin_api
from tests.scripts import run_child


def test_listing_backends_imports_nothing_heavy():
    program = (
        "import sys, subgraphkit; subgraphkit.list_backends(all=True); "
        "import subgraphkit.backend.options, subgraphkit.configuration.config; "
        "print([m for m in ('google', 'ml_dtypes', 'networkx', 'numpy', 'onnx', 'pluggy') "
        "if m in sys.modules]); "
        "subgraphkit.InferenceSession; print('networkx' in sys.modules)"
    )
    done = run_child([sys.executable, "-c", program])
    assert done.stdout.split() == ["[]", "False"]


def test_the_plugin_api_is_written_down_once():
    assert contract.PLUGIN_API == plugin_api.PLUGIN_API
