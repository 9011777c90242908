"""Comparing backends: is it right, how fast is it, does it work here.

``verify`` compares the results of two backends, for the whole model and subgraph by subgraph.
``bisect`` goes on to the smallest part that is wrong. ``find_not_finite`` finds where NaN begins.
``bench`` measures backends on one model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
