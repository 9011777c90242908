"""Compiling a graph to one straight-line Python function over pre-bound kernels.

The road has four steps:

* *lower*: find a kernel for every node, fold constants, and drop copies and dead nodes;
* find the *lifetimes* of the values;
* *emit* Python source;
* *link* the source with kernels and constants. New weights repeat this step alone, and only for
  what depends on them.
"""

from subgraphkit_numpy.compiler.lowering import Chains, folding_growth
from subgraphkit_numpy.compiler.program import Program, compile_graph, failing_nodes

__all__ = ["Chains", "Program", "compile_graph", "failing_nodes", "folding_growth"]
