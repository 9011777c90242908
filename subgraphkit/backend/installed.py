"""Versions of installed packages beside the core, for probes."""

from contextlib import suppress
from importlib.metadata import version


def installed_versions(*distributions: str) -> dict[str, str]:
    """Return the versions of distributions, of those that are installed."""
    found = {}
    for name in distributions:  # by name: no other metadata is read
        with suppress(Exception):  # it is not there, or nobody can read it
            found[name] = version(name)
    return found
