"""Compiling: each subgraph to its operator; the fourth step of the road."""

from subgraphkit.compiling.compilation import (
    CompiledSubgraphs,
    compile_elsewhere,
    compile_subgraph,
    compile_subgraphs,
)
from subgraphkit.compiling.creation import close_all

__all__ = [
    "CompiledSubgraphs",
    "close_all",
    "compile_elsewhere",
    "compile_subgraph",
    "compile_subgraphs",
]
