"""Placement by measurement: the front door, and who runs what, before a session runs and while."""

from subgraphkit.placing.inference_session import InferenceSession, SessionSpec
from subgraphkit.placing.tuning import Tuning, tune

__all__ = ["InferenceSession", "SessionSpec", "Tuning", "tune"]
