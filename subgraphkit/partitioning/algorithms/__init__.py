"""The mathematics of the pass, on integers alone: no operators, no selectors, no ONNX.

Everything here works on an ``Adjacency`` whose nodes are *units* (nodes, or groups of nodes taken
as one), numbered so that every predecessor comes before its successor.
"""
