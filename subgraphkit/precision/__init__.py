"""The public door of precision: models in fewer bits, the ranges they need, and their accuracy.

``rewrite`` writes a model in fewer bits, and ``calibrate`` finds the ranges for int8.
``measure_accuracy`` compares a rewritten model with the original. ``precision_search`` finds the
nodes that have to keep float32. Names are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
