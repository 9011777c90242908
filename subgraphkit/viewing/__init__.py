"""Viewing: plain data turned into one HTML page, or into a piece of one for a notebook.

Nothing of the road is known here. A room that has something to show makes sections of it: ``Text``,
``Table`` and ``Drawing``. ``page`` writes them as a file that needs nothing else, and
``fragment`` as HTML without a frame and without a script, as ``_repr_html_`` returns it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
