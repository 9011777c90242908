"""Compiling: each subgraph to its operator; the fourth step of the road."""

from subgraphkit.compiling.compilation import (
    CompiledSubgraphs,
    close_all,
    compile_subgraph,
    compile_subgraphs,
)

__all__ = ["CompiledSubgraphs", "close_all", "compile_subgraph", "compile_subgraphs"]
