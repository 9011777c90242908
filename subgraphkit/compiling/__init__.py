"""Compiling: each subgraph to its operator; the fourth step of the road."""

from subgraphkit.compiling.compilation import CompiledSubgraphs, compile_subgraph, compile_subgraphs

__all__ = ["CompiledSubgraphs", "compile_subgraph", "compile_subgraphs"]
