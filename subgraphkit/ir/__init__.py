"""The graph as subgraphkit sees it: frozen, indexed by integers, made for asking and cutting.

A node's number is its place in the model's node list, because ONNX allows empty and repeated node
names. Values have unique names, because ONNX graphs are single assignment. Dependencies are flat
integer arrays built once.

Names are imported when they are first used.

Source: ONNX IR specification, "Graphs".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
