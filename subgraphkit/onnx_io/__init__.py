"""ONNX files to graphs and back: the only room that knows protobuf.

``load`` is the first step of the road. The rest serves the rooms above: ``infer`` types the values
for ``bind``, and a graph's writer turns subgraphs into stand-alone models. Names are imported when
they are first used: loading needs no inference.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
