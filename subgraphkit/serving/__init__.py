"""Engines that carry sessions: Ray, Triton, and the protocol that inference servers share.

Import a module if you have its engine; it uses only public names of subgraphkit.
"""
