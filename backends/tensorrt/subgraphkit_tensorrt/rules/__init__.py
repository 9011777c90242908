"""Rules about single nodes: the operator table, and the meaning of its entries."""
