"""Statistics of a model's values, from which its rewriting in fewer bits takes thresholds."""

from subgraphkit.calibrating.calibration import calibrate
from subgraphkit.calibrating.histograms import Histogram
from subgraphkit.calibrating.thresholds import Method, threshold_of

__all__ = ["Histogram", "Method", "calibrate", "threshold_of"]
