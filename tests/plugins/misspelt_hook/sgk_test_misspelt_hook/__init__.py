"""Implements a hook that does not exist."""

from typing import Any

from subgraphkit.backend import Backend, hookimpl


@hookimpl
def subgraphkit_backend(options: Any) -> Backend:
    raise NotImplementedError


@hookimpl
def subgraphkit_prob() -> None:
    raise NotImplementedError
