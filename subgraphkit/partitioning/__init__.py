"""Partitioning: the third step of the road, from a bound graph to subgraphs.

``partition`` lets every backend claim regions in order and returns a ``Partitioning``. Every node
is in one subgraph, every region is convex, subgraphs have no cycle, and every refusal has a reason.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
