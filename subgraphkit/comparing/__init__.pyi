# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.backend.tolerances import (
    DEFAULT_TOLERANCES,
    Tolerance,
    tolerance_for,
)
from subgraphkit.comparing.benching import (
    bench,
)
from subgraphkit.comparing.benchmark import (
    Benchmark,
    Measured,
    Schedule,
    Share,
)
from subgraphkit.comparing.bisection import (
    Bisection,
    bisect,
)
from subgraphkit.comparing.differences import (
    Difference,
    compare_values,
    first_difference,
)
from subgraphkit.comparing.feeding import (
    make_feeds,
)
from subgraphkit.comparing.findings import (
    SubgraphFinding,
    Verification,
)
from subgraphkit.comparing.finiteness import (
    NotFinite,
    ValueRange,
    find_not_finite,
)
from subgraphkit.comparing.trial import (
    Trial,
    try_backend,
)
from subgraphkit.comparing.verification import (
    verify,
)
from subgraphkit.running.samples import (
    Feed,
)

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
