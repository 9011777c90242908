"""An environment without settings, and distributions that look installed."""

from tests.unit.finding.conftest import _no_settings, install

__all__ = ["_no_settings", "install"]
