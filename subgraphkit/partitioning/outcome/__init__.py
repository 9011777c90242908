"""Subgraphs cut from the claimed regions, verified, and the data of a partitioning."""
