"""Configuration files that were found, not named: what they may not say unless somebody vouches.

A folder that one only works in may hold a ``subgraphkit.toml`` of anybody. It may choose backends
and how they work. It may not name code to load, nor widen what is trusted, unless the user's own
file, the environment or the program lists the folder in ``trusted_folders``.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subgraphkit.configuration import messages
from subgraphkit.configuration.files import user_file
from subgraphkit.configuration.layers import Layer
from subgraphkit.configuration.settings import SETTINGS
from subgraphkit.errors import ConfigError


def unvouched(layers: Sequence[Layer], trusted: Sequence[Path]) -> Path | None:
    """Return the folder of the file that was found, if nobody vouches for it."""
    for layer in layers:
        if layer.found_in is not None:
            parts = Path(os.path.realpath(layer.found_in)).parts
            known = [Path(os.path.realpath(folder)).parts for folder in trusted]
            return None if any(parts[: len(one)] == one for one in known) else layer.found_in
    return None


def require_trust(layers: Sequence[Layer], values: Mapping[str, Any]) -> Path | None:
    """Check what the file that was found says, where it is what holds; the winning layer is first.

    Raises:
        ConfigError: It widens what is trusted (SGK126).
    """
    others = [one for one in layers if one.found_in is None]
    said = next(one for one in others if "trusted_folders" in one.values)
    folder = unvouched(layers, said.values["trusted_folders"].value)
    if folder is None:
        return None
    for name, setting in SETTINGS.items():
        first, *below = [one for one in layers if name in one.values]
        if first.found_in is None or setting.widens is None:
            continue
        if setting.widens(values[name], below[0].values[name].value):
            raise untrusted(first.values[name].location, folder)
    return folder


def untrusted(location: str, folder: Path) -> ConfigError:
    """Word that a file that nobody vouches for says what it may not (SGK126)."""
    return messages.untrusted_file(location, str(folder), str(user_file(os.environ)))
