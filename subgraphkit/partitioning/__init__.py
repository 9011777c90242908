"""Partitioning: the third step of the road, from a bound graph to subgraphs.

``partition`` lets every backend claim regions in order and returns a ``Partitioning``: every node
in exactly one subgraph, every region convex, the whole acyclic, and a reason for every refusal.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
