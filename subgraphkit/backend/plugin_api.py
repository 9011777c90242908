"""The version of the plugin contract, and the rule by which versions agree.

Apart from the package's own version: a new major breaks plugins, a new minor adds to what they may
use. Kept in a module without imports, so that versions are compared before a plugin, or anything
heavy, is imported.
"""

import re
from typing import Final

__all__ = ["PLUGIN_API", "api_text", "is_compatible", "parse_api"]

PLUGIN_API: Final = (1, 0)
"""Version of the contract this release provides, as (major, minor)."""

_API: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)")


def parse_api(text: str) -> tuple[int, int]:
    """Read ``"major.minor"``.

    Raises:
        ValueError: If the text has another form.
    """
    match = _API.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a plugin API version, expected MAJOR.MINOR")
    return int(match[1]), int(match[2])


def api_text(version: tuple[int, int]) -> str:
    """Write a version as ``"major.minor"``."""
    return f"{version[0]}.{version[1]}"


def is_compatible(needed: tuple[int, int], provided: tuple[int, int] = PLUGIN_API) -> bool:
    """Say whether a plugin that uses ``needed`` works with a core that provides ``provided``."""
    return needed[0] == provided[0] and needed[1] <= provided[1]
