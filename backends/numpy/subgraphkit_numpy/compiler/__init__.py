"""Compiling a graph to one straight-line Python function over pre-bound kernels.

The road: *lower* (a kernel for every node, constants folded, copies and dead nodes dropped), find
the *lifetimes* of the values, *emit* Python source, and *link* it with kernels and constants.
New weights relink: what does not depend on them stays as it is.
"""

from subgraphkit_numpy.compiler.lowering import Chains, folding_growth
from subgraphkit_numpy.compiler.program import Program, compile_graph, failing_nodes

__all__ = ["Chains", "Program", "compile_graph", "failing_nodes", "folding_growth"]
