"""The mathematics of the pass, on integers alone: no operators, no selectors, no ONNX.

Everything here works on an ``Adjacency`` of *units*: nodes, or groups of nodes taken as one. They
are numbered so that every predecessor comes before its successor.
"""
