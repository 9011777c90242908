"""Words on what is fed: which inputs are made up, and which sizes were assumed."""

from collections.abc import Mapping

from subgraphkit.cli.reporting import CommandReport
from subgraphkit.comparing.feeding import Feed

__all__ = ["tell_feeds"]


def tell_feeds(feeds: Mapping[str, Feed], seed: int, report: CommandReport) -> None:
    """Say which inputs are made up and which sizes were assumed, also if something fails later."""
    made_up = [name for name, feed in feeds.items() if feed.source == "random"]
    if made_up:
        report.note(f"random values, seed {seed}: {', '.join(made_up)}")
    dims: dict[int, dict[str, None]] = {}
    for feed in feeds.values():
        for dim, size in feed.assumed.items():
            dims.setdefault(size, {})[dim] = None
    if dims:
        taken = "; ".join(f"taken to be {size}: {', '.join(dims[size])}" for size in sorted(dims))
        report.assumption = f"{taken} (give --shape or --symbol to change it)"
        report.note(report.assumption)
