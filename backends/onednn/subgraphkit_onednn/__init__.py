"""The oneDNN backend of subgraphkit: regions compiled by oneDNN's graph API on the processor."""

from subgraphkit_onednn.backend import OnednnBackend

__all__ = ["OnednnBackend"]
