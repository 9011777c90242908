"""Claims of one property after the other, each on the nodes that those before it left."""
