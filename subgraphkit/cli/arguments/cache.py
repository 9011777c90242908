"""The words of ``subgraphkit cache``."""

import argparse
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.backend.option_values import read_bytes

__all__ = ["add_cache"]

_ACTIONS: Final = ("ls", "verify", "prune", "clear")
_LIKELY: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("list", "dir", "show"), "ls"),
        "check": "verify",
        **dict.fromkeys(("rm", "delete", "remove", "purge"), "clear"),
        **dict.fromkeys(("gc", "trim"), "prune"),
    }
)
"""What other programs call the same."""


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit cache`` takes."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        type=_action,
        help="ls: list the engines; verify: check every one; prune: remove those least recently "
        "used; clear: remove all",
    )
    prune = parser.add_argument_group(
        "what prune removes (default: down to the setting cache_size)"
    )
    prune.add_argument(
        "--size",
        metavar="SIZE",
        type=_size,
        help="engines least recently used, until no more than this is left, such as 4GiB",
    )
    prune.add_argument(
        "--older-than", metavar="DAYS", type=_days, help="engines not used for so many days"
    )
    prune.add_argument("--backend", metavar="NAME", help="engines of this backend and no others")


def _action(text: str) -> str:
    if text in _ACTIONS:
        return text
    found = _LIKELY.get(text.lower())
    guess = f"; did you mean {found!r}?" if found else did_you_mean(text, _ACTIONS)
    expected = f"{', '.join(_ACTIONS[:-1])} or {_ACTIONS[-1]}"
    raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}{guess}")


def _size(text: str) -> int:
    try:
        return read_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {error}, got {text!r}") from None


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of days, got {text!r}")
    return days
