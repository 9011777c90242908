"""Words on what is fed: which inputs are made up, and which sizes were assumed."""

from argparse import Namespace
from collections.abc import Mapping

from subgraphkit.binding import BoundModel
from subgraphkit.binding.samples import Feed
from subgraphkit.cli.reporting import CommandReport
from subgraphkit.cli.values import merge_pairs
from subgraphkit.comparing.feeding import make_feeds


def feeds_as_told(
    bound: BoundModel, arguments: Namespace, report: CommandReport
) -> dict[str, Feed]:
    """Read what a command line feeds, and make up the rest."""
    feeds = make_feeds(bound, merge_pairs(arguments.input, "--input"), arguments.seed)
    tell_feeds(feeds, arguments.seed, report)
    return feeds


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
