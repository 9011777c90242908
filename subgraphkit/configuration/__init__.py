"""The settings of a bind: selections, layers, files, environment, and the origin of each value."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
