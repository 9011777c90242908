"""Comparing backends: is it right, how fast is it, does it work here.

``verify`` compares what two backends compute, for the whole model and subgraph by subgraph;
``bisect`` goes on to the smallest part that is wrong; ``find_not_finite`` finds where NaN begins;
``bench`` measures backends on one model; ``try_backend`` takes one of a few small models down the
whole road on a backend.
"""

from subgraphkit.backend.tolerances import DEFAULT_TOLERANCES, Tolerance, tolerance_for
from subgraphkit.comparing.benching import bench
from subgraphkit.comparing.benchmark import Benchmark, Measured, Schedule, Share
from subgraphkit.comparing.bisection import Bisection, bisect
from subgraphkit.comparing.differences import Difference, compare_values, first_difference
from subgraphkit.comparing.feeding import make_feeds
from subgraphkit.comparing.findings import SubgraphFinding, Verification
from subgraphkit.comparing.finiteness import NotFinite, ValueRange, find_not_finite
from subgraphkit.comparing.trial import Trial, try_backend
from subgraphkit.comparing.verification import verify
from subgraphkit.running.samples import Feed

__all__ = [
    "DEFAULT_TOLERANCES",
    "Benchmark",
    "Bisection",
    "Difference",
    "Feed",
    "Measured",
    "NotFinite",
    "Schedule",
    "Share",
    "SubgraphFinding",
    "Tolerance",
    "Trial",
    "ValueRange",
    "Verification",
    "bench",
    "bisect",
    "compare_values",
    "find_not_finite",
    "first_difference",
    "make_feeds",
    "tolerance_for",
    "try_backend",
    "verify",
]
