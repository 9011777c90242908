"""Claims of the TensorRT backend: three filters, and the reasons for nodes that stay in them.

Static rules need no library. The parser is asked about what they let through, again and again,
until all that is left is proven. The builder has the last word, and what it refuses is learnt.
"""
