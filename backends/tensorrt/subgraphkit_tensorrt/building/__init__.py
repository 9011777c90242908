"""Builds: network, profiles, builder configuration and report, from a subgraph to a plan."""
