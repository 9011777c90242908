"""The GPU checklist: all that only a device can show; run by ``subgraphkit selftest tensorrt``."""

from subgraphkit_tensorrt.selftest.checklist import checks

__all__ = ["checks"]
