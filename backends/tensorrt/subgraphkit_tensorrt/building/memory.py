"""What an engine takes of memory, as the builder tells when it is done.

There is no call for it; the builder writes it into its log, in the same words since 8.5.
"""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["memory_told"]

_TOLD: Final = re.compile(r"(?:Total|Max) (.+?) Memory: (\d+)(?: bytes)?")
_NAMES: Final = {
    "Host Persistent": "host_persistent_bytes",
    "Device Persistent": "persistent_bytes",
    "Scratch": "layer_scratch_bytes",
    "Activation": "activation_bytes",
    "Weights": "weight_bytes",
}


def memory_told(lines: Iterable[str]) -> dict[str, int]:
    """Return the sizes among the lines of a build, in bytes; those it did not tell are missing.

    Args:
        lines: What it said; see ``noting``.

    Returns:
        ``persistent_bytes`` and ``host_persistent_bytes``, which contexts hold; ``weight_bytes``;
        ``activation_bytes``, the values between layers; ``layer_scratch_bytes``, what the greediest
        layer needs beside them.
    """
    found = (_TOLD.fullmatch(line) for line in lines)
    return {_NAMES[one[1]]: int(one[2]) for one in found if one is not None and one[1] in _NAMES}
