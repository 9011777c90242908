"""The package that ``subgraphkit new-backend`` writes, and how it is written."""
