"""Placement by measurement: the front door, and the choice of backends before and during runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
