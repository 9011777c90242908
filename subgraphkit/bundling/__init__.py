"""Bundles: a compiled plan in a folder, to be run elsewhere without partitioning or compiling."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
