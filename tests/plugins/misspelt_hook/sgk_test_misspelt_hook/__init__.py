"""Implements a hook that does not exist."""

from collections.abc import Mapping
from typing import Any

from subgraphkit.backend import Backend, hookimpl


@hookimpl
def subgraphkit_backend(options: Mapping[str, Any]) -> Backend:
    raise NotImplementedError


@hookimpl
def subgraphkit_prob() -> None:
    raise NotImplementedError
