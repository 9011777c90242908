"""The tests of the core; each backend keeps its own beside its code."""
