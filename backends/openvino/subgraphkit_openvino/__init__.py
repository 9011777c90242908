"""The OpenVINO backend of subgraphkit: what the device says it runs, compiled by OpenVINO."""

from subgraphkit_openvino.backend import OpenVINOBackend

__all__ = ["OpenVINOBackend"]
