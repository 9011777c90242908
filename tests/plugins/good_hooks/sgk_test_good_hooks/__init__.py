"""A namespace with hooks that works, and prints where it should not."""

import os
from collections.abc import Sequence
from typing import Any

from subgraphkit.backend import Backend, ProbeResult, SubgraphProperty, hookimpl

print("printed by Python")
os.write(1, b"printed by C\n")


class _Plugin(Backend):
    name = "good_hooks"

    def properties(self) -> Sequence[SubgraphProperty]:
        return []


@hookimpl
def subgraphkit_backend(options: Any) -> Backend:
    return _Plugin(options)


@hookimpl
def subgraphkit_probe(deep: bool) -> ProbeResult:
    del deep
    return ProbeResult(available=True, devices=("imaginary",), versions={"library": "1.2"})
