"""The GPU checklist: all that only a device can show; run by ``subgraphkit selftest tensorrt``."""

from subgraphkit_tensorrt.selftest.checklist import run_checklist

__all__ = ["run_checklist"]
