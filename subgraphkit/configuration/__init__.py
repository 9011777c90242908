"""The settings of a bind: selections, layers, files, environment, and the origin of each value."""
