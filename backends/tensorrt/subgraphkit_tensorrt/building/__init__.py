"""From a subgraph to a plan: network, profiles, builder configuration, build, report."""
