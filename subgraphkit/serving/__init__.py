"""Engines that carry sessions: Ray, Triton, and the protocol that inference servers share.

Each module is imported by whoever has its engine, and sees public names of subgraphkit alone.
"""
