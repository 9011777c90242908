"""Every option of every backend of ours, as users, messages and engine caches know it."""

from typing import Final

import pytest

from subgraphkit.finding.registry import get_backend

BACKENDS: Final = ("iree", "numpy", "onednn", "onnxruntime", "openvino", "tensorrt", "tvm")
FACTS: Final = (
    "type", "default", "help", "choices", "minimum", "maximum", "unit", "scope", "cache",
    "expected",
)  # fmt: skip


def _described(option):
    return "\n".join([option.name, *(f"  {fact} = {getattr(option, fact)!r}" for fact in FACTS)])


@pytest.mark.parametrize("name", BACKENDS)
def test_the_options_of_a_backend_are_these(name, golden):
    options = sorted(get_backend(name).options, key=lambda option: option.name)
    golden(f"options/{name}", "\n\n".join(map(_described, options)))
