"""Compiling: each subgraph to its operator; the fourth step of the road."""

from subgraphkit.compiling.compilation import (
    CompiledSubgraphs,
    Means,
    compile_elsewhere,
    compile_subgraph,
    compile_subgraphs,
    compile_unproven,
)
from subgraphkit.compiling.creation import close_all, given_back
from subgraphkit.compiling.isolation import isolated

__all__ = [
    "CompiledSubgraphs",
    "Means",
    "close_all",
    "compile_elsewhere",
    "compile_subgraph",
    "compile_subgraphs",
    "compile_unproven",
    "given_back",
    "isolated",
]
