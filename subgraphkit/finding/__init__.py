"""Plugins found, loaded, probed, registered and opened, each kept apart from the others."""
