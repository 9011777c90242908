"""The package that ``subgraphkit new-backend`` writes, and the options that commands write."""
