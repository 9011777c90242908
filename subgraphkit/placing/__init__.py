"""Placement by measurement: the front door, and who runs what, before a session runs and while."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
