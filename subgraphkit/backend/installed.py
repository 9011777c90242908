"""Versions of what is installed beside the core, for probes to tell."""

from contextlib import suppress
from importlib.metadata import version


def installed_versions(*distributions: str) -> dict[str, str]:
    """Return the versions of distributions, of those that are installed."""
    found = {}
    for name in distributions:  # by name: of what else is installed no metadata is read
        with suppress(Exception):  # it is not there, or nobody can read what it is
            found[name] = version(name)
    return found
