"""The public door of precision: models in fewer bits, the ranges they need, and their accuracy.

``rewrite`` writes a model anew, ``calibrate`` finds the ranges that int8 needs,
``measure_accuracy`` says how far a rewritten model is from the original, and ``precision_search``
finds the nodes that have to keep float32. Names are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
