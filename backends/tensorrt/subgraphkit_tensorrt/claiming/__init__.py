"""Which nodes TensorRT gets: three sieves, and what is said of the nodes that stay in them.

Static rules need no library. The parser is asked about what they let through, again and again,
until all that is left is proven. The builder has the last word, and what it refuses is learnt.
"""
