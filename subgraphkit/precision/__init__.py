"""Statistics of a model's values, from which its rewriting in fewer bits takes thresholds."""

from subgraphkit.precision.calibration import calibrate
from subgraphkit.precision.histograms import Histogram
from subgraphkit.precision.thresholds import Method, threshold_of

__all__ = ["Histogram", "Method", "calibrate", "threshold_of"]
