"""The iree backend of subgraphkit."""

from subgraphkit_iree.backend import IreeBackend

__all__ = ["IreeBackend"]
