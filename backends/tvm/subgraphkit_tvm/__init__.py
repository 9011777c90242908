"""The TVM backend of subgraphkit: subgraphs compiled to native code by Apache TVM."""

from subgraphkit_tvm.backend import TvmBackend

__all__ = ["TvmBackend"]
