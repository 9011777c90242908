"""Rules about single nodes: the operator table, and what its entries mean."""
