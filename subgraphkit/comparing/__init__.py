"""Comparing backends: is it right, how fast is it, does it work here.

``verify`` compares what two backends compute, for the whole model and subgraph by subgraph;
``bisect`` goes on to the smallest part that is wrong; ``find_not_finite`` finds where NaN begins;
``bench`` measures backends on one model; ``try_backend`` takes one of a few small models down the
whole road on a backend.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Benchmark": "subgraphkit.comparing.benchmark",
    "Bisection": "subgraphkit.comparing.bisection",
    "DEFAULT_TOLERANCES": "subgraphkit.backend.tolerances",
    "Difference": "subgraphkit.comparing.differences",
    "Feed": "subgraphkit.running.samples",
    "Measured": "subgraphkit.comparing.benchmark",
    "NotFinite": "subgraphkit.comparing.finiteness",
    "Schedule": "subgraphkit.comparing.benchmark",
    "Share": "subgraphkit.comparing.benchmark",
    "SubgraphFinding": "subgraphkit.comparing.findings",
    "Tolerance": "subgraphkit.backend.tolerances",
    "Trial": "subgraphkit.comparing.trial",
    "ValueRange": "subgraphkit.comparing.finiteness",
    "Verification": "subgraphkit.comparing.findings",
    "bench": "subgraphkit.comparing.benching",
    "bisect": "subgraphkit.comparing.bisection",
    "compare_values": "subgraphkit.comparing.differences",
    "find_not_finite": "subgraphkit.comparing.finiteness",
    "first_difference": "subgraphkit.comparing.differences",
    "make_feeds": "subgraphkit.comparing.feeding",
    "tolerance_for": "subgraphkit.backend.tolerances",
    "try_backend": "subgraphkit.comparing.trial",
    "verify": "subgraphkit.comparing.verification",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
